"""`run` when something goes wrong: one test's trouble stays its own."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
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

from tallymark.runs.record import CaseResult
from tallymark.scoring import EvalContext, scorer
from tallymark.suites import Suite, Test, arun, run
from tallymark.testing import HANG, AsyncFakeAgent, FakeAgent


class Unprintable(Exception):
    def __str__(self) -> str:
        raise ValueError("not even this")


class Rude(dict[str, Any]):
    """An answer that raises when it is looked at."""

    def __contains__(self, key: object) -> bool:
        raise ValueError("do not look")


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (ValueError("boom"), "the agent raised ValueError: boom"),
        (KeyError, "the agent raised KeyError"),
        (SystemExit(3), "the agent raised SystemExit: 3"),
        (asyncio.CancelledError(), "the agent raised CancelledError"),
        (GeneratorExit(), "the agent raised GeneratorExit"),
        (Unprintable(), "the agent raised Unprintable"),
        (ValueError("x" * 2000), "the agent raised ValueError: " + "x" * 997 + "..."),
        (None, "the agent returned None instead of"),
        (float("nan"), "the agent returned nan instead of"),
        (b"12", "the agent returned b'12' (bytes) instead of"),
        ({"spans": 7}, "the agent's answer cannot be read: spans must be a list"),
        (Rude(), "the agent returned a value that raises ValueError when read"),
    ],
)
@pytest.mark.parametrize("kind", [FakeAgent, AsyncFakeAgent])
def test_trouble_is_an_error_of_its_own_test(kind: type[FakeAgent], reply: Any, said: str) -> None:
    report = run(suite("a", "b", "c"), kind({"a": "yes", "b": reply, "c": "yes"}))
    assert statuses(report) == ["passed", "error", "passed"]
    spoilt = report.results[1]
    assert said in (spoilt.error or "")
    assert (spoilt.scores, trace_of(spoilt).status) == ({}, "error")
    assert report.scorers["has_yes"].scored == len(report.results) - 1


def test_an_interrupt_that_an_agent_raises_in_a_thread_is_its_own() -> None:
    report = run(suite("a", "b"), FakeAgent({"a": KeyboardInterrupt(), "b": "yes"}))
    assert statuses(report) == ["error", "passed"]


def late_suite(*inputs: str, late: Iterable[str]) -> Suite:
    """A test for each input, one at a time; only those that hang have a short time limit."""
    tests = [
        Test(f"t{number}", given, timeout=0.05 if given in late else SECONDS)
        for number, given in enumerate(inputs)
    ]
    return Suite("s", tests, scorers={"has_yes": has_yes}, parallelism=1)


@pytest.mark.parametrize("kind", [FakeAgent, AsyncFakeAgent])
def test_an_agent_that_hangs_is_left_behind(kind: type[FakeAgent]) -> None:
    agent = kind({"a": HANG, "b": "yes", "c": HANG, "d": "yes"})
    report = run(late_suite(*"abcd", late="ac"), agent)
    agent.release()
    assert statuses(report) == ["error", "passed", "error", "passed"]
    assert report.results[0].error == "the agent did not finish in 0.05 s"


def test_a_test_has_its_own_time_limit() -> None:
    tests = [Test("short", "a", timeout=0.05), Test("long", "b")]
    agent = FakeAgent({"a": HANG, "b": "yes"})
    report = run(Suite("s", tests, scorers={"has_yes": has_yes}, timeout=SECONDS), agent)
    agent.release()
    assert statuses(report) == ["error", "passed"]


def test_an_async_agent_that_ignores_its_cancellation_is_left_behind() -> None:
    async def stubborn(given: str) -> str:
        while given == "stubborn":
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                if stop.is_set():
                    raise
                stop.set()
        return "yes"

    stop = threading.Event()
    report = run(late_suite("stubborn", "b", late=["stubborn"]), stubborn)
    assert statuses(report) == ["error", "passed"]


def test_an_awaitable_of_a_plain_function_has_a_time_limit_too() -> None:
    async def hang() -> str:
        await asyncio.get_running_loop().create_future()
        return "never"

    # Long enough that the event loop has surely begun to await it when its time is up.
    tests = [Test("late", "a", timeout=0.5), Test("good", "b")]
    plan = Suite("s", tests, scorers={"has_yes": has_yes}, parallelism=1)
    report = run(plan, lambda given: hang() if given == "a" else "yes")
    assert statuses(report) == ["error", "passed"]


def test_an_awaitable_that_comes_too_late_is_not_awaited() -> None:
    release, returned = threading.Event(), threading.Event()

    def agent(given: str) -> Any:
        if given == "b":
            return "yes"
        release.wait(SECONDS)
        returned.set()
        return coroutine(given)

    def on_result(result: CaseResult) -> None:
        release.set()
        assert returned.wait(SECONDS)

    report = run(late_suite("a", "b", late="a"), agent, on_result=on_result)
    assert statuses(report) == ["error", "passed"]


def test_a_result_that_comes_too_late_changes_nothing() -> None:
    told: list[CaseResult] = []
    agent = FakeAgent({"a": HANG, "b": "yes"})

    def on_result(result: CaseResult) -> None:
        told.append(result)
        agent.release()

    run(late_suite("a", "b", late="a"), agent, on_result=on_result)
    assert [(result.case, result.status) for result in told] == [("t0", "error"), ("t1", "passed")]


def test_an_agent_of_which_too_many_calls_hang_is_no_longer_called(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tallymark.abandonable_calls.MOST_HANGING", 2)
    agent = FakeAgent(HANG)
    report = run(suite(*"abcd", parallelism=1, timeout=0.05), agent)
    agent.release()
    assert len(agent.calls) == 2
    assert report.results[3].error == "the agent was not called: 2 calls of it hang"


@pytest.mark.parametrize("is_async", [False, True])
def test_system_exit_in_a_task_of_the_agent_is_contained(is_async: bool) -> None:
    async def leave() -> None:
        raise SystemExit(2)

    async def agent(given: str) -> str:
        if given == "a":
            await asyncio.create_task(leave())
        return "yes"

    def awaitable(given: str) -> Any:
        return agent(given)

    report = run(suite("a", "b"), agent if is_async else awaitable)
    assert statuses(report) == ["error", "passed"]


# Scorers in trouble


def failing(kind: str) -> Any:
    async def wait(_: EvalContext) -> float:
        await asyncio.get_running_loop().create_future()
        return 1.0

    table: dict[str, Callable[[EvalContext], Any]] = {
        "raises": lambda _: 1 / 0,
        "rubbish": lambda _: 7,
        "exits": lambda _: sys.exit(1),
        "hangs": wait,
    }
    return scorer(name=kind)(wait if kind == "hangs" else table[kind])


@pytest.mark.parametrize("kind", ["raises", "rubbish", "exits", "hangs"])
@pytest.mark.parametrize("agent", [plain, coroutine])
def test_a_scorer_in_trouble_is_an_error_of_its_own_test(agent: Any, kind: str) -> None:
    seconds = 0.5 if kind == "hangs" else SECONDS  # the agent has to answer within it too
    bad = Test("bad", "a", scorers=[failing(kind), has_yes], timeout=seconds)
    report = run(Suite("s", [bad, Test("good", "b", scorer=has_yes)], timeout=SECONDS), agent)
    assert statuses(report) == ["error", "passed"]
    assert report.results[0].scores["has_yes"].value == 1.0
    assert report.results[0].error == report.results[0].scores[kind].error
    assert report.scorers[kind].unscored == 1


def test_a_fail_is_a_fail_even_when_another_scorer_is_in_trouble() -> None:
    tests = [Test("t", "a", scorers=[failing("raises"), has_yes])]
    assert statuses(run(Suite("s", tests), lambda _: "no")) == ["failed"]


def test_a_blocking_scorer_does_not_hold_up_other_tests() -> None:
    release = threading.Event()

    @scorer
    def blocks(ctx: EvalContext) -> bool:
        return release.wait(SECONDS)

    def on_result(result: CaseResult) -> None:
        if result.case == "quick":
            release.set()

    tests = [Test("slow", "a", scorer=blocks), Test("quick", "b", scorer=has_yes)]
    report = run(Suite("s", tests, parallelism=2), coroutine, on_result=on_result)
    assert report.passed


# Ctrl-C

_INTERRUPTED = """
import asyncio, os, signal
from tallymark import Suite, Test, run
from tallymark.scoring import scorer
from tallymark.testing import HANG, AsyncFakeAgent, FakeAgent

