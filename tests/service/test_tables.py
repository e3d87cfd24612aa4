"""Tables: what was told is read again, DuckDB gets our numbers, and a wrong file is refused."""

from __future__ import annotations

import math
import re
import resource
from collections.abc import Callable, Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.effort import examples
from tests.store.contest_samples import FULL_OUTCOME, a_challenge, an_outcome, quick_store, scored
from tests.store.played_store import make_played
from tests.store.run_samples import FULL_RESULT, FULL_RUN, a_result

from tallymark.challenges.attempt import Outcome
from tallymark.errors import InvalidInput
from tallymark.parquet_rows import _bound_memory
from tallymark.runs.record import RunRecord
from tallymark.service.attempts import AttemptRecord, describe_attempt
from tallymark.service.callers import Caller
from tallymark.service.exports import (
    Exports,
    RunResult,
    ScoreLine,
)
from tallymark.service.resources import Resources
from tallymark.service.tables import (
    ATTEMPTS,
    RESULTS,
    SCORES,
    TRACES,
    RunNotes,
    Table,
    TableFile,
    read_runs,
    write_table,
)
from tallymark.store import Store


def exports(store: Store) -> Exports:
    return Resources.over(store).exports


def record(agent: str, outcome: Outcome) -> AttemptRecord:
    return describe_attempt(scored(agent, outcome))


def round_trip(table: Table[Any, Any], given: Iterable[Any]) -> list[Any]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "table.parquet"
        write_table(path, table, given)
        return list(TableFile(path, table))


# To the microsecond, as files tell times; beyond the year 9999 nobody plays.
moments = st.integers(0, 250_000_000_000_000_000).map(lambda micro: micro / 1_000_000)
numbers = st.floats(allow_nan=False, allow_infinity=False)
wholes = st.integers(-(2**63), 2**63 - 1)
words = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
maybe = st.none
maps = st.dictionaries(words, numbers | maybe(), max_size=3)
jsons = st.recursive(maybe() | st.booleans() | numbers | words, st.lists)
metrics = st.fixed_dictionaries(
    {
        "succeeded": st.booleans(),
        "tokens_total": wholes | maybe(),
        "elapsed_ms": wholes | maybe(),
        "cost": numbers | maybe(),
        "more": maps,
    }
)
outcomes = st.builds(
    lambda score, metrics, details, **more: replace(
        FULL_OUTCOME,
        score=score,
        metrics=replace(FULL_OUTCOME.metrics, **metrics),
        details=details,
        **more,
    ),
    score=numbers | maybe(),
    metrics=metrics,
    details=st.fixed_dictionaries(
        {}, optional={"evaluation": maps.filter(bool), "harness_warning": words.filter(bool)}
    ),
    dimensions=st.dictionaries(words, numbers, max_size=2),
    error=words | maybe(),
    ranks=st.booleans(),
)
attempts = st.builds(
    scored,
    agent=words,
    outcome=outcomes | maybe(),
    at=moments,
    expires_at=moments,
    seed=wholes,
    voided_at=moments | maybe(),
    state=st.sampled_from(["entered", "scored", "failed", "expired"]),
)
lines = st.builds(
    ScoreLine,
    of=st.just("trace"),
    trace_id=words,
    name=words,
    value=numbers | maybe(),
    metadata=st.dictionaries(words, jsons, max_size=2),
    created_at=moments,
    at=moments,
    cost=numbers | maybe(),
)
results = st.builds(
    lambda case, **more: replace(FULL_RESULT, case=case, **more),
    case=words,
    cost=numbers | maybe(),
    latency=numbers | maybe(),
    input_tokens=wholes | maybe(),
    error=words | maybe(),
    output=words,
)


@settings(max_examples=examples(100))
@given(st.lists(attempts, max_size=4), st.lists(results, max_size=4), st.lists(lines, max_size=4))
def test_what_was_told_is_read_again(mine: list[Any], cases: list[Any], given: list[Any]) -> None:
    again = round_trip(ATTEMPTS, map(describe_attempt, mine))
    assert list(map(describe_attempt, again)) == list(map(describe_attempt, mine))
    told = [RunResult(RunRecord(id="r", suite="s", model="m"), each) for each in cases]
    assert [each.result for each in round_trip(RESULTS, told)] == cases
    assert round_trip(SCORES, given) == given


def test_many_blocks_are_one_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tallymark.parquet_rows._ROWS", 7)
    monkeypatch.setattr("tallymark.parquet_rows._READ", 5)
    given = [scored(f"a{number}", an_outcome(float(number))) for number in range(40)]
    assert round_trip(ATTEMPTS, map(describe_attempt, given)) == given


