from __future__ import annotations

import asyncio
import contextvars
import subprocess
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from tests.test_abandonable_calls import until_nothing_hangs

from tallymark import abandonable_calls
from tallymark.scoring import EvalContext, Scorer, scorer_calls
from tallymark.scoring.scorer_calls import evaluate_all
from tallymark.traces import Trace

if TYPE_CHECKING:
    from collections.abc import Iterator

CTX = EvalContext(Trace())
SECONDS = 30
"""Time limit of a wait, far longer than it takes."""


async def _never(ctx: EvalContext) -> float:
    await asyncio.Event().wait()
    return 1.0


def test_scores_come_in_the_order_of_the_scorers() -> None:
    async def slow(ctx: EvalContext) -> float:
        await asyncio.sleep(0)
        return 0.2

    scorers = [
        Scorer(slow, name="slow"),
        Scorer(lambda ctx: 0.1, name="inline", blocking=False),
        Scorer(lambda ctx: 0.3, name="threaded"),
    ]
    scores = asyncio.run(evaluate_all(scorers, CTX))
    assert [score.value for score in scores] == [0.2, 0.1, 0.3]
    assert asyncio.run(evaluate_all([], CTX)) == []


def test_scorers_run_at_the_same_time() -> None:
    """Each waits for the other, sync in a thread and async in the loop: in turn, none would end."""
    from_thread, from_loop = threading.Event(), threading.Event()

    def blocking(ctx: EvalContext) -> bool:
        from_thread.set()
        return from_loop.wait(SECONDS)

    async def waiting(ctx: EvalContext) -> bool:
        from_loop.set()
        return await asyncio.to_thread(from_thread.wait, SECONDS)

    scorers = [Scorer(blocking, name="blocking"), Scorer(waiting, name="waiting")]
    scores = asyncio.run(evaluate_all(scorers, CTX))
    assert [score.value for score in scores] == [1.0, 1.0]


def test_one_bad_scorer_does_not_hurt_its_neighbours() -> None:
    def leaves(ctx: EvalContext) -> float:
        raise SystemExit(1)

    scorers = [
        Scorer(leaves, name="leaves", blocking=False),
        Scorer(leaves, name="leaves_thread"),
        Scorer(_never, name="never"),
        Scorer(lambda ctx: float("nan"), name="nan"),
        Scorer(lambda ctx: 0.5, name="fine"),
    ]
    scores = asyncio.run(evaluate_all(scorers, CTX, timeout=1.0))
    assert [score.value for score in scores] == [None, None, None, None, 0.5]
    assert all(score.error and score.origin for score in scores[:4])


def test_an_async_scorer_that_hangs_is_a_failed_score() -> None:
    score = asyncio.run(Scorer(_never, name="never").evaluate(CTX, timeout=0.01))
    assert score.error == "never did not finish in 0.01 s"


def test_a_scorer_that_swallows_its_cancellation_is_not_waited_for() -> None:
    async def main() -> str | None:
        end = asyncio.Event()

        async def stubborn(ctx: EvalContext) -> float:
            while not end.is_set():
                with suppress(asyncio.CancelledError):
                    await end.wait()
            return 1.0

        score = await Scorer(stubborn, name="stubborn").evaluate(CTX, timeout=0.01)
        end.set()
        return score.error

    error = asyncio.run(asyncio.wait_for(main(), SECONDS))
    assert error == "stubborn did not finish in 0.01 s"


def test_a_scorers_own_timeout_error_is_not_taken_for_ours() -> None:
    async def times_out(ctx: EvalContext) -> float:
        async with asyncio.timeout(0):
            await asyncio.Event().wait()
        return 1.0

    score = asyncio.run(Scorer(times_out, name="api").evaluate(CTX, timeout=SECONDS))
    assert (score.error or "").startswith("api raised TimeoutError (at test_scorer_calls.py:")


@pytest.mark.parametrize("timeout", [None, SECONDS])
def test_cancelling_the_caller_cancels_the_scorer(timeout: float | None) -> None:
    async def main() -> bool:
        entered, cancelled = asyncio.Event(), asyncio.Event()

        async def waits(ctx: EvalContext) -> float:
            entered.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.set()
                raise
            return 1.0

        task = asyncio.create_task(Scorer(waits, name="waits").evaluate(CTX, timeout=timeout))
        await entered.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return await asyncio.wait_for(cancelled.wait(), SECONDS)

    assert asyncio.run(main())


