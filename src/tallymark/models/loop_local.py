"""What belongs to one event loop: connections, locks and tasks cannot be used in another."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Future
    from collections.abc import Callable
    from types import TracebackType

T = TypeVar("T")


class LoopLocal(Generic[T]):
    """One value for each event loop, made when that loop first asks for it."""

    def __init__(self, make: Callable[[], T], *, first: T | None = None) -> None:
        """`first` is a value that is there already, for the first loop that asks."""
        self._make = make
        self._first = first
        self._values: dict[AbstractEventLoop, T] = {}
        self._lock = Lock()

    def get(self) -> T:
        """The value of the running loop."""
        loop = asyncio.get_running_loop()
        # Only this loop's thread puts a value under it, so nobody comes between here and below.
        value = self._values.get(loop)
        if value is None:
            with self._lock:
                value, self._first = self._first, None
            value = self._make() if value is None else value
            with self._lock:
                self._forget_closed()
                self._values[loop] = value
        return value

    def pop(self) -> T | None:
        """The value of the running loop, which has none from now on; None where it had none."""
        loop = asyncio.get_running_loop()
        with self._lock:
            self._forget_closed()
            return self._values.pop(loop, None)

    def _forget_closed(self) -> None:
        # Weak keys would not do: most values refer to their loop, and would keep it for ever.
        for loop in [each for each in self._values if each.is_closed()]:
            del self._values[loop]


class LoopTurns:
    """`async with turns:` lets the tasks of one event loop in at a time; other loops wait.

    For what somebody else made, which there is only one of. As long as a loop waits, no more tasks
    of the one inside are let in, or a busy loop would never make room.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._inside: AbstractEventLoop | None = None
        self._tasks = 0
        self._waiting: deque[tuple[AbstractEventLoop, Future[None]]] = deque()

    async def __aenter__(self) -> None:
        loop = asyncio.get_running_loop()
        while (turn := self._enter(loop)) is not None:
            await turn

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self._lock:
            self._tasks -= 1
            if self._tasks:
                return
            self._inside = None
            waiting, self._waiting = self._waiting, deque()
        for loop, turn in waiting:
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(_settle_turn, turn)

    def _enter(self, loop: AbstractEventLoop) -> Future[None] | None:
        """None when inside, else what to wait for before trying again."""
        with self._lock:
            if self._inside is not None and self._inside.is_closed():  # ended without leaving
                self._inside, self._tasks = None, 0
            if self._inside is None or (self._inside is loop and not self._waiting):
                self._inside = loop
                self._tasks += 1
                return None
            turn: Future[None] = loop.create_future()
            self._waiting.append((loop, turn))
            return turn


def _settle_turn(turn: Future[None]) -> None:
    if not turn.done():
        turn.set_result(None)
