"""Files that exports wrote, loaded: the same board, the same runs, and never half of one."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from msgspec.structs import replace
from tests.store.contest_samples import (
    FULL_OUTCOME,
    a_challenge,
    an_outcome,
    play,
    quick_store,
    scored,
)
from tests.store.played_store import make_played
from tests.store.run_samples import a_result

from tallymark.challenges.attempt import Metrics
from tallymark.errors import Conflict, InvalidInput, TallymarkError, TraceError
from tallymark.runs.record import RunRecord
from tallymark.runs.reviews import CaseKey, GivenScore
from tallymark.service.attempts import describe_attempt
from tallymark.service.callers import Caller
from tallymark.service.exports import (
    Exports,
    RunResult,
)
from tallymark.service.loads import open_traces
from tallymark.service.resources import Resources
from tallymark.service.tables import ATTEMPTS, RESULTS, SCORES, TRACES, RunNotes, write_table
from tallymark.service.trace_intake import TraceIntake
from tallymark.store import Store
from tallymark.traces import Span, Trace


@pytest.fixture
def old(tmp_path: Path) -> Iterable[Store]:
    with quick_store(f"sqlite:///{make_played(tmp_path / 'old.db')}") as store:
        yield store


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.proof)])
def new(tmp_path: Path, request: pytest.FixtureRequest) -> Iterable[Store]:
    url = f"sqlite:///{tmp_path / 'new.db'}"
    if request.param == "postgresql":
        url = request.getfixturevalue("postgres_url")
    with quick_store(url) as store:
        yield store


def exports(store: Store) -> Exports:
    return Resources.over(store).exports


def contest(store: Store) -> None:
    """Three agents; a void attempt, a failed one, one given up, and two versions."""
    store.challenges.publish(a_challenge(), b"", at=0.0)
    play(store, "alice", replace(FULL_OUTCOME, score=5.0), at=10.0)
    store.attempts.withdraw(
        store.attempts.enter("sums", "alice", at=15.0, seed=1).id, "alice", 16.0
    )
    play(store, "alice", an_outcome(9.0), at=20.25)
    play(store, "bob", an_outcome(None, ranks=False, error="broken", result=None), at=30.0)
    cheated = play(store, "charlie", an_outcome(99.0), at=40.0)
    store.challenges.publish(a_challenge(version="v2"), b"", at=45.0)
    play(store, "bob", an_outcome(7.0), at=50.0)
    store.attempts.void(cheated.id, at=60.0, reason="it looked")
    store.attempts.enter("sums", "charlie", at=70.0, seed=1)


def tell(store: Store, **left_out: Any) -> list[Any]:
    found = exports(store).attempts("sums", live=True)
    return [replace(each, id="", **left_out) for each in found if each.state != "entered"]


def test_attempts_are_as_they_were(new: Store, tmp_path: Path) -> None:
    path = tmp_path / "attempts.parquet"
    with quick_store(f"sqlite:///{tmp_path / 'first.db'}") as first:
        contest(first)
        assert write_table(path, ATTEMPTS, exports(first).attempts("sums", live=True)) == 7
        board, made = first.boards.top("sums"), tell(first)
    new.challenges.publish(a_challenge(), b"", at=0.0)
    with pytest.raises(TallymarkError, match="v2"):
        Resources.over(new, clock=lambda: 99.0).loads.attempts(path)
    assert not tell(new)
    new.challenges.publish(a_challenge(version="v2"), b"", at=1.0)
    assert Resources.over(new, clock=lambda: 99.0).loads.attempts(path) == (6, 0, 1)
    assert tell(new) == made
    shown = [(each.rank, each.agent, each.score) for each in new.boards.top("sums")]
    assert shown == [(each.rank, each.agent, each.score) for each in board]
    assert Resources.over(new, clock=lambda: 100.0).loads.attempts(path) == (0, 6, 1)
    assert not new.check_all().differences
    assert new.ratings.of("alice").matches == 0


@pytest.mark.parametrize("number", [0, 2**31])
def test_a_number_that_counts_no_attempt_is_refused(
    new: Store, tmp_path: Path, number: int
) -> None:
    path = tmp_path / "attempts.parquet"
    write_table(path, ATTEMPTS, [describe_attempt(scored("alice", an_outcome(), number=number))])
    with pytest.raises(InvalidInput, match=f"row 1: number: {number} counts no attempt"):
        Resources.over(new, clock=lambda: 99.0).loads.attempts(path)


def test_less_than_nothing_used_is_refused(new: Store, tmp_path: Path) -> None:
    path = tmp_path / "attempts.parquet"
    cheap = replace(an_outcome(), metrics=Metrics(succeeded=True, cost=-0.01))
    write_table(
        path,
        ATTEMPTS,
        [describe_attempt(scored(each, cheap, number=1)) for each in ("alice", "bob")],
    )
    with pytest.raises(InvalidInput, match="row 1: cost is below zero"):
        Resources.over(new, clock=lambda: 99.0).loads.attempts(path)


def test_attempts_of_which_some_are_missing_are_not_loaded(new: Store, tmp_path: Path) -> None:
    path = tmp_path / "attempts.parquet"
    with quick_store(f"sqlite:///{tmp_path / 'first.db'}") as first:
        contest(first)
        made = list(exports(first).attempts("sums", live=True))
    write_table(path, ATTEMPTS, [each for each in made if each.state != "withdrawn"])
    for version in ("v1", "v2"):
        new.challenges.publish(a_challenge(version=version), b"", at=0.0)
    with pytest.raises(InvalidInput, match="some attempts of 'alice' are missing"):
        Resources.over(new, clock=lambda: 99.0).loads.attempts(path)
    assert not tell(new)


def test_another_attempt_of_the_same_number_is_in_the_way(new: Store, tmp_path: Path) -> None:
    path = tmp_path / "attempts.parquet"
    contest(new)
    write_table(path, ATTEMPTS, exports(new).attempts("sums", live=True))
    table = pq.read_table(path)
    later = pa.array([each + 1_000_000 for each in _micros(table)], pa.timestamp("us", "UTC"))
    table = table.set_column(table.column_names.index("submitted_at"), "submitted_at", later)
    pq.write_table(table, path)
    before = tell(new)
    with pytest.raises(Conflict, match="'alice' has made another attempt 1 here"):
        Resources.over(new, clock=lambda: 99.0).loads.attempts(path)
    assert tell(new) == before


def _micros(table: Any) -> list[int]:
    return [each or 0 for each in table["submitted_at"].cast(pa.int64()).to_pylist()]


def export_results(store: Store, path: Path) -> None:
    notes = RunNotes()
    records = [store.run(each.id) for each in store.runs(limit=None)]
    for each in records:
        notes.gather(each)
    write_table(
        path,
        RESULTS,
        exports(store).results([each.id for each in records]),
        notes.write,
    )


def show_runs(store: Store) -> list[Any]:
    found = []
    for each in store.runs(limit=None):
        record = store.run(each.id)
        # What came from a file is marked: nothing that it names is run here.
        tags = {name: value for name, value in record.tags.items() if name != "sent"}
        found.append((replace(record, tags=tags), list(store.results(each.id, with_traces=True))))
    return found


def test_runs_traces_and_scores_are_as_they_were(old: Store, new: Store, tmp_path: Path) -> None:
    paths = [tmp_path / f"{name}.parquet" for name in ("results", "traces", "scores")]
    some = next(each for each in old.runs() if each.passed)
    case = next(old.results(some.id))
    key = CaseKey(some.id, case.case, case.epoch)
    old.reviews.give(key, "bob", GivenScore(label="pass", comment="yes"), at=5.5)
    trace = next(exports(old).traces()).trace.trace_id
    alice = Caller("default", "reporter", "alice")
    Resources.over(old, caller=alice).traces.score(trace, "helpful", 0.25, expected="12 °C")
    export_results(old, paths[0])
    write_table(paths[1], TRACES, exports(old).traces())
    write_table(paths[2], SCORES, exports(old).scores())

    with pytest.raises(InvalidInput, match=r"scores.parquet, row 1: there is no trace"):
        Resources.over(new).loads.scores(paths[2])
    assert Resources.over(new).loads.results(paths[0]).runs == len(old.runs(limit=None))
    assert all(each.tags["sent"] for each in new.runs(limit=None))
    assert show_runs(new) == show_runs(old)
    TraceIntake(new).load(open_traces(paths[1]))
    assert {each.trace.trace_id: each.trace for each in exports(new).traces()} == {
        each.trace.trace_id: each.trace for each in exports(old).traces()
    }
    assert Resources.over(new).loads.scores(paths[2]) == (2, 0)
    again = [replace(each, at=0.0, created_at=0.0) for each in exports(new).scores()]
    assert again == [replace(each, at=0.0, created_at=0.0) for each in exports(old).scores()]
    assert Resources.over(new).loads.results(paths[0]).runs == 0
    assert Resources.over(new).loads.scores(paths[2]) == (0, 2)
    assert not new.check_all().differences


def keep_traces(store: Store, traces: Iterable[Trace], at: float) -> list[tuple[float, int]]:
    """The moment and version of each trace that there is then."""
    store.prepare()
    TraceIntake(store, clock=lambda: at).load(traces)
    return [(each.record.started_at, each.record.version) for each in exports(store).traces()]


def test_a_trace_without_times_keeps_the_moment_that_its_file_tells(
    new: Store, tmp_path: Path
) -> None:
    path = tmp_path / "traces.parquet"
    undated = Trace.from_dict({"trace_id": "t", "input": "q", "output": "a"})
    with quick_store(f"sqlite:///{tmp_path / 'first.db'}") as first:
        was = keep_traces(first, [undated], 1000.25)
        write_table(path, TRACES, exports(first).traces())
        assert was == keep_traces(first, open_traces(path), 2000.0) == [(1000.25, 1)]
    for at in (3000.0, 4000.0):  # what is loaded again adds nothing
        assert keep_traces(new, open_traces(path), at) == was
    assert not new.check_all().differences


@pytest.mark.parametrize(
    ("results", "said"),
    [
        ([("r1", a_result("a", status="failed"))], "passed is 1, and should be 0 by its results"),
        ([("r1", a_result("a")), ("r1", a_result("a"))], "row 2: the case 'a' is there twice"),
        ([("r1", a_result("a")), ("r2", a_result("b"))], "row 2: run: the file does not describe"),
    ],
)
def test_of_a_wrong_file_nothing_is_kept(
    new: Store, tmp_path: Path, results: list[Any], said: str
) -> None:
    record = RunRecord(id="r1", suite="s", model="m", status="completed", passed=1, total=1)
    notes = RunNotes()
    notes.gather(record)
    path = tmp_path / "results.parquet"
    given = [RunResult(replace(record, id=run), result) for run, result in results]
    write_table(path, RESULTS, given, notes.write)
    with pytest.raises(InvalidInput) as caught:
        Resources.over(new).loads.results(path)
    assert said in str(caught.value)
    new.prepare()
    assert not new.runs()


def test_runs_that_another_tool_lost_are_what_their_results_come_to(
    new: Store, tmp_path: Path
) -> None:
    path = tmp_path / "results.parquet"
    record = RunRecord(id="r1", suite="s", model="m", created_at=7.5, score_formula="total_cost")
    kinds: list[Any] = ["passed", "failed", "error", "passed"]
    given = [a_result(str(n), status=kind, cost=0.25) for n, kind in enumerate(kinds)]
    write_table(path, RESULTS, [RunResult(record, each) for each in given])
    assert Resources.over(new).loads.results(path) == (1, 4, 0, 1)
    found = new.run("r1")
    assert (found.suite, found.model, found.created_at) == ("s", "m", 7.5)
    assert (found.passed, found.failed, found.errors, found.total) == (2, 1, 1, 4)
    assert (found.status, found.score_formula, found.tags) == (
        "partial_failure",
        "success_pct",
        {"sent": True},
    )
    assert found.score == pytest.approx(200 / 3)
    assert sorted(new.results("r1"), key=lambda each: each.case) == given
    assert Resources.over(new).loads.results(path) == (0, 0, 1, 1)
    assert not new.check_all().differences
    write_table(path, RESULTS, [RunResult(record, each) for each in given[:2]])
    with pytest.raises(Conflict, match="already another run 'r1'"):
        Resources.over(new).loads.results(path)


def nest(levels: int) -> Trace:
    deep: Any = "x"
    for _ in range(levels):
        deep = {"a": deep}
    return Trace(trace_id="deep", spans=[Span(span_id="1", metadata={"m": deep})])


def test_a_deeply_nested_trace_is_carried(new: Store, tmp_path: Path) -> None:
    path = tmp_path / "traces.parquet"
    with quick_store(f"sqlite:///{tmp_path / 'first.db'}") as first:
        keep_traces(first, [nest(600)], 1000.0)
        write_table(path, TRACES, exports(first).traces())
    keep_traces(new, open_traces(path), 2000.0)
    assert new.traces.load("deep").spans == nest(600).spans


def test_one_that_is_too_deep_to_keep_is_named(new: Store) -> None:
    with pytest.raises(TraceError, match="the trace 'deep' is nested too deeply to keep"):
        keep_traces(new, [nest(2000)], 1000.0)
