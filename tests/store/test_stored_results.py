"""Results that stay in the store: what is made of them is what it would be with all in memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tallymark.judging.spending import JudgeSpending
from tallymark.runs import permutation_test
from tallymark.runs.case_columns import Array
from tallymark.runs.comparison import compare
from tallymark.runs.gates import find_too_many_errors
from tallymark.runs.ongoing_run import sort_by_suite
from tallymark.runs.record import CaseResult, CaseStatus, CheckResult, RunRecord
from tallymark.runs.report_formats import REPORT_FORMATS, load_report
from tallymark.runs.reports.csv_report import stream_csv
from tallymark.runs.reports.json_report import json_report, run_document, stream_json
from tallymark.runs.reports.junit_report import stream_junit
from tallymark.runs.reports.summary_report import summary
from tallymark.runs.run import Run, outcome
from tallymark.runs.tally import Tally
from tallymark.service.app import App
from tallymark.traces import Span, Trace

STATUSES: list[CaseStatus] = ["passed", "failed", "passed", "error", "passed"]
DEFINITION = '{"evals": [{"name": "zebra"}, {"name": "qa"}, {"prompt": "no name"}]}'


def make_result(case: str, epoch: int, number: int) -> CaseResult:
    status = STATUSES[number % len(STATUSES)]
    judge = JudgeSpending("m", 1, 10, 5, 0.001 * number) if number % 2 else None
    measured = CheckResult(
        kind="scorer", passed=status == "passed", name="tone", value=number % 4 / 3,
        label="calm", threshold=0.5, reason=f"because {number}", metadata={"n": number},
    )  # fmt: skip
    inner = CheckResult(kind="llm_judge", passed=True, judge=judge)
    return CaseResult(
        case=case,
        epoch=epoch,
        status=status,
        output=f"answer {number}",
        checks=(
            measured,
            CheckResult(kind="match", passed=status == "passed", reason="says no"),
            CheckResult(kind="or", passed=True, parts=(inner,)),
        ),
        latency=0.1 + number / 7,
        cost=0.01 * number,
        input_tokens=number,
        output_tokens=2 * number,
        tokens_counted_by="local" if number % 3 else "provider",
        error="no line" if status == "error" else None,
        trace=Trace(trace_id=str(number), spans=[Span(span_id="s", name="call")]),
    )


def keep_run(app: App, name: str, definition: str = DEFINITION, shift: int = 0) -> Run:
    """A run of a named eval, the rows of another, and an eval without a name; two epochs."""
    cases = ["zebra", *(f"qa[{row}]" for row in (10, 9, 2, 1)), "qa[x]", "#3"]
    keys = [(case, epoch) for case in cases for epoch in (0, 1)]
    results = [make_result(*key, number + shift) for number, key in enumerate(keys)]
    tally = Tally(results)
    summed = outcome(tally.formula("success_pct - total_cost"), tally)
    record = RunRecord(
        id=name, suite="s", model="m", definition=definition, epochs=2, total=14, **summed
    )
    app.store.create_run(record)
    app.store.add_results(record.id, results)
    return app.load_run(name)


def hold(app: App, run: Run) -> Run:
    """The same with all results in memory, in the order of the suite."""
    stored = app.store.results(run.record.id, with_traces=True)
    return Run(run.record, sort_by_suite(run.record, stored))


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    opened = App(str(tmp_path / "kept.db"))
    yield opened
    opened.close()


@pytest.mark.parametrize("definition", [DEFINITION, ""])
def test_they_come_in_the_order_of_the_suite(app: App, definition: str) -> None:
    kept = keep_run(app, "r1", definition)
    assert [*kept.results] == hold(app, kept).results
    assert len(kept.results) == 14
    if definition:
        names = ["zebra", "qa[x]", "qa[1]", "qa[2]", "qa[9]", "qa[10]", "#3"]
        assert list(kept.outcomes) == names


def test_what_counts_is_read_without_texts_and_comes_to_the_same(app: App) -> None:
    kept = keep_run(app, "r1")
    held = hold(app, kept)
    assert kept.tally.metrics() == held.tally.metrics()
    assert kept.scorers == held.scorers
    assert kept.tally.cases == held.tally.cases
    assert {each.output for each in app.store.counted_results("r1")} == {""}


def test_counted_late_they_come_to_the_same_in_the_same_order(app: App) -> None:
    kept = keep_run(app, "r1")
    late, held = app.find_run("r1"), hold(app, kept)
    for run in (kept, late):
        assert list(run.tally.cases.items()) == list(held.tally.cases.items())
        assert list(run.tally.evals) == list(held.tally.evals) == ["zebra", "qa"]
    assert late.metrics == held.metrics


def test_a_run_that_has_not_ended_is_listed_with_its_results_so_far(app: App) -> None:
    app.store.create_run(RunRecord(id="r1", suite="s", model="m", status="running", total=9))
    app.store.add_results("r1", [make_result(f"c{n}", 0, n) for n in range(6)])
    [listed] = app.store.runs()
    assert (listed.passed, listed.failed, listed.errors) == (4, 1, 1)


def test_a_summary_of_many_epochs_holds_few_results(app: App) -> None:
    app.store.create_run(RunRecord(id="r1", suite="s", model="m", total=2_000))
    some = [
        CaseResult(case=f"c{n}", epoch=epoch, status="passed", output="x" * 4_000)
        for n in range(1_000)
        for epoch in (0, 1)
    ]
    app.store.add_results("r1", some)
    kept = app.load_run("r1")
    tracemalloc.start()
    try:
        assert "pass@2" in summary(kept)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4_000_000


@pytest.mark.parametrize("ending", REPORT_FORMATS)
def test_every_report_is_the_same(app: App, ending: str) -> None:
    kept = keep_run(app, "r1")
    write = load_report(ending).write
    assert write([kept, kept]) == write([hold(app, kept)] * 2)


def test_the_summary_the_document_and_the_gate_are_the_same(app: App) -> None:
    kept = keep_run(app, "r1")
    held = hold(app, kept)
    assert summary(kept, most=1) == summary(held, most=1)
    assert run_document(kept) == run_document(held)
    assert kept.repeated
    assert find_too_many_errors(kept, "0") == find_too_many_errors(held, "0")


@pytest.mark.parametrize("formula", ["success_pct - total_cost", "error_pct", "qa - tone"])
def test_comparisons_are_the_same(app: App, formula: str) -> None:
    first, second = keep_run(app, "r1"), keep_run(app, "r2", shift=1)
    held = hold(app, first), hold(app, second)
    found = compare(first, second, formula=formula)
    assert found == compare(*held, formula=formula)
    assert any(change.reason for change in found.changes)


def test_a_comparison_tries_the_ways_to_swap_once(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[int] = []
    list_ways = permutation_test._list_ways

    def count(units: int, seed: int) -> Iterator[Array]:
        tried.append(units)
        return list_ways(units, seed)

    monkeypatch.setattr(permutation_test, "_list_ways", count)
    compare(keep_run(app, "r1"), keep_run(app, "r2", shift=1))
    assert len(tried) == 1


@pytest.mark.parametrize("stream", [stream_csv, stream_json, stream_junit])
def test_a_report_holds_few_results_at_a_time(
    app: App, stream: Callable[[list[Run]], Iterator[str]]
) -> None:
    long = "x" * 4_000
    record = RunRecord(id="r1", suite="s", model="m", total=2_000)
    app.store.create_run(record)
    app.store.add_results(
        "r1", [CaseResult(case=f"c{n}", status="passed", output=long) for n in range(2_000)]
    )
    kept = app.load_run("r1")
    size = 0
    tracemalloc.start()
    try:
        for piece in stream([kept]):
            size += len(piece)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert size > 8_000_000
    assert peak < 4_000_000


def test_json_is_written_as_python_would_write_it(app: App) -> None:
    import json

    kept = keep_run(app, "r1")
    whole = {"runs": [run_document(kept)]}
    assert json_report([kept]) == json.dumps(whole, indent=2, ensure_ascii=False) + "\n"
