"""Calls in threads, and tasks, that can be abandoned when they do not end.

The user's code may hang: an agent, a scorer, a model that is a function. A call in a thread cannot
be ended from outside, nor a task that ignores its cancellation. So callers wait for either only
until its time limit, and no thread here keeps the program from ending. Why these threads are our
own: docs/decisions/0016-threads-left-behind.md.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from contextlib import suppress
from contextvars import copy_context
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
MOST_HANGING = 100
"""Calls of one owner that may hang before it is no longer called."""
_IDLE_SECONDS = 10.0
"""A thread without a call for this long ends."""


class NotFinished(Exception):
    """A call was abandoned, or not made; the text continues a sentence after the callee's name."""


async def call_in_thread(
    function: Callable[[], T], *, seconds: float | None = None, owner: object = None
) -> T:
    """The result of a function, called in a thread, while the event loop goes on.

    When it is late, or the caller is cancelled, it goes on without a listener. Every call gets a
    thread at once: the caller limits their number. When too many calls of one owner hang, further
    ones are refused until some of them have ended.
    """
    hanging = sum(call.owner is owner for call in tuple(_threads.left))
    if owner is not None and hanging >= MOST_HANGING:
        raise NotFinished(f"was not called: {hanging} calls of it hang")
    call = _Call(function, owner)
    timer = None if seconds is None else call.loop.call_later(seconds, call.expire, seconds)
    _threads.submit(call)
    result: T
    try:
        result, error = await call.future
    except asyncio.CancelledError:
        call.leave()
        raise
    finally:
        if timer is not None:
            timer.cancel()
    if error is not None:
        raise error
    return result


class _Threads:
    """Threads that make one call after the other, and end when there is none for a while."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget all threads, which the child of a fork does not have."""
        self.calls: SimpleQueue[_Call] = SimpleQueue()
        self.lock = threading.Lock()
        self.idle = 0
        self.left: set[_Call] = set()
        """Calls that go on although no caller waits."""

    def submit(self, call: _Call) -> None:
        """Give a call to a thread at once."""
        with self.lock:
            if self.idle:  # reserved here, so that two calls never count on the same thread
                self.idle -= 1
            else:
                # A daemon, so that a call that hangs does not keep Python from ending.
                threading.Thread(target=self._work, name="tallymark-call", daemon=True).start()
        self.calls.put(call)

    def _work(self) -> None:
        while True:
            try:
                self.calls.get(timeout=_IDLE_SECONDS).make(self)
            except Empty:
                with self.lock:
                    if self.idle:
                        self.idle -= 1
                        return


class _Call:
    """One call, on its way to a thread and back to the event loop that waits for it."""

    __slots__ = ("context", "ended", "function", "future", "loop", "owner")

    def __init__(self, function: Callable[[], Any], owner: object) -> None:
        self.function = function
        self.owner = owner
        self.context = copy_context()
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[tuple[Any, BaseException | None]] = self.loop.create_future()
        self.ended = False

    def make(self, threads: _Threads) -> None:
        """Make the call, in a thread."""
        result, error = None, None
        try:
            result = self.context.run(self.function)
        except BaseException as raised:  # noqa: BLE001 (goes to the caller)
            error = raised
        with threads.lock:
            self.ended = True
            threads.left.discard(self)
            threads.idle += 1  # before the caller goes on: its next call finds this thread free
        with suppress(RuntimeError):  # the loop is closed: no caller waits
            # Futures belong to their loop: no other thread may set them.
            self.loop.call_soon_threadsafe(self.settle, result, error)

    def settle(self, result: object, error: BaseException | None) -> None:
        """Hand over the outcome, in the loop's own thread; the first one counts."""
        if not self.future.done():
            self.future.set_result((result, error))
        elif isinstance(result, Coroutine):
            result.close()  # or Python warns that it was never awaited

    def leave(self) -> bool:
        """Go on without it; False when it has ended, and its outcome is on its way."""
        with _threads.lock:
            if not self.ended:
                _threads.left.add(self)
            return not self.ended

    def expire(self, seconds: float) -> None:
        """Report it as late, unless it has ended."""
        if self.leave():
            self.settle(None, _make_late(seconds))


_threads = _Threads()
if hasattr(os, "register_at_fork"):  # not every system forks
    os.register_at_fork(after_in_child=_threads.reset)
_left_tasks: set[asyncio.Task[Any]] = set()
"""The loop itself does not keep tasks alive."""


def _make_late(seconds: float) -> NotFinished:
    return NotFinished(f"did not finish in {seconds:g} s")


async def wait_for_task(work: Coroutine[Any, Any, T], seconds: float | None) -> T:
    """The result of a coroutine; with a time limit, as a task that is abandoned when it is late."""
    if seconds is None:
        return await work
    task = asyncio.ensure_future(work)
    try:
        done, _ = await asyncio.wait((task,), timeout=seconds)
    finally:
        leave_task(task)
    if not done:
        raise _make_late(seconds)
    return task.result()


def leave_task(task: asyncio.Task[Any]) -> None:
    """Cancel a task without waiting for it: it may swallow its cancellation."""
    if not task.done():
        task.cancel()
        _left_tasks.add(task)
        task.add_done_callback(_left_tasks.discard)


async def contain(fail: Callable[[BaseException], Any], function: Any, *given: Any) -> Any:
    """The result of an async function, or that of `fail` for its exception, but not for Ctrl-C."""
    try:
        return await function(*given)
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        return fail(error)  # it raised this itself: the task was not cancelled
    except BaseException as error:  # any exception is its own failure
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and isinstance(error, KeyboardInterrupt):
            raise
        return fail(error)