@scorer(blocking=False)
def yes(ctx): return "yes" in ctx.output

told = []

def reply(given):
    if given == "a":
        return "yes"
    assert told == ["quick"]
    os.kill(os.getpid(), signal.SIGINT)
    return HANG

def main():
    tests = [Test("quick", "a"), Test("slow", "b"), Test("never begun", "c")]
    # One at a time: when the second call begins, the first result is surely in the report.
    suite = Suite("s", tests, scorers={{"yes": yes}}, parallelism=1)
    return run(suite, {kind}(reply), on_result=lambda result: told.append(result.case))

async def inside():
    return main()

report = {call}
print([result.case for result in report.results], report.interrupted, report.passed)
print(report.describe_counts().split(",")[-1])
"""


@pytest.mark.parametrize("call", ["main()", "asyncio.run(inside())"])
@pytest.mark.parametrize("kind", ["FakeAgent", "AsyncFakeAgent"])
def test_ctrl_c_stops_with_the_results_so_far(kind: str, call: str) -> None:
    code = _INTERRUPTED.format(kind=kind, call=call)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["['quick'] True False", " 2 not run"]


def test_cancelling_arun_stops_it() -> None:
    started = asyncio.Event()

    async def agent(_: str) -> str:
        started.set()
        await asyncio.get_running_loop().create_future()
        return "never"

    async def main() -> None:
        task = asyncio.create_task(arun(suite("a"), agent))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
