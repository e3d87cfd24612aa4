"""Scoring traces that already exist."""

from __future__ import annotations

import asyncio
import itertools
import json
import threading
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.suites.python_suites.yes_suite import trace_of

from tallymark.errors import FormulaError, InvalidInput, TraceError
from tallymark.runs.run import Run
from tallymark.scoring import EvalContext, Scorer, scorer
from tallymark.store import open_store
from tallymark.suites import ScoredTraces
from tallymark.suites.scored_traces import RESULTS_SHOWN, read_expectations
from tallymark.suites.trace_loop import TRACES_AT_ONCE
from tallymark.traces import Span, Trace


def trace(output: str, number: int = 1, **fields: Any) -> Trace:
    spans = [Span(span_type="generation", output=output, cost=0.5)]
    return Trace(**{"trace_id": f"t-{number}", "duration_ms": 500.0, "spans": spans, **fields})


@scorer(blocking=False)
def as_said(ctx: EvalContext) -> float:
    return float(ctx.output)


@scorer
def as_said_in_a_thread(ctx: EvalContext) -> float:
    return float(ctx.output)


@scorer
async def as_said_async(ctx: EvalContext) -> float:
    await asyncio.sleep(0)
    return float(ctx.output)


@scorer(blocking=False)
def as_expected(ctx: EvalContext) -> bool:
    return bool(ctx.output == ctx.expected["output"])


def score(traces: list[Trace], *scorers: Scorer, **facts: Any) -> Run:
    scored = ScoredTraces(traces, scorers, **facts)
    list(scored)
    return scored.run


WAYS = pytest.mark.parametrize("way", [as_said, as_said_in_a_thread, as_said_async])


@WAYS
def test_results_come_in_the_order_of_the_traces(way: Scorer) -> None:
    outputs = [str(number / 200) for number in range(TRACES_AT_ONCE * 3)]
    results = list(ScoredTraces([trace(output) for output in outputs], [way]))
    assert [result.scores[way.name].value for result in results] == list(map(float, outputs))


@WAYS
def test_a_failed_score_is_unscored_and_keeps_its_trace_from_passing(way: Scorer) -> None:
    found = score([trace("1"), trace("rubbish"), trace("0.5")], way)
    scores = found.scorers[way.name]
    assert found.counts == {"passed": 1, "failed": 1, "error": 1}
    assert (scores.mean, scores.scored, scores.unscored) == (0.75, 2, 1)
    assert "could not convert string to float: 'rubbish'" in (scores.first_error or "")


@WAYS
def test_no_more_traces_are_read_ahead_than_needed(way: Scorer) -> None:
    read = itertools.count()

    def endless() -> Iterator[Trace]:
        while True:
            next(read)
            yield trace("1")

    results = iter(ScoredTraces(endless(), [way]))
    next(results)
    results.close()
    assert next(read) <= TRACES_AT_ONCE


def test_ids_that_are_used_twice_are_counted(tmp_path: Path) -> None:
    traces = [trace("1", number) for number in (1, 2, 1, 1)]
    scored = ScoredTraces(traces, [as_said], store=tmp_path / "t.db")
    assert [result.case for result in scored] == ["#t-1", "#t-2", "#t-1 3", "#t-1 4"]
    assert scored.same_ids == {"#t-1": 2}


REPEATED = [("a", 1, "1"), ("a", 2, "1"), ("b", 1, "0"), ("b", 2, "0")]


def repeat(case: Any, epoch: Any, output: str, number: int = 1) -> Trace:
    return trace(output, number, metadata={"case": case, "epoch": epoch})


def test_traces_that_say_their_case_are_its_epochs(tmp_path: Path) -> None:
    traces = [repeat(*each, number) for number, each in enumerate(REPEATED)]
    found = score(traces, as_said, store=tmp_path / "t.db")
    assert [result.key for result in found.results] == [("b", 0), ("b", 1), ("a", 0), ("a", 1)]
    assert (found.record.epochs, found.record.total) == (2, 4)


def test_an_answer_that_is_repeated_is_no_more_evidence() -> None:
    once = score([trace("1", 1), trace("0", 2)], as_said).record
    again = score([repeat(*each) for each in REPEATED], as_said).record
    assert (once.score_low, once.score_high) == (again.score_low, again.score_high)


