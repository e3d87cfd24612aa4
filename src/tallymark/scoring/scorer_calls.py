"""Calling scorers that wait or block: with time limits, many at the same time.

Those that may block work in threads, so that async neighbours go on meanwhile. A call that hangs
is left behind: it gives its place to the next one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from functools import partial
from typing import TYPE_CHECKING

from tallymark.abandonable_calls import NotFinished, call_in_thread, contain, wait_for_task
from tallymark.errors import ScorerError
from tallymark.event_loops import LoopLocal
from tallymark.scoring.score import Score

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from tallymark.scoring.eval_context import EvalContext
    from tallymark.scoring.scorer import Scorer

CALLS_AT_ONCE = 32
"""Calls that run at the same time; more wait, and their time limit begins when they start."""
_places = LoopLocal(lambda: asyncio.Semaphore(CALLS_AT_ONCE))


async def call_blocking(scorer: Scorer, ctx: EvalContext, seconds: float | None) -> object:
    """The scorer's return when called in a thread, or a failed score when time is up."""
    call = partial(scorer.call, ctx)
    try:
        async with _places.get():
            return await call_in_thread(call, seconds=seconds, owner=scorer)
    except NotFinished as error:
        return Score.failed(f"{scorer.name} {error}")


async def wait_for_return(
    scorer: Scorer, awaitable: Awaitable[object], seconds: float | None
) -> object:
    """The result of an awaitable, or a failed score when it raises or is late."""
    contained = contain(scorer.failure, lambda: awaitable)
    try:
        return await wait_for_task(contained, seconds)
    except NotFinished as error:
        return Score.failed(f"{scorer.name} {error}")


async def evaluate_all(
    scorers: Sequence[Scorer],
    ctx: EvalContext,
    *,
    timeout: float | None = None,  # noqa: ASYNC109 (the limit is each scorer's own)
) -> list[Score]:
    """Every scorer's score of one context, in their order; slow scorers run at the same time."""
    slow = [each for each in scorers if not each.inline]
    pending = [each.evaluate(ctx, timeout=timeout) for each in slow]
    waited = iter(
        await asyncio.gather(*pending) if len(pending) > 1 else [await p for p in pending]
    )
    return [await each.evaluate(ctx) if each.inline else next(waited) for each in scorers]


def run_to_end(scorer: Scorer, awaitable: Awaitable[object]) -> object:
    """The result of an async scorer's awaitable, for code that is not async."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(wait_for_return(scorer, awaitable, None))
    if isinstance(awaitable, Coroutine):
        awaitable.close()  # or Python warns that it was never awaited
    raise ScorerError(
        f"{scorer.name} is async and an event loop is running here",
        hint="use `await scorer.evaluate(ctx)` instead of `scorer.score(ctx)`",
    )
