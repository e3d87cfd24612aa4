"""Traces that workers judge: the same as in one process, also after a command was cut off."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from scripts.engine_samples import write_traces
from tests.engine.serial_engine import SerialChoice, SerialEngine

from tallymark.errors import TraceError, WorkFailed
from tallymark.runs.record import CaseResult, RunRecord
from tallymark.scoring import Expected, load_scorer
from tallymark.service.app import App
from tallymark.service.trace_blocks import TraceInput, TraceScoring, judge_on_engine
from tallymark.store import Store, open_store
from tallymark.suites import ScoredTraces
from tallymark.suites.scored_traces import JudgedTraces
from tallymark.traces import read_traces, trace_parts

SCORERS = ("no_errors", "contains(values=['refund'])")
EXPECTED = {"t-4": Expected(output="x"), "nobody": Expected(output="y")}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(str(tmp_path / "tally.db")) as opened:
        yield opened


@pytest.fixture
def traces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of many parts, some of its ids missing or used twice."""
    write_traces(tmp_path, 400, 1)
    path = tmp_path / "traces.jsonl"
    monkeypatch.setattr(trace_parts.cut_lines, "__kwdefaults__", {"size": 8_000, "content": False})
    return path


def score(
    path: Path,
    store: Store,
    engine: SerialEngine,
    *,
    times: int = 1,
    skip: bool = False,
    some: bool = False,
    finish: Callable[[], object] | None = None,
) -> tuple[list[CaseResult], JudgedTraces, list[str]]:
    """By an engine, in the order in which results come; `finish` puts them where they belong."""
    broken: list[str] = []
    given = TraceInput(
        [str(path)] * times,
        None,
        lambda: read_traces(path, skip_broken=skip, on_broken=note),
        some=some,
    )
    scoring = TraceScoring(SCORERS, expected=EXPECTED, skip_broken=skip)

    def note(error: TraceError) -> None:
        broken.append(str(error))

    judged = JudgedTraces([load_scorer(each) for each in SCORERS], **how(store))
    choice = SerialChoice(engine=engine)
    with (
        judge_on_engine(
            choice, scoring, given, judged, app=App.over(store), on_broken=note
        ) as forget,
        closing(iter(judged)) as results,
    ):
        found = list(results)
        if finish is not None:
            finish()
        forget()
    return found, judged, broken


def how(store: Store) -> dict[str, Any]:
    return {"name": "traces", "expected": EXPECTED, "store": store}


def summed(record: RunRecord) -> dict[str, Any]:
    names = ("status", "score", "score_low", "metrics", "passed", "failed", "errors", "total")
    return {name: getattr(record, name) for name in names}


@pytest.mark.parametrize("some", [False, True], ids=["parts", "lots"])
def test_it_is_the_run_of_one_process(traces: Path, store: Store, some: bool) -> None:
    scorers = [load_scorer(each) for each in SCORERS]
    alone = ScoredTraces(read_traces(traces), scorers, **how(store))
    expected = list(alone)
    found, judged, _ = score(traces, store, SerialEngine(3), some=some)
    assert found == expected
    assert judged.unmet == alone.unmet == 1
    assert summed(judged.run.record) == summed(alone.run.record)
    assert judged.run.results == alone.run.results
    stored = [list(store.results(each.run.record.id)) for each in (alone, judged)]
    assert stored[0] == stored[1]


def test_a_file_that_is_named_twice_counts_twice(traces: Path, store: Store) -> None:
    once, _, _ = score(traces, store, SerialEngine(3))
    twice, _, _ = score(traces, store, SerialEngine(3), times=2)
    assert len(twice) == 2 * len(once) > 0


def test_workers_count_the_epochs_of_a_case(tmp_path: Path, store: Store) -> None:
    path = tmp_path / "repeated.jsonl"
    lines = (f'{{"trace_id":"{n}","case":"a","epoch":1,"output":"x"}}\n' for n in range(3))
    path.write_text("".join(lines))
    found, _, _ = score(path, store, SerialEngine())
    assert [result.key for result in found] == [("a", 0), ("a", 1), ("a", 2)]