def test_an_epoch_that_comes_again_is_one_more(tmp_path: Path) -> None:
    # Of two logs, and of a source that counts from 0.
    traces = [repeat("a", epoch, "1") for epoch in (1, 2, 1, 0)]
    found = ScoredTraces(traces, [as_said], store=tmp_path / "t.db")
    assert [result.epoch for result in found] == [0, 1, 2, 3]


def of_model(model: str, output: str, case: str = "a") -> Trace:
    return trace(output, metadata={"case": case, "epoch": 1, "model": model})


def test_each_model_has_a_run_of_its_own(tmp_path: Path) -> None:
    traces = [of_model("x", "1"), of_model("y", "0"), trace("1", 7), of_model("x", "0.5", "b")]
    scored = ScoredTraces(traces, [as_said], store=tmp_path / "t.db")
    assert [result.key for result in scored] == [("a", 0), ("a", 0), ("#t-7", 0), ("b", 0)]
    found = [(run.record.model, run.record.total, run.score) for run in scored.runs]
    assert found == [("x", 2, 50.0), ("y", 1, 0.0), ("traces", 1, 100.0)]
    assert len({run.record.group for run in scored.runs}) == 1
    with pytest.raises(InvalidInput, match=r"each of x, y, traces has a run of its own; read"):
        _ = scored.run


def test_the_only_model_is_the_models_run() -> None:
    record = score([of_model("x", "1")], as_said).record
    assert (record.model, record.group) == ("x", None)


def test_models_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tallymark.suites.scored_traces.MOST_RUNS", 2)
    scored = ScoredTraces([of_model(name, "1") for name in "xyz"], [as_said])
    with pytest.raises(InvalidInput, match="of more than 2 models and prompts"):
        list(scored)


def test_a_trace_that_says_no_case_may_name_any_model() -> None:
    mixed = [trace("1", n, metadata={"model": f"m{n}"}) for n in range(3)]
    assert score(mixed, as_said).record.model == "traces"


@pytest.mark.parametrize(
    "told",
    [
        {"case": "a"},
        {"epoch": 1},
        {"case": "a", "epoch": "first"},
        {"case": [], "epoch": 1},
        {"case": "a", "epoch": 10**9},
    ],
)
def test_a_trace_that_does_not_say_case_and_epoch_is_one_of_its_own(told: Any) -> None:
    (found,) = ScoredTraces([trace("1", metadata=told)], [as_said])
    assert found.key == ("#t-1", 0)


def test_slow_scorers_score_many_traces_at_the_same_time() -> None:
    together = threading.Barrier(4)

    @scorer
    def meet(ctx: EvalContext) -> bool:
        together.wait(30)
        return True

    assert score([trace("x")] * 8, meet).counts["passed"] == 8


def test_a_slow_scorer_has_a_time_limit() -> None:
    @scorer
    async def hangs(ctx: EvalContext) -> bool:
        await asyncio.get_running_loop().create_future()
        return True

    found = score([trace("1")], hangs, as_said, timeout=0.5)
    assert found.scorers["hangs"].first_error == "hangs did not finish in 0.5 s"
    assert found.scorers["as_said"].mean == 1.0


def test_a_call_that_hangs_is_left_behind_and_others_go_on() -> None:
    end = threading.Event()

    @scorer
    def hangs_once(ctx: EvalContext) -> float:
        if ctx.output == "stuck":
            end.wait(30)
        return 1.0

    results = list(
        ScoredTraces([trace(said) for said in ("a", "stuck", "b", "c")], [hangs_once], timeout=0.5)
    )
    end.set()
    assert [result.status for result in results] == ["passed", "error", "passed", "passed"]
    assert results[1].error == "hangs_once did not finish in 0.5 s"


def test_a_scorer_that_always_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tallymark.suites.trace_loop.MOST_HANGING", 2)
    monkeypatch.setattr("tallymark.suites.trace_loop.CALLS_AT_ONCE", 1)
    end = threading.Event()

    @scorer
    def hangs(ctx: EvalContext) -> bool:
        return end.wait(30)

    results = list(ScoredTraces([trace("x")] * 3, [hangs], timeout=0.02))
    end.set()
    assert results[2].error == "hangs was not called: 2 calls of it hang"


