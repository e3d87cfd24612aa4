"""How many requests are on their way at once, found by trying, as TCP does.

From a small start the number doubles with every round of answers (slow start), until the other side
says to slow down; then it is halved, and from there grows by one a round. A `Retry-After` holds all
requests until that time.

While the event loop lags, the number falls: answers that have come would wait to be read, and the
waiting would be booked as the model's latency.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from typing import Literal

LONGEST_PAUSE = 300.0
"""Seconds. Whoever asks for more is not waited for."""

_LOOK_SECONDS = 0.01
_MOST_LAG = 0.15
"""Of an answer's latency. What slow models answer may wait for longer."""
RequestOutcome = Literal["success", "throttled", "failed"]


class Pace:
    """Hands out slots, at most `limit` at once, and learns from how the requests fare.

    `async with pace:` waits for a slot and holds it; one pace serves all requests of an event
    loop. Times are the loop's.
    """

    def __init__(self, limit: int, *, start: int = 10, seed: int = 0) -> None:
        if limit < 1:
            raise ValueError(f"a pace needs a limit of at least 1, not {limit}")
        self.limit = limit
        self.random = random.Random(seed)  # noqa: S311 (spreads retries, guards nothing)
        self.window = min(start, limit)
        """How many requests may be on their way now."""
        self._threshold = limit
        self._credit = 0
        self._active = 0
        self._settling = 0
        self._paused_until = 0.0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._least = self.window
        self._latency: float | None = None
        """The mean of the latest answers."""
        self._looks = self._lags = False

    @property
    def active(self) -> int:
        """How many are."""
        return self._active

    async def __aenter__(self) -> None:
        if self._waiting or self._active >= self.window or self._paused_until:
            await self._wait()
        else:
            self._active += 1
        if not self._looks:
            self._looks = True
            self._look_later()

    async def __aexit__(self, *_: object) -> None:
        self._active -= 1
        if self._waiting:
            self._wake()

    def feed(
        self,
        outcome: RequestOutcome,
        retry_after: float | None = None,
        latency: float | None = None,
    ) -> None:
        """How a request fared; told while its slot is held.

        Requests that were on their way when the number was halved say nothing new about it, so
        it is not halved again before as many have come back.
        """
        if retry_after:
            self._pause(retry_after)
        if latency is not None:
            known = latency if self._latency is None else self._latency
            self._latency = 0.9 * known + 0.1 * latency
        if self._settling:
            self._settling -= 1
        elif outcome == "throttled":
            self.window = self._threshold = max(1, self.window // 2)
            self._settling = max(0, self._active - 1)
            self._credit = 0
        elif outcome == "success" and self.limit > self.window <= self._active and not self._lags:
            self._grow()

    def _grow(self) -> None:
        """One more for every answer in slow start, later one more for every round of answers."""
        self._credit += 1
        if self.window < self._threshold or self._credit >= self.window:
            self.window += 1
            self._credit = 0

    def _look_later(self) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time() + _LOOK_SECONDS
        loop.call_at(due, self._look, due)

    def _look(self, due: float) -> None:
        """Has fewer on their way if this comes late."""
        lag = asyncio.get_running_loop().time() - due
        self._lags = self._latency is not None and lag > _MOST_LAG * self._latency
        if self._lags and self.window > self._least:
            self.window = self._threshold = max(self._least, self.window * 7 // 8)
        self._looks = self._active > 0
        if self._looks:
            self._look_later()

    def _pause(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        if seconds <= LONGEST_PAUSE and until > self._paused_until:
            self._paused_until = until
            loop.call_at(until, self._resume, until)

    def _resume(self, until: float) -> None:
        if until == self._paused_until:
            self._paused_until = 0.0
            self._wake()

    def _wake(self) -> None:
        while self._waiting and self._active < self.window and not self._paused_until:
            future = self._waiting.popleft()
            if not future.done():
                self._active += 1
                future.set_result(None)

    async def _wait(self) -> None:
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        try:
            await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                self._active -= 1  # the place came in the same moment as the cancellation
                self._wake()
            raise
