"""Asking until there is an answer, or until asking again cannot help; each try has a time limit."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from tallymark.errors import ModelError
from tallymark.models.pace import LONGEST_PAUSE
from tallymark.text import format_number

if TYPE_CHECKING:
    from collections.abc import Coroutine, Generator
    from random import Random

    from tallymark.models.model import Answer, Model, Request
    from tallymark.models.pace import Pace

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
    """The answer and how often was asked, or the last ModelError.

    `timeout` is in seconds for each try, and waiting for a slot does not count. Between tries it
    waits twice as long each time, or as long as it was told; the slot is free meanwhile. Where it
    is `careful`, nothing is asked again that may have been paid for, and no long pause is slept
    through: whoever asks comes back later.
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
    """The error, with why it is the last."""
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
    """What the work returns or raises; TimeoutError when it takes longer.

    It costs nothing for work that is done at once: `asyncio.timeout` takes 6 µs, more than an
    instant model and its pace together. So the first step is taken before a timer is set, and most
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