def test_the_runs_of_models_are_gone_on_with(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "models.jsonl"
    told = ({"case": f"c{n // 2}", "epoch": 1, "model": "xy"[n % 2]} for n in range(2000))
    lines = (
        msgspec.json.encode({"trace_id": f"t-{n}", "output": "refund", "metadata": each})
        for n, each in enumerate(told)
    )
    path.write_bytes(b"\n".join(lines))
    monkeypatch.setattr(trace_parts.cut_lines, "__kwdefaults__", {"size": 2_000, "content": False})
    engine = SerialEngine()
    engine.die_after = 40
    with pytest.raises(KeyboardInterrupt):
        score(path, store, engine)
    begun = {run.id: run.model for run in store.runs(limit=None)}
    assert sorted(begun.values()) == ["x", "y"]
    engine.die_after = None
    _, judged, _ = score(path, store, engine)
    ended = {run.record.id: run.record.model for run in judged.runs}
    assert judged.goes_on
    assert begun == ended == {run.id: run.model for run in store.runs(limit=None)}
    assert [run.record.total for run in judged.runs] == [1000, 1000]
    assert len({run.record.group for run in judged.runs} - {None}) == 1


def test_a_command_that_was_cut_off_goes_on_with_its_run(traces: Path, store: Store) -> None:
    engine = SerialEngine()
    engine.die_after = 25
    with pytest.raises(KeyboardInterrupt):
        score(traces, store, engine)
    (begun,) = store.runs(limit=None)
    assert begun.status == "cancelled"
    engine.die_after = None
    found, judged, _ = score(traces, store, engine)
    (ended,) = store.runs(limit=None)
    assert (ended.id, ended.status, judged.run.record.id) == (begun.id, "completed", begun.id)
    assert engine.done == len(list(trace_parts.cut_lines(traces)))  # each once
    assert len(found) == len(list(store.results(ended.id))) == 400
    score(traces, store, engine)  # nothing is left of it: the same again is another run
    assert len(store.runs(limit=None)) == 2


def test_a_command_that_ends_before_its_file_is_whole_has_no_second_run(
    traces: Path, store: Store
) -> None:
    def fail() -> None:
        raise WorkFailed("no space is left")

    engine = SerialEngine()
    with pytest.raises(WorkFailed):
        score(traces, store, engine, finish=fail)
    (begun,) = store.runs(limit=None)
    done = engine.done
    found, _, _ = score(traces, store, engine)
    (ended,) = store.runs(limit=None)
    assert (ended.id, ended.status, engine.done) == (begun.id, "completed", done)
    assert len(found) == len(list(store.results(ended.id))) == 400


def test_other_files_and_scorers_are_other_work(traces: Path, store: Store) -> None:
    engine = SerialEngine()
    engine.die_after = 25
    with pytest.raises(KeyboardInterrupt):
        score(traces, store, engine)
    engine.die_after = None
    with traces.open("a") as file:
        file.write('{"trace_id": "new", "output": "refund"}\n')
    found, _, _ = score(traces, store, engine)
    assert len(found) == 401
    assert len(store.runs(limit=None)) == 2


def change_content(path: Path, _: pytest.MonkeyPatch) -> None:
    """The same size, and said to be as old as before."""
    before = path.stat()
    path.write_bytes(path.read_bytes().replace(b'"t-2"', b'"t_2"', 1))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def change_helper(path: Path, _: pytest.MonkeyPatch) -> None:
    with path.with_name("bonus.py").open("a") as file:
        file.write("GIVEN = 0.5\n")


def change_variable(_: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACE_BONUS", "0.5")


def change_version(_: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tallymark.service.bulk_work.find_version", lambda _: "99")


@pytest.mark.parametrize("change", [change_content, change_helper, change_variable, change_version])
def test_nothing_is_kept_from_before_a_change(
    traces: Path,
    store: Store,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[Path, pytest.MonkeyPatch], None],
) -> None:
    traces.with_name("bonus.py").write_text('import os\nNAME = "TRACE_BONUS"\nGIVEN = 0.1\n')
    monkeypatch.syspath_prepend(traces.parent)
    monkeypatch.delitem(sys.modules, "bonus", raising=False)
    importlib.import_module("bonus")
    engine = SerialEngine()
    engine.die_after = 25
    with pytest.raises(KeyboardInterrupt):
        score(traces, store, engine)
    change(traces, monkeypatch)
    engine.die_after = None
    score(traces, store, engine)
    assert engine.done == 25 + len(list(trace_parts.cut_lines(traces)))  # all anew
    assert sorted(each.status for each in store.runs(limit=None)) == ["cancelled", "completed"]
    monkeypatch.delitem(sys.modules, "bonus")


@pytest.mark.parametrize("some", [False, True], ids=["parts", "lots"])
def test_a_broken_record_ends_it_where_it_stands(traces: Path, store: Store, some: bool) -> None:
    lines = traces.read_text("utf-8").splitlines()
    lines[300] = "broken"
    traces.write_text("\n".join(lines), "utf-8")
    with pytest.raises(TraceError, match=r"traces.jsonl:301: not valid JSON"):
        score(traces, store, SerialEngine(), some=some)
    (run,) = store.runs(limit=None)
    assert len(list(store.results(run.id))) == 300


def test_broken_records_are_passed_over_when_asked(traces: Path, store: Store) -> None:
    lines = traces.read_text("utf-8").splitlines()
    lines[3] = lines[250] = "broken"
    lines[350] = msgspec.json.encode(
        {"trace_id": "odd", "metadata": {"expected": {"output_contains": 3}}}
    ).decode()
    traces.write_text("\n".join(lines), "utf-8")
    found, _, broken = score(traces, store, SerialEngine(), skip=True)
    assert len(found) == 397
    assert [each.split(": ")[0].rpartition(":")[2] for each in broken[:2]] == ["4", "251"]
    assert len(broken) == 3
