"""How long an answer may take from its first byte to its last: the library only limits each wait.

A server that sends a byte now and then would keep whoever asked for ever. So a request has its
seconds, and one more for every `PACE` bytes that go or come: whoever is merely slow gets through.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, wait
from contextvars import copy_context
from typing import Any, TypeVar

import anyio
import httpx2

T = TypeVar("T")
PACE = 10_000
"""Bytes a second, after the time for a request has passed."""


class Deadline:
    """When a request has had its time, which grows with what arrives."""

    def __init__(self, seconds: float, sent: int = 0) -> None:
        self._at = time.monotonic() + seconds + sent / PACE
        self.moved: Callable[[], None] = lambda: None
        """Hears of every change."""

    @property
    def left(self) -> float:
        """Seconds."""
        return self._at - time.monotonic()

    def extend(self, received: int) -> None:
        """So many bytes came."""
        self._at += received / PACE
        self.moved()


async def await_within(deadline: Deadline, function: Callable[..., Awaitable[T]], *given: Any) -> T:
    """What the function gives; it is cancelled, and a timeout raised, when it is late."""
    with anyio.CancelScope() as scope:

        def move() -> None:
            scope.deadline = anyio.current_time() + deadline.left

        deadline.moved = move
        move()
        return await function(*given)
    raise httpx2.ReadTimeout("the answer did not end")


def call_within(deadline: Deadline, function: Callable[..., T], *given: Any) -> T:
    """The same without an event loop: in a thread, which is left behind when it is late."""
    future: Future[T] = Future()
    context = copy_context()

    def call() -> None:
        try:
            future.set_result(context.run(function, *given))
        except BaseException as error:  # noqa: BLE001 (goes to whoever waits)
            future.set_exception(error)

    threading.Thread(target=call, name="tallymark-request", daemon=True).start()
    while not wait((future,), min(max(0.0, deadline.left), threading.TIMEOUT_MAX)).done:
        if deadline.left <= 0:
            raise httpx2.ReadTimeout("the answer did not end")
    return future.result()