def test_quick_functions_share_a_thread_and_each_has_context_variables_of_its_own() -> None:
    threads = set()
    seen = ContextVar("seen", default=0)

    @scorer
    def notes(ctx: EvalContext) -> bool:
        threads.add(threading.get_ident())
        seen.set(seen.get() + 1)
        return seen.get() == 1

    assert score([trace("x")] * 200, notes).counts["passed"] == 200
    assert threading.get_ident() not in threads
    assert len(threads) < 20


def test_a_function_may_return_an_awaitable() -> None:
    @scorer
    def hands_on(ctx: EvalContext) -> Any:
        return as_said_async.function(ctx)

    assert score([trace("1"), trace("0.8")], hands_on, as_said).counts["passed"] == 2


def test_slow_scorers_work_where_an_event_loop_is_running() -> None:
    async def main() -> Run:
        return score([trace("1")], as_said_async)

    assert asyncio.run(main()).passed


@pytest.mark.parametrize(
    ("of_scorer", "of_caller", "passed"),
    [(None, None, 1), (0.5, None, 2), (0.5, 0.9, 1), (None, 0.0, 3)],
)
def test_the_callers_threshold_counts_before_the_scorers(
    of_scorer: float | None, of_caller: float | None, passed: int
) -> None:
    judge = as_said.replace(threshold=of_scorer)
    found = score([trace("0.1"), trace("0.6"), trace("1")], judge, threshold=of_caller)
    assert found.counts["passed"] == passed


# What is expected


@pytest.mark.parametrize(
    ("told", "value"),
    [
        ({"output": "yes"}, 1.0),
        ("yes", 1.0),
        ({"output": "no"}, 0.0),
        ({"outputContains": ["x"]}, None),
        (None, None),
    ],
)
def test_a_trace_says_what_is_expected_of_it(told: object, value: float | None) -> None:
    metadata = {} if told is None else {"expected": told}
    (result,) = ScoredTraces([trace("yes", metadata=metadata)], [as_expected])
    assert result.scores["as_expected"].value == value


def test_expectations_from_elsewhere_count_before_the_traces_own() -> None:
    expected = read_expectations(['{"trace_id": "t-1", "output": "yes"}'], "e.jsonl")
    traces = [trace("yes", n, metadata={"expected": "no"}) for n in (1, 2)]
    values = [
        r.scores["as_expected"].value
        for r in ScoredTraces(traces, [as_expected], expected=expected)
    ]
    assert values == [1.0, 0.0]


@pytest.mark.parametrize("told", [{"output_contains": "x"}, {"tool_calls": 3}])
def test_an_expectation_that_cannot_be_read_is_a_broken_record(told: object) -> None:
    traces = [trace("yes", 1, metadata={"expected": told}), trace("yes", 2)]
    with pytest.raises(TraceError, match="trace 't-1': expected"):
        list(ScoredTraces(traces, [as_expected]))
    broken: list[TraceError] = []
    scored = ScoredTraces(traces, [as_expected], on_broken=broken.append)
    assert [trace_of(result).trace_id for result in scored] == ["t-2"]
    assert len(broken) == 1


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("nonsense", "e.jsonl:2: not a JSON object"),
        ("[]", "e.jsonl:2: not a JSON object"),
        ('{"output": "x"}', "e.jsonl:2: a line needs the key 'trace_id', a text"),
        ('{"trace_id": 5}', "e.jsonl:2: a line needs the key 'trace_id', a text"),
        ('{"trace_id": "a", "tool_calls": 1}', "e.jsonl:2: expected: Expected `array | null`"),
        ('{"trace_id": "first"}', "e.jsonl:2: the trace 'first' has two lines"),
    ],
)
def test_a_line_of_expectations_is_refused_with_its_place(line: str, said: str) -> None:
    with pytest.raises(InvalidInput) as error:
        read_expectations(['{"traceId": "first", "expected": {"output": "x"}}', line], "e.jsonl")
    assert said in str(error.value)


# The run


