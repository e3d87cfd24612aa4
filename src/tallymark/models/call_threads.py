"""Threads for functions that may block, so that other requests go on meanwhile.

Unlike the pools of the standard library there is a thread for every call that is under way (how
many are is the pace's business), and none keeps the program from ending: a call that hangs is left.
"""

from __future__ import annotations

import asyncio
import contextvars
from contextlib import suppress
from queue import SimpleQueue
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class CallThreads:
    """Threads that are kept for the next call, until closed for good."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[_ThreadCall | None] = SimpleQueue()
        self._lock = Lock()
        self._threads = 0
        self._idle = 0

    async def run(self, function: Callable[[], Any]) -> Any:
        """What the function returns or raises. Cancelled, it goes on unseen."""
        call = _ThreadCall(function)
        with self._lock:
            if self._idle:  # reserved here, so that two calls never count on the same thread
                self._idle -= 1
            else:
                self._threads += 1
                Thread(target=self._work, daemon=True, name="tallymark-model").start()
        self._calls.put(call)
        result, error = await call.future
        if error is not None:
            raise error
        return result

    def close(self) -> None:
        """Ends the threads, each after its call."""
        for _ in range(self._threads):
            self._calls.put(None)

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            outcome = call.perform()
            with self._lock:  # before the caller goes on: its next call finds this thread free
                self._idle += 1
            call.report(outcome)
            del call, outcome  # or they would live until the next one


class _ThreadCall:
    """One call, on its way to a thread and back to its event loop."""

    __slots__ = ("_context", "_function", "_loop", "future")

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function
        self._context = contextvars.copy_context()
        self._loop = asyncio.get_running_loop()
        self.future: asyncio.Future[tuple[Any, BaseException | None]] = self._loop.create_future()

    def perform(self) -> tuple[Any, BaseException | None]:
        try:
            return self._context.run(self._function), None
        except BaseException as error:  # noqa: BLE001 (goes to whoever waits)
            return None, error

    def report(self, outcome: tuple[Any, BaseException | None]) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(self._settle, outcome)

    def _settle(self, outcome: tuple[Any, BaseException | None]) -> None:
        if not self.future.done():
            self.future.set_result(outcome)
