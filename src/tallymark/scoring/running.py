"""The async side of scoring: waiting for scorers, with time limits, many at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING

from tallymark.errors import ScorerError
from tallymark.scoring.workers import call_in_thread, make_late_score

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from tallymark.scoring.context import EvalContext
    from tallymark.scoring.score import Score
    from tallymark.scoring.scorer import Scorer

__all__ = ["call_in_thread", "evaluate_all", "run_to_end", "wait_for_return"]

_abandoned_tasks: set[asyncio.Task[object]] = set()
"""Tasks that were cancelled for being late; the loop itself does not keep tasks alive."""


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


async def wait_for_return(
    scorer: Scorer, awaitable: Awaitable[object], seconds: float | None
) -> object:
    """What the awaitable gives, or a failed score when it raises or is late."""
    if seconds is None:
        return await _contain_failure(scorer, awaitable)
    task = asyncio.ensure_future(_contain_failure(scorer, awaitable))
    try:
        done, _ = await asyncio.wait((task,), timeout=seconds)
    except asyncio.CancelledError:
        task.cancel()
        raise
    if done:
        return task.result()
    # It is not waited for: a scorer that swallows its cancellation must not hold up the rest.
    task.cancel()
    _abandoned_tasks.add(task)
    task.add_done_callback(_abandoned_tasks.discard)
    return make_late_score(scorer, seconds)


async def _contain_failure(scorer: Scorer, awaitable: Awaitable[object]) -> object:
    try:
        return await awaitable
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        return scorer.failure(error)  # the scorer's own doing: nobody cancelled this task
    except BaseException as error:  # noqa: BLE001 (whatever a scorer raises is its own failure)
        return scorer.failure(error)


def run_to_end(scorer: Scorer, awaitable: Awaitable[object]) -> object:
    """What the awaitable of an async scorer gives, for code that is not async."""
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
