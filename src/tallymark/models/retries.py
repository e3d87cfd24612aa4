"""Retries with backoff, and an adaptive limit of the requests in flight.

`Pace` is that limit, found as TCP finds its window. From a small start it doubles with every round
of answers (slow start), until the other side throttles; then it is halved, and from there grows by
one a round. A `Retry-After` holds all requests until that time. While the event loop lags, the
limit falls: answers would wait to be read, and the model's latency would include the wait.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from tallymark.errors import ModelError
from tallymark.text import format_number

if TYPE_CHECKING:
    from collections.abc import Coroutine, Generator
    from random import Random

    from tallymark.models.model import Answer, Model, Request

LONGEST_PAUSE = 300.0
"""Longest requested wait in seconds; a longer one fails at once."""

_LOOK_SECONDS = 0.01
_MOST_LAG = 0.15
"""Largest lag of the event loop, as a part of an answer's latency."""
RequestOutcome = Literal["success", "throttled", "failed"]


class Pace:
    """Hands out slots, at most `limit` at once, and adapts to the outcomes of the requests.

    `async with pace:` waits for a slot and holds it; one pace serves all requests of an event
    loop. Times are the loop's.
    """

    def __init__(self, limit: int, *, start: int = 10, seed: int = 0) -> None:
        if limit < 1:
            raise ValueError(f"a pace needs a limit of at least 1, not {limit}")
        self.limit = limit
        self.random = random.Random(seed)  # noqa: S311 (spreads retries, guards nothing)
        self.window = min(start, limit)
        """Current limit of requests in flight."""
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
        """Requests in flight."""
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
        """Report the outcome of a request while it holds its slot.

        Requests that were in flight when the limit was halved have no new information about it,
        so it is not halved again before as many have come back.
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
        """Raise the limit by one per answer in slow start, later by one per round of answers."""
        self._credit += 1
        if self.window < self._threshold or self._credit >= self.window:
            self.window += 1
            self._credit = 0

    def _look_later(self) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time() + _LOOK_SECONDS
        loop.call_at(due, self._look, due)

    def _look(self, due: float) -> None:
        """Lower the limit if this call comes late: the event loop lags."""
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


T = TypeVar("T")
_FIRST_WAIT = 0.5
_LONGEST_WAIT = 30.0
_CAREFUL_PAUSE = 10.0


async def answer_with_retries(
    model: Model,
    request: Request,
    pace: Pace,
    *,
    tries: int = 5,
    timeout: float | None = None,  # noqa: ASYNC109 (for each try, not for the call)
    careful: bool = False,
) -> tuple[Answer, int]:
    """The answer and the number of tries, or the last ModelError.

    `timeout` is in seconds for each try, and waiting for a slot does not count. Between tries the
    wait doubles, unless the other side requests a time; the slot is free meanwhile. A `careful`
    call does not repeat a request that may have been charged, and ends rather than wait for long:
    the caller tries again later.
    """
    longest = _CAREFUL_PAUSE if careful else LONGEST_PAUSE
    refused = True
    for number in range(1, tries + 1):
        async with pace:
            try:
                work = model.answer(request)
                answer = await (work if timeout is None else _wait_for(model, work, timeout))
            except ModelError as error:
                pause = error.retry_after if (error.retry_after or 0) <= longest else None
                pace.feed("throttled" if error.throttled else "failed", pause)
                failure = error
                refused = refused and error.refused
            else:
                pace.feed("success", latency=answer.latency)
                return answer, number
        too_long = (failure.retry_after or 0) > longest
        hopeless = not failure.retryable or (careful and not failure.refused)
        if hopeless or too_long or number == tries:
            raise _make_last_error(failure, number, too_long=too_long, refused=refused)
        await asyncio.sleep(_choose_wait(failure, number, pace.random))
    raise ValueError(f"tries must be at least 1, not {tries}")


async def _wait_for(model: Model, work: Coroutine[Any, Any, Answer], seconds: float) -> Answer:
    try:
        return await run_within(seconds, work)
    except TimeoutError:
        raise ModelError(
            f"{model.name} did not answer in {format_number(seconds)} s",
            hint="raise the timeout if it needs longer",
            retryable=True,
        ) from None


def _choose_wait(error: ModelError, number: int, random: Random) -> float:
    """Seconds; chance spreads requests that failed together."""
    if error.retry_after:
        return error.retry_after * (1 + random.random() / 10)
    doubled: float = min(_FIRST_WAIT * 2 ** (number - 1), _LONGEST_WAIT)
    return doubled * (0.5 + random.random() / 2)


def _make_last_error(
    error: ModelError, number: int, *, too_long: bool, refused: bool
) -> ModelError:
    """The error with the reason why there is no further try."""
    problem = error.problems[0]
    hints = [problem.hint] if problem.hint else []
    if error.retryable and too_long:
        hints.append(f"it asks to wait {format_number(error.retry_after)} s, which is too long")
    if number > 1:
        hints.append(f"tried {number} times")
    return ModelError(
        problem.message,
        hint="; ".join(hints) or None,
        retryable=error.retryable,
        throttled=error.throttled,
        retry_after=error.retry_after,
        tries=number,
        refused=refused,
    )


async def run_within(seconds: float, work: Coroutine[Any, Any, T]) -> T:
    """The result of the work; TimeoutError when it takes longer.

    It adds nothing to work that is done at once: `asyncio.timeout` takes 6 µs, more than an
    instant model and its pace together. So the first step runs before a timer is set, and most
    of a replay never needs one.
    """
    try:
        waits_for = work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    async with asyncio.timeout(seconds):
        return await _StartedWork(work, waits_for)


class _StartedWork(Generic[T]):
    """A coroutine that has taken its first step and waits for something."""

    __slots__ = ("_waits_for", "_work")

    def __init__(self, work: Coroutine[Any, Any, T], waits_for: Any) -> None:
        self._work = work
        self._waits_for = waits_for

    def __await__(self) -> Generator[Any, Any, T]:
        waits_for = self._waits_for
        try:
            while True:
                try:
                    came = yield waits_for
                except BaseException as error:  # noqa: BLE001 (cancellation, above all)
                    waits_for = self._work.throw(error)
                else:
                    waits_for = self._work.send(came)
        except StopIteration as done:
            result: T = done.value
            return result
