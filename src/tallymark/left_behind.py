"""Calls and tasks that can be left behind when they do not end.

What users bring may hang: an agent, a scorer, a model that is a function. A call in a thread cannot
be ended from outside, nor a task that ignores its cancellation. So nobody waits for either longer
than its time, and no thread here keeps the program from ending. Why these threads are our own:
docs/decisions/0016-threads-left-behind.md.
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
"""A thread that has nothing to do for so long ends."""


class NotFinished(Exception):
    """A call was left behind, or not made; the text goes on after the name of what was called."""


async def call_in_thread(
    function: Callable[[], T], *, seconds: float | None = None, owner: object = None
) -> T:
    """What the function returns or raises, called in a thread, so that the loop goes on meanwhile.

    When it is late, or whoever waits is cancelled, it goes on unseen. There is a thread for every
    call that is under way: how many are is the caller's business. When too many calls of one owner
    hang, it is not called any more until some of them have ended.
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
        self.start_anew()

    def start_anew(self) -> None:
        """With no thread, as it is in the child of a fork."""
        self.calls: SimpleQueue[_Call] = SimpleQueue()
        self.lock = threading.Lock()
        self.idle = 0
        self.left: set[_Call] = set()
        """Calls that go on though nobody waits for them."""

    def submit(self, call: _Call) -> None:
        """Have a call made at once."""
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
        except BaseException as raised:  # noqa: BLE001 (goes to whoever waits)
            error = raised
        with threads.lock:
            self.ended = True
            threads.left.discard(self)
            threads.idle += 1  # before the caller goes on: its next call finds this thread free
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
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
        """Its time is up."""
        if self.leave():
            self.settle(None, _make_late(seconds))


_threads = _Threads()
if hasattr(os, "register_at_fork"):  # not every system forks
    os.register_at_fork(after_in_child=_threads.start_anew)
_left_tasks: set[asyncio.Task[Any]] = set()
"""The loop itself does not keep tasks alive."""


def _make_late(seconds: float) -> NotFinished:
    return NotFinished(f"did not finish in {seconds:g} s")


async def wait_for_task(work: Coroutine[Any, Any, T], seconds: float | None) -> T:
    """What a coroutine gives; with a time limit, as a task that is left when it is late."""
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
    """What an async function gives, or what `fail` makes of what it raises, but a real Ctrl-C."""
    try:
        return await function(*given)
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        return fail(error)  # its own doing: nobody cancelled this task
    except BaseException as error:  # whatever it raises is its own failure
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and isinstance(error, KeyboardInterrupt):
            raise
        return fail(error)
