"""`run` and `arun`: what an agent may be, what scorers see, thresholds, parallelism, epochs."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import os
import signal
import threading
from typing import Any

import pytest
from tests.suites.python_suites.yes_suite import (
    SECONDS,
    coroutine,
    has_yes,
    plain,
    statuses,
    suite,
    trace_of,
)

from tallymark.errors import InvalidInput
from tallymark.runs.record import CaseResult
from tallymark.runs.run import Run
from tallymark.scoring import EvalContext, Score, scorer
from tallymark.suites import Suite, Test, arun, run
from tallymark.suites.python_suites import suite_run
from tallymark.testing import AsyncFakeAgent, FakeAgent
from tallymark.traces import Span, Trace


class PlainCallable:
    def __call__(self, given: str) -> str:
        return f"yes {given}"


class AsyncCallable:
    async def __call__(self, given: str) -> str:
        return f"yes {given}"


def awaitable(given: str) -> Any:
    return coroutine(given)


@pytest.mark.parametrize(
    "agent",
    [
        plain,
        coroutine,
        PlainCallable(),
        AsyncCallable(),
        AsyncCallable().__call__,
        functools.partial(plain),
        functools.partial(coroutine),
        awaitable,
    ],
)
def test_an_agent_is_any_function_of_the_input(agent: Any) -> None:
    report = run(suite("a", "b"), agent)
    assert [result.output for result in report.results] == ["yes a", "yes b"]
    assert report.passed


@pytest.mark.parametrize("agent", [plain, coroutine])
def test_async_code_may_use_either_run(agent: Any) -> None:
    async def main() -> tuple[Run, Run]:
        return run(suite("a"), agent), await arun(suite("a"), agent)

    inside, awaited = asyncio.run(main())
    assert inside.passed
    assert awaited.passed


def test_judges_are_loaded_before_the_agent_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    book: list[str] = []
    monkeypatch.setattr(suite_run, "load_judges", lambda: book.append("loaded"))

    def agent(given: str) -> str:
        book.append("called")
        return f"yes {given}"

    run(suite("a"), agent)
    assert book == ["loaded", "called"]


def test_arun_calls_an_async_agent_in_the_running_loop() -> None:
    loops = set()

    async def agent(_: str) -> str:
        loops.add(asyncio.get_running_loop())
        return "yes"

    async def main() -> bool:
        await arun(suite("a"), agent)
        return loops == {asyncio.get_running_loop()}

    assert asyncio.run(main())


@pytest.mark.parametrize(
    ("agent", "said"),
    [
        (None, "suite 's' has no agent to run; write run(suite, agent=...)"),
        ("module:agent", "the agent must be a function of the test's input, not 'module:agent'"),
        (lambda: "yes", "the agent must take exactly one argument, the test's input"),
        (lambda a, b: "yes", "the agent must take exactly one argument, the test's input"),
    ],
)
def test_what_cannot_be_an_agent_is_refused_before_anything_runs(agent: Any, said: str) -> None:
    with pytest.raises(InvalidInput) as error:
        run(suite("a"), agent)
    assert said in str(error.value)


def test_a_suite_may_have_its_agent() -> None:
    assert run(suite("a", agent=plain)).passed
    assert not run(suite("a", agent=plain), agent=lambda _: "no").passed


# What the scorers see


def test_a_test_or_a_list_of_them_runs_without_a_suite() -> None:
    def same(output: str, expected: str) -> bool:
        return output == expected

    one = Test("capital", "France?", expected="Paris", scorer=scorer(same))
    two = Test("number", {"of": 2}, expected=4, scorer=scorer(same))
    agent = {"France?": "Paris"}.get
    assert run(one, agent).passed
    assert run(one, agent).record.suite == "capital"
    assert asyncio.run(arun(one, agent)).passed
    done = run([one, two], lambda given: "Paris" if given == "France?" else 2 * given["of"])
    assert done.passed
    assert done.results[1].output == "4"


def test_a_later_epoch_and_another_scorer_see_what_the_test_says() -> None:
    def spoil(ctx: Any) -> bool:
        for change in (ctx.expected.tool_calls.clear, ctx.metadata.clear, ctx.spans.clear):
            with contextlib.suppress(Exception):
                change()
        return True

    def whole(ctx: EvalContext) -> bool:
        return (ctx.expected.tool_calls, ctx.metadata, len(ctx.spans)) == (["a"], {"m": 1}, 1)

    judges = [scorer(spoil), scorer(whole), scorer(blocking=False)(spoil).replace(name="again")]
    test = Test("t", "x", expected={"tool_calls": ["a"]}, metadata={"m": 1}, scorers=judges)
    assert run(test, lambda given: given, epochs=3).passed
    assert (test.expected.tool_calls, test.metadata) == (["a"], {"m": 1})


def test_scorers_see_what_the_test_says() -> None:
    seen: list[EvalContext] = []

    @scorer(blocking=False)
    def look(ctx: EvalContext) -> bool:
        seen.append(ctx)
        return True

    test = Test(
        "t",
        {"query": "Hello"},
        expected={"output": "Hi"},
        metadata={"user": "alice"},
        scorer=look,
        threshold=0.4,
        timeout=9,
    )
    run(Suite("s", [test]), lambda given: f"Hi, {given['query']}")
    (ctx,) = seen
    assert (ctx.input, ctx.input_text) == ({"query": "Hello"}, '{"query":"Hello"}')
    assert ctx.output == "Hi, Hello"
    assert (ctx.expected.output, ctx.metadata) == ("Hi", {"user": "alice"})
    assert (ctx.config.threshold, ctx.config.timeout) == (0.4, 9.0)
    assert ctx.trace.duration_ms > 0


def test_data_that_json_cannot_say_is_seen_as_text() -> None:
    seen: list[object] = []

    @scorer(blocking=False)
    def look(ctx: EvalContext) -> bool:
        seen.append(ctx.input)
        return True

    assert run(Suite("s", [Test("t", ["\ud800"], scorer=look)]), lambda _: "yes").passed
    assert isinstance(seen[0], str)


@pytest.mark.parametrize("kind", [FakeAgent, AsyncFakeAgent])
def test_an_agent_may_change_its_input(kind: type[FakeAgent]) -> None:
    def spoil(given: dict[str, list[str]]) -> str:
        given["words"].append("more")
        return "yes" if len(given["words"]) == 2 else "no"

    original = {"words": ["one"]}
    report = run(suite(original, epochs=3), kind(spoil))
    assert statuses(report) == ["passed"] * 3
    assert original == {"words": ["one"]}


def in_a_circle() -> list[Any]:
    circle: list[Any] = []
    circle.append(circle)
    return circle


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (None, ""),
        (7, "7"),
        ({"a": [1, "b"]}, '{"a":[1,"b"]}'),
        ({(1, 2): 3}, '{"(1, 2)":3}'),
        (in_a_circle(), "[[...]] (list)"),
        ({1, 2}, "[1,2]"),
    ],
)
def test_any_input_has_a_text(given: object, text: str) -> None:
    (result,) = run(suite(given), lambda _: "yes").results
    assert result.passed
    assert trace_of(result).first_input == text
    assert result.input == text


def test_what_was_asked_is_the_tests_input_whatever_the_agent_tells() -> None:
    own = Trace(spans=[Span(span_type="tool", input="a tool's"), Span(span_type="generation")])
    (result,) = run(suite("the test's"), lambda _: own).results
    assert result.input == "the test's"
    (broken,) = run(suite({"a": 1}), lambda _: 1 / 0).results
    assert (broken.status, broken.input) == ("error", '{"a":1}')


def test_there_may_be_no_time_limit() -> None:
    assert run(suite("a"), plain, timeout=float("inf")).passed


@pytest.mark.parametrize("is_async", [False, True])
def test_what_an_agent_sets_in_its_context_stays_in_its_test(is_async: bool) -> None:
    memory: contextvars.ContextVar[str] = contextvars.ContextVar("memory", default="")

    def remember(given: str) -> str:
        before = memory.get()
        memory.set(before + given)
        return "yes" if before == "outer" else f"no, {before}"

    async def remember_async(given: str) -> str:
        return remember(given)

    memory.set("outer")
    report = run(suite(*"abcde", parallelism=1), remember_async if is_async else remember)
    assert statuses(report) == ["passed"] * 5


def test_a_trace_that_the_agent_returns_is_what_scorers_see() -> None:
    trace = Trace(
        spans=[Span(span_type="generation", output="yes"), Span(span_type="tool", name="x")]
    )

    @scorer(blocking=False)
    def tools(ctx: EvalContext) -> Score:
        return Score(1.0 if ctx.trace.tool_names == ["x"] else 0.0)

    report = run(Suite("s", [Test("t", "a", scorers=[tools, has_yes])]), lambda _: trace)
    assert report.passed


def test_signals_are_as_they_were() -> None:
    before = signal.getsignal(signal.SIGINT)
    run(suite("a"), coroutine)
    assert signal.getsignal(signal.SIGINT) is before


# Thresholds


@scorer(threshold=0.5, blocking=False)
def half(ctx: EvalContext) -> float:
    return 0.5


@scorer(blocking=False)
def most(ctx: EvalContext) -> float:
    return 0.69


@pytest.mark.parametrize(
    ("of_run", "of_test", "of_suite", "passed"),
    [
        (None, None, None, {"half": 0.5, "most": 0.7}),
        (None, None, 0.6, {"half": 0.5, "most": 0.6}),
        (None, 0.9, 0.6, {"half": 0.9, "most": 0.9}),
        (0.1, 0.9, 0.6, {"half": 0.1, "most": 0.1}),
        (0.0, 0.9, 0.6, {"half": 0.0, "most": 0.0}),
        (None, None, 0.0, {"half": 0.5, "most": 0.0}),
    ],
)
def test_the_nearest_threshold_counts(
    of_run: float | None, of_test: float | None, of_suite: float | None, passed: dict[str, float]
) -> None:
    facts: dict[str, Any] = {} if of_suite is None else {"threshold": of_suite}
    tests = [Test("t", "a", scorers=[half, most], threshold=of_test)]
    report = run(Suite("s", tests, **facts), plain, threshold=of_run)
    found = {name: score.threshold for name, score in report.results[0].scores.items()}
    assert found == passed
    values = {"half": 0.5, "most": 0.69}
    assert report.passed is all(values[name] >= passed[name] for name in values)


def test_a_rounding_error_does_not_fail_a_test() -> None:
    @scorer(blocking=False)
    def sums(ctx: EvalContext) -> float:
        return 0.7 - 1e-16 * 2

    assert run(Suite("s", [Test("t", "a", scorer=sums)]), plain).passed


def test_a_label_without_a_number_has_no_threshold_to_reach() -> None:
    @scorer(data_type="categorical", blocking=False)
    def tone(ctx: EvalContext) -> str:
        return "formal"

    report = run(Suite("s", [Test("t", "a", scorer=tone)]), plain)
    assert report.passed
    assert report.scorers["tone"].labels == {"formal": 1}


# Parallelism and epochs


@pytest.mark.parametrize("is_async", [False, True])
def test_as_many_tests_run_at_the_same_time_as_wanted(is_async: bool) -> None:
    wanted = 4
    together = threading.Barrier(wanted)
    arrived = 0
    all_there = asyncio.Event()

    def meet(_: str) -> str:
        together.wait(SECONDS)
        return "yes"

    async def meet_async(_: str) -> str:
        nonlocal arrived
        arrived += 1
        if arrived == wanted:
            all_there.set()
        await all_there.wait()
        return "yes"

    report = run(
        suite(*"abcd", parallelism=wanted, timeout=SECONDS), meet_async if is_async else meet
    )
    assert report.passed


@pytest.mark.parametrize("is_async", [False, True])
def test_no_more_tests_run_at_the_same_time_than_wanted(is_async: bool) -> None:
    lock = threading.Lock()
    running = most_running = 0

    def enter() -> None:
        nonlocal running, most_running
        with lock:
            running += 1
            most_running = max(most_running, running)

    def leave() -> str:
        nonlocal running
        with lock:
            running -= 1
        return "yes"

    def agent(_: str) -> str:
        enter()
        os.sched_yield()
        return leave()

    async def agent_async(_: str) -> str:
        enter()
        await asyncio.sleep(0)
        return leave()

    run(suite(*range(50), parallelism=3), agent_async if is_async else agent)
    assert 1 <= most_running <= 3


def test_epochs_repeat_every_test_and_keep_its_order() -> None:
    report = run(suite("a", "b", epochs=3), coroutine)
    order = [(result.case, result.epoch) for result in report.results]
    assert order == [("t0", 0), ("t0", 1), ("t0", 2), ("t1", 0), ("t1", 1), ("t1", 2)]
    assert len({trace_of(result).trace_id for result in report.results}) == 6
    assert len(run(suite("a", "b", epochs=3), coroutine, epochs=1).results) == 2


def test_on_result_is_called_once_for_each_result_one_at_a_time() -> None:
    busy = threading.Lock()
    names = []

    def on_result(result: CaseResult) -> None:
        assert busy.acquire(blocking=False)
        names.append(result.case)
        busy.release()

    run(suite(*range(200), parallelism=8), plain, on_result=on_result)
    assert sorted(names) == sorted(f"t{number}" for number in range(200))


@pytest.mark.parametrize("agent", [plain, coroutine])
def test_what_on_result_raises_comes_out(agent: Any) -> None:
    def on_result(_: CaseResult) -> None:
        raise RuntimeError("the caller's own")

    with pytest.raises(RuntimeError, match="the caller's own"):
        run(suite("a", "b", "c"), agent, on_result=on_result)