def test_the_run_has_the_run_wide_metrics_and_the_formula() -> None:
    found = score(
        [trace("1"), trace("0", 2)], as_said, formula="success_pct * as_said / total_cost"
    )
    assert found.score == 25.0
    assert found.metrics["avg_latency"] == 0.5


def test_an_unknown_cost_makes_the_formula_undefined() -> None:
    free = trace("1", 2, spans=[Span(span_type="generation", output="1")])
    record = score([trace("1"), free], as_said, formula="total_cost").record
    assert record.score is None
    assert "the cost of 1 of 2 results is not known" in (record.score_error or "")


def test_a_duration_of_zero_is_one_that_nobody_measured() -> None:
    found = score([trace("1", duration_ms=0.0)], as_said)
    assert found.metrics["total_latency"] is None
    assert found.metrics["total_cost"] == 0.5


def test_the_worst_come_first_and_those_without_a_value_last() -> None:
    traces = [trace(output, n) for n, output in enumerate(["0.6", "x", "0.1", "0.3"])]
    results = score(traces, as_said).results
    assert [result.case for result in results] == ["#t-2", "#t-3", "#t-0", "#t-1"]


def test_few_results_are_held_however_many_are_counted() -> None:
    found = score([trace("1" if n % 2 else "0.1", n) for n in range(100)], as_said)
    assert found.counts == {"passed": 50, "failed": 50, "error": 0}
    assert len(found.results) == 2 * RESULTS_SHOWN
    assert "Failed (50)" in found.render()
    assert "  and 30 more" in found.render()


def test_a_formula_may_use_scorers_and_no_unknown_name() -> None:
    with pytest.raises(FormulaError, match="unknown name 'as_sad'; did you mean 'as_said'"):
        ScoredTraces([], [as_said], formula="as_sad")


def test_any_json_writer_takes_the_run() -> None:
    document = json.loads(json.dumps(score([trace("x")], as_said).to_dict(), allow_nan=False))
    assert document["results"][0]["trace"]["trace_id"] == "t-1"
    assert (document["score"], document["metrics"]["success_pct"]) == (None, None)
    assert document["scorers"]["as_said"]["unscored"] == 1


def test_a_run_is_kept_with_every_trace_also_where_ids_repeat(tmp_path: Path) -> None:
    traces = [trace("1", n % 2, name="chat") for n in range(5)]
    store = open_store(str(tmp_path / "t.db"))
    run = score(traces, as_said, store=store, name="chats")
    (kept,) = store.runs()
    assert (kept.id, kept.suite, kept.passed, kept.total) == (run.record.id, "chats", 5, 5)
    cases = {result.case for result in store.results(kept.id)}
    assert cases == {"chat[t-0]", "chat[t-1]", "chat[t-0 3]", "chat[t-1 4]", "chat[t-0 5]"}
    store.close()


def test_no_trace_is_no_run(tmp_path: Path) -> None:
    assert not score([], as_said, store=str(tmp_path / "t.db")).tally.finished
    assert not list(tmp_path.iterdir())


def test_what_breaks_off_is_kept_as_far_as_it_came(tmp_path: Path) -> None:
    def broken() -> Iterator[Trace]:
        yield trace("1")
        raise TraceError("not a trace")

    store = open_store(str(tmp_path / "t.db"))
    with pytest.raises(TraceError, match="not a trace"):
        score(broken(), as_said, store=store)  # type: ignore[arg-type]
    (kept,) = store.runs()
    assert (kept.status, kept.error, kept.passed) == ("cancelled", "broke off", 1)
    store.close()


@pytest.mark.parametrize(
    ("scorers", "said"),
    [
        ([], "there is no scorer to score with"),
        ([as_said, as_said], "more than one scorer is named"),
    ],
)
def test_scorers_that_cannot_be_told_apart_are_refused(scorers: list[Scorer], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        ScoredTraces([], scorers)


@given(st.lists(st.sampled_from(["0", "0.25", "0.7", "1", "x"]), max_size=20))
def test_every_trace_is_counted_once(outputs: list[str]) -> None:
    found = score([trace(output) for output in outputs], as_said)
    assert sum(found.counts.values()) == len(outputs)
    assert found.counts["passed"] == sum(output in ("0.7", "1") for output in outputs)
    assert found.counts["error"] == outputs.count("x")
