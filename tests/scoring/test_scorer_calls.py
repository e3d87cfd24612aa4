from __future__ import annotations

import asyncio
import threading
from contextlib import suppress

import pytest

from tallymark.scoring import EvalContext, Scorer
from tallymark.scoring.scorer_calls import evaluate_all
from tallymark.traces import Trace

CTX = EvalContext(Trace())
SECONDS = 30


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