@pytest.fixture
def store(tmp_path: Path) -> Iterable[Store]:
    with quick_store(f"sqlite:///{make_played(tmp_path / 'tally.db')}") as store:
        yield store


def ask(path: Path, sql: str) -> list[Any]:
    with duckdb.connect() as connection:
        return connection.execute(sql.replace("FILE", f"'{path}'")).fetchall()


def read_queries() -> list[str]:
    """What the documentation has one ask."""
    page = Path("docs/parquet.md").read_text(encoding="utf-8")
    [queries] = re.findall(r"```sql\n(.*?)```", page, re.DOTALL)
    return [each for each in queries.split(";") if each.strip()]


def test_duckdb_gets_our_board(tmp_path: Path) -> None:
    """Best score of each agent; who had it first is before who had it later."""
    scores: dict[str, list[float | None]] = {"alice": [3.0, 5.0], "bob": [5.0, 1.0]}
    scores |= {"charlie": [None, 2.0], "dora": [7.5]}
    tries = [(who, score) for who, given in scores.items() for score in given]
    with quick_store(f"sqlite:///{tmp_path / 'tally.db'}") as store:
        store.challenges.publish(a_challenge(), b"", at=0.0)
        made = [
            scored(
                who,
                an_outcome(score, ranks=score is not None, error=None if score else "broken"),
                10.0 + nth,
            )
            for nth, (who, score) in enumerate(tries)
        ]
        store.attempts.load("sums", made, at=99.0)
        path = tmp_path / "attempts.parquet"
        assert write_table(path, ATTEMPTS, exports(store).attempts("sums", live=True)) == 7
        board = [(each.rank, each.agent, each.score) for each in store.boards.top("sums")]
    by_sql = ask(
        path,
        """SELECT row_number() OVER (ORDER BY score DESC, submitted_at), agent, score FROM (
               SELECT agent, score, submitted_at FROM FILE WHERE ranks AND voided_at IS NULL
               QUALIFY row_number() OVER (PARTITION BY agent ORDER BY score DESC, submitted_at) = 1
           ) ORDER BY 1""",
    )
    assert by_sql == board
    # What was not measured is null, and no mean knows of it.
    counts = ask(path, "SELECT count(*), count(score), avg(score) FROM FILE")
    known = [score for _, score in tries if score is not None]
    assert counts == [(7, 6, pytest.approx(sum(known) / len(known)))]
    assert ask(path, "SELECT min(epoch(entered_at)) FROM FILE") == [(10.0,)]


def test_duckdb_gets_our_runs_traces_and_scores(store: Store, tmp_path: Path) -> None:
    runs = store.runs(limit=None, sort="created_at", descending=False)
    path = tmp_path / "results.parquet"
    write_table(path, RESULTS, exports(store).results([each.id for each in runs]))
    found = ask(
        path,
        """SELECT run, count(*) FILTER (status = 'passed'), count(*) FILTER (status = 'failed'),
                  count(*) FILTER (status = 'error') FROM FILE GROUP BY run ORDER BY run""",
    )
    ours = sorted((each.id, each.passed, each.failed, each.errors) for each in runs)
    assert found == [each for each in ours if sum(each[1:])]
    costs = dict(ask(path, "SELECT run, sum(cost) FROM FILE GROUP BY run"))
    for each in runs:
        if (cost := each.metrics.get("total_cost")) is not None and each.id in costs:
            assert math.isclose(costs[each.id], cost)

    path = tmp_path / "traces.parquet"
    write_table(path, TRACES, exports(store).traces())
    traces = Resources.over(store, caller=Caller("default", "reporter", "alice")).traces
    sums = traces.sums().whole
    told = ask(path, "SELECT count(*), sum(spans), sum(cost), list(trace_id) FROM FILE")
    assert told[0][0] == sums.traces
    assert math.isclose(told[0][2], sum(each.record.cost or 0 for each in exports(store).traces()))

    traces.score(told[0][3][0], "helpful", 0.25)
    path = tmp_path / "scores.parquet"
    write_table(path, SCORES, exports(store).scores())
    assert ask(path, "SELECT name, author, value FROM FILE") == [("helpful", "alice", 0.25)]

    write_table(
        tmp_path / "sums.parquet",
        ATTEMPTS,
        exports(store).attempts("sums", live=True),
    )
    for sql in read_queries():
        files = re.sub(r"'(\w+\.parquet)'", rf"'{tmp_path}/\1'", sql)
        ask(path, files)  # it would raise


