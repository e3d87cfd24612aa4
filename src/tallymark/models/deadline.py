"""A time limit that costs nothing for work that is done at once.

`asyncio.timeout` takes 6 µs, more than an instant model and its pace together. So the first step is
taken before a timer is set, and most of a replay never needs one.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine, Generator

T = TypeVar("T")


async def run_within(seconds: float, work: Coroutine[Any, Any, T]) -> T:
    """What the work returns or raises; TimeoutError when it takes longer."""
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
