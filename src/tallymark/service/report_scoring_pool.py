"""`ReportScoringPool`: threads that score reports which take longer than a transaction may.

Reports waiting at one challenge are scored together, which takes a plugin a fraction of the time:
see docs/decisions/0032-group-commit.md. A single one is scored at once.
"""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeAlias

from tallymark.challenges.attempt import Attempt, Metrics

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Reported: TypeAlias = tuple[Attempt, Metrics]
_THREADS = 4
_MOST_TOGETHER = 64
"""Larger batches would make the last items wait for a slow plugin."""


class ReportScoringPool:
    """Scores reports by `score`, which takes those of one challenge and returns attempts."""

    def __init__(self, score: Callable[[Sequence[Reported]], Sequence[Attempt]]) -> None:
        self._score = score
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="tally-report-scoring")
        self._lock = threading.Lock()
        self._waiting: dict[str, deque[tuple[Reported, Future[Attempt]]]] = {}
        """By the name of the challenge."""

    def put(self, attempt: Attempt, metrics: Metrics) -> Future[Attempt]:
        """Queue an attempt for scoring."""
        future: Future[Attempt] = Future()
        with self._lock:
            waiting = self._waiting.setdefault(attempt.challenge, deque())
            waiting.append(((attempt, metrics), future))
        # One for each: the first takes everything that waits, and the others find nothing to do.
        self._threads.submit(self._work, attempt.challenge)
        return future

    def close(self) -> None:
        """Score what is queued, then stop."""
        self._threads.shutdown()

    def _work(self, challenge: str) -> None:
        taken = self._take(challenge)
        if not taken:
            return
        # Also of those whose senders have gone: what was reported is scored.
        wanted = [future.set_running_or_notify_cancel() for _, future in taken]
        try:
            scored = self._score([each for each, _ in taken])
        except BaseException as error:
            for (_, future), is_wanted in zip(taken, wanted, strict=True):
                if is_wanted:
                    future.set_exception(error)
            raise
        for (_, future), is_wanted, attempt in zip(taken, wanted, scored, strict=True):
            if is_wanted:
                future.set_result(attempt)

    def _take(self, challenge: str) -> list[tuple[Reported, Future[Attempt]]]:
        with self._lock:
            waiting = self._waiting.get(challenge, deque())
            taken = [waiting.popleft() for _ in range(min(len(waiting), _MOST_TOGETHER))]
            if not waiting:
                self._waiting.pop(challenge, None)
            return taken