def test_what_spark_writes_is_read(tmp_path: Path) -> None:
    """A folder of parts is one table; moments are in an old form that names no time zone."""
    given = [scored(f"a{nth}", an_outcome(nth / 4), at=1.5e9 + nth / 8) for nth in range(7)]
    given.append(replace(given[0], expires_at=250_000_000_000.0))  # beyond what nanoseconds count
    write_table(tmp_path / "whole.parquet", ATTEMPTS, map(describe_attempt, given))
    whole = pq.read_table(tmp_path / "whole.parquet")
    folder = tmp_path / "parts.parquet"
    folder.mkdir()
    for nth, start in enumerate((0, 3, 8)):  # the last one is empty
        part = whole.slice(start, 5 if start else 3)
        pq.write_table(part, folder / f"part-{nth}.parquet", use_deprecated_int96_timestamps=True)
    for name in ("_SUCCESS", "._SUCCESS.crc", "_temporary.parquet"):
        (folder / name).touch()
    found = TableFile(folder, ATTEMPTS)
    assert (list(found), len(found)) == (given, 8)
    assert str(found.refuse(4, "odd")).startswith(f"{folder / 'part-1.parquet'}, row 1: odd")
    for each in folder.glob("part*"):
        each.unlink()
    with pytest.raises(InvalidInput, match=r"parts.parquet is a folder without a Parquet file"):
        TableFile(folder, ATTEMPTS)


def test_decimal_numbers_are_numbers(tmp_path: Path) -> None:
    path = tmp_path / "attempts.parquet"
    write_table(path, ATTEMPTS, [record("alice", an_outcome(0.25))])
    table = pq.read_table(path)
    pq.write_table(set_column("score", table["score"].cast(pa.decimal128(9, 4)))(table), path)
    assert [each.outcome.score for each in TableFile(path, ATTEMPTS) if each.outcome] == [0.25]


def test_runs_are_told_with_their_results(tmp_path: Path) -> None:
    notes, path = RunNotes(), tmp_path / "results.parquet"

    def tell() -> Iterable[RunResult]:
        notes.gather(FULL_RUN)
        yield RunResult(FULL_RUN, a_result())

    write_table(path, RESULTS, tell(), notes.write)
    assert read_runs(TableFile(path, RESULTS)) == ([FULL_RUN], True)


def test_a_file_takes_its_name_when_it_is_whole(tmp_path: Path) -> None:
    def break_off() -> Iterable[Any]:
        yield record("alice", an_outcome())
        raise InvalidInput("the server went away")

    path = tmp_path / "attempts.parquet"
    path.write_text("what was there before")
    with pytest.raises(InvalidInput, match="went away"):
        write_table(path, ATTEMPTS, break_off())
    assert [each.name for each in tmp_path.iterdir()] == ["attempts.parquet"]
    assert path.read_text() == "what was there before"
    with pytest.raises(InvalidInput, match=r"attempts.csv is no name of a table; one ends in"):
        write_table(path.with_suffix(".csv"), ATTEMPTS, [])


Change = Callable[[Any], Any]


def set_column(name: str, values: Any) -> Change:
    return lambda table: table.set_column(table.column_names.index(name), name, values)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda table: table.drop_columns(["agent"]),
            "has no column 'agent'; give a file that `tally export`",
        ),
        (set_column("score", pa.array(["5", "6"])), "'score' holds string, not numbers"),
        (set_column("score", pa.array([1.0, math.nan])), "row 2: 'score' is nan; use null for"),
        (set_column("submitted_at", pa.array([1, 2])), "holds int64, not timestamps with a time"),
        (set_column("agent", pa.array(["alice", None])), "row 2: agent: expected `str`, got `nul"),
        (
            set_column("state", pa.array(["scored", "won"])),
            "row 2: state: invalid enum value 'won'",
        ),
        (set_column("details", pa.array(["{}", "{"])), "row 2: a text that is no JSON: "),
        (set_column("details", pa.array(["{}", "[" * 9999])), "row 2: a text that is no JSON"),
        (set_column("number", pa.array([1, 2**64 - 1], pa.uint64())), "cannot be read as Parquet"),
        (
            set_column("scored_at", pa.array([0, 2**62], pa.timestamp("us", "UTC"))),
            "row 2: 'scored_at' is in no year from 1 to 9999",
        ),
        (
            lambda table: table.append_column("agent", pa.array(["carol", "dave"])),
            "has several columns 'agent'",
        ),
        (
            set_column("agent", pa.array([{"a\n\nb": 1}, None])),
            "'agent' holds struct<a b: int64>, not text",
        ),
    ],
)
def test_a_wrong_file_is_refused_in_a_sentence(tmp_path: Path, change: Change, said: str) -> None:
    path = tmp_path / "attempts.parquet"
    write_table(path, ATTEMPTS, [record(who, an_outcome()) for who in ("alice", "bob")])
    pq.write_table(change(pq.read_table(path)), path)
    with pytest.raises(InvalidInput) as caught:
        list(TableFile(path, ATTEMPTS))
    assert said in str(caught.value)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_a_small_file_that_asks_for_gigabytes_is_refused(tmp_path: Path) -> None:
    """One text of 1.5 MB that each of 2,000 rows names: 3 GB of a file of some KB."""
    path = tmp_path / "attempts.parquet"
    write_table(path, ATTEMPTS, [record("alice", an_outcome())])
    table = pq.read_table(path).take([0] * 2000)
    bomb = pa.DictionaryArray.from_arrays(pa.array([0] * 2000, pa.int32()), ["A" * 1_500_000])
    pq.write_table(set_column("error", bomb)(table), path, compression="zstd")
    assert path.stat().st_size < 50_000
    before = resource.getrlimit(resource.RLIMIT_AS)
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(InvalidInput, match="asks for more memory than a file may"):
        list(TableFile(path, ATTEMPTS))
    assert resource.getrlimit(resource.RLIMIT_AS) == before
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < most + 200_000  # KB


