"""Scoring many traces at the same time, for scorers that wait. Loaded only for them: asyncio."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future

from tallymark.event_loops import LoopThread
from tallymark.scoring import EvalContext, Score, Scorer
from tallymark.scoring.scorer_calls import evaluate_all
from tallymark.traces import Trace

TRACES_AT_ONCE = 32


def score_in_loop(
    scorers: Sequence[Scorer], contexts: Iterable[EvalContext], timeout: float | None
) -> Iterator[tuple[Trace, list[Score]]]:
    """The scores of each trace, in the order of the traces."""
    waiting: deque[tuple[Trace, Future[list[Score]]]] = deque()
    with LoopThread() as loop:
        for ctx in contexts:
            scores = evaluate_all(scorers, ctx, timeout=timeout)
            waiting.append((ctx.trace, loop.submit(scores)))
            # Only the oldest is waited for: so results keep their order, and memory its bound.
            if len(waiting) >= TRACES_AT_ONCE:
                trace, future = waiting.popleft()
                yield trace, future.result()
        for trace, future in waiting:
            yield trace, future.result()