def test_a_subtask_that_the_scorer_cancelled_itself_is_its_failure() -> None:
    async def careless(ctx: EvalContext) -> float:
        task = asyncio.create_task(asyncio.Event().wait())
        task.cancel()
        await task
        return 1.0

    score = asyncio.run(Scorer(careless, name="careless").evaluate(CTX))
    assert (score.error or "").startswith("careless raised CancelledError (at test_")


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """What a blocking scorer waits for; opened at the end, so that no thread stays behind."""
    event = threading.Event()
    yield event
    event.set()


def _waiting(gate: threading.Event) -> Scorer:
    def wait(ctx: EvalContext) -> bool:
        return gate.wait(SECONDS)

    return Scorer(wait, name="wait")


def test_a_blocking_scorer_does_not_stop_the_loop(gate: threading.Event) -> None:
    async def main() -> float | None:
        blocked = asyncio.create_task(_waiting(gate).evaluate(CTX))
        await asyncio.sleep(0)
        gate.set()  # only a loop that still runs gets here
        return (await blocked).value

    assert asyncio.run(asyncio.wait_for(main(), SECONDS)) == 1.0


def test_a_scorer_that_hangs_is_abandoned_with_an_error(gate: threading.Event) -> None:
    score = asyncio.run(_waiting(gate).evaluate(CTX, timeout=0.01))
    assert (score.value, score.error) == (None, "wait did not finish in 0.01 s")


def test_hanging_calls_do_not_take_the_places_of_others(
    gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scorer_calls, "CALLS_AT_ONCE", 1)
    quick = Scorer(lambda ctx: 0.5, name="quick")

    async def main() -> list[str | float | None]:
        stuck = [_waiting(gate).evaluate(CTX, timeout=0.01) for _ in range(3)]
        scores = await asyncio.gather(*stuck, quick.evaluate(CTX, timeout=SECONDS))
        return [score.error or score.value for score in scores]

    assert asyncio.run(main()) == ["wait did not finish in 0.01 s"] * 3 + [0.5]


def test_waiting_for_a_free_thread_does_not_count_as_the_scorers_time(
    gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scorer_calls, "CALLS_AT_ONCE", 1)
    quick = Scorer(lambda ctx: 0.5, name="quick")

    async def main() -> float | None:
        first = asyncio.create_task(_waiting(gate).evaluate(CTX))
        await asyncio.sleep(0)
        second = asyncio.create_task(quick.evaluate(CTX, timeout=0.5))
        done, _ = await asyncio.wait((second,), timeout=0.6)
        assert not done
        gate.set()
        await first
        return (await second).value

    assert asyncio.run(main()) == 0.5


def test_a_scorer_with_too_many_hanging_calls_is_not_called_until_they_end(
    gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(abandonable_calls, "MOST_HANGING", 2)
    scorer = _waiting(gate)

    async def errors() -> list[str | None]:
        return [(await scorer.evaluate(CTX, timeout=0.01)).error for _ in range(3)]

    late = "wait did not finish in 0.01 s"
    assert asyncio.run(errors()) == [late, late, "wait was not called: 2 calls of it hang"]
    gate.set()
    until_nothing_hangs()
    assert asyncio.run(scorer.evaluate(CTX)).value == 1.0


def test_a_cancelled_caller_leaves_at_once_and_frees_the_place(
    gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scorer_calls, "CALLS_AT_ONCE", 1)
    started = threading.Event()

    def wait(ctx: EvalContext) -> bool:
        started.set()
        return gate.wait(SECONDS)

    async def main() -> float | None:
        running = asyncio.create_task(Scorer(wait, name="wait").evaluate(CTX))
        queued = asyncio.create_task(_waiting(gate).evaluate(CTX))
        await asyncio.sleep(0)
        await asyncio.to_thread(started.wait, SECONDS)
        for task in (queued, running):
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        return (await Scorer(lambda ctx: 0.5, name="next").evaluate(CTX)).value

    assert asyncio.run(asyncio.wait_for(main(), SECONDS)) == 0.5


def test_a_scorer_in_a_thread_sees_the_callers_context_variables() -> None:
    request = contextvars.ContextVar("request", default=0.0)
    scorer = Scorer(lambda ctx: request.get(), name="request")

    async def main() -> float | None:
        request.set(0.75)
        return (await scorer.evaluate(CTX)).value

    assert asyncio.run(main()) == 0.75


def test_a_hanging_scorer_does_not_keep_the_program_from_ending() -> None:
    program = (
        "import asyncio, threading\n"
        "from tallymark.scoring import EvalContext, Scorer\n"
        "from tallymark.traces import Trace\n"
        "s = Scorer(lambda ctx: threading.Event().wait(), name='hang')\n"
        "print(asyncio.run(s.evaluate(EvalContext(Trace()), timeout=0.01)).error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "hang did not finish in 0.01 s\n"