@pytest.mark.parametrize(("size", "megabytes"), [(10_000, 520), (10_000_000, 2048)])
def test_a_small_file_may_ask_for_less_memory_than_a_large_one(size: int, megabytes: int) -> None:
    """What a file says of its sizes may be a lie: its own size is none."""
    with _bound_memory(size):
        most = resource.getrlimit(resource.RLIMIT_AS)[0]
        now = int(Path("/proc/self/statm").read_text("ascii").split()[0]) * resource.getpagesize()
        assert most - now == pytest.approx(megabytes << 20, rel=0.02)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (
            pa.array([[("k", None)] * 3000], pa.map_(pa.string(), pa.float64())),
            "row group 1 has 3,000 values in a column .rows: 1.; write it again",
        ),
        (pa.array(["A" * 4_000_000]), "row group 1 would take 4,0"),
    ],
    ids=["a list without end", "a text that packs well"],
)
def test_what_no_small_file_should_hold_is_refused_by_what_it_says_of_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, values: Any, said: str
) -> None:
    monkeypatch.setattr("tallymark.parquet_rows._MOST_SMALL", 2_000_000)
    monkeypatch.setattr("tallymark.parquet_rows._MOST_VALUES", 2_000)
    path = tmp_path / "attempts.parquet"
    write_table(path, ATTEMPTS, [record("alice", an_outcome())])
    name = "error" if values.type == pa.string() else "dimensions"
    pq.write_table(set_column(name, values)(pq.read_table(path)), path, compression="zstd")
    with pytest.raises(InvalidInput, match=said):
        TableFile(path, ATTEMPTS)


def test_texts_and_maps_of_other_tools_are_what_they_were(tmp_path: Path) -> None:
    """Dictionaries, maps as lists of small rows, nulls, and rows that begin in the middle."""
    path = tmp_path / "attempts.parquet"
    write_table(path, ATTEMPTS, [record(who, FULL_OUTCOME) for who in ("alice", "bob", "carol")])
    before = list(TableFile(path, ATTEMPTS))
    table = pq.read_table(path)
    agents = table["agent"].combine_chunks().dictionary_encode()
    pairs = pa.list_(pa.struct([("key", pa.large_string()), ("value", pa.float64())]))
    maps = pa.array(
        [
            None if each is None else [{"key": k, "value": v} for k, v in each]
            for each in table["dimensions"].to_pylist()
        ],
        pairs,
    )
    other = set_column("dimensions", maps)(set_column("agent", agents)(table))
    pq.write_table(other, path, row_group_size=2)
    assert list(TableFile(path, ATTEMPTS)) == before


@pytest.mark.parametrize("body", [b"", b"PAR1", b"PAR1" + b"\xff" * 64 + b"PAR1", b"{}"])
def test_what_is_no_parquet_is_refused_in_a_sentence(tmp_path: Path, body: bytes) -> None:
    path = tmp_path / "attempts.parquet"
    with pytest.raises(InvalidInput, match="there is no file"):
        TableFile(path, ATTEMPTS)
    path.write_bytes(body)
    with pytest.raises(InvalidInput, match=r"attempts.parquet cannot be read as Parquet: "):
        TableFile(path, ATTEMPTS)
