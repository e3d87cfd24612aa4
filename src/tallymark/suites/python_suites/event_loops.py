"""Event loops of our own, which end even when something in them does not."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, Self, TypeVar

T = TypeVar("T")
_GRACE = 1.0
"""Seconds that cancelled tasks get to clean up."""


def run_to_end(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine in an event loop of its own, whether or not one is running here."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return _run_here(main)
    with LoopThread() as loop, _allow_interrupt():
        return loop.submit(main()).result()


@contextmanager
def _allow_interrupt() -> Iterator[None]:
    """Let Ctrl-C reach this thread: the loop that is blocked here would only take note of it."""
    before = signal.getsignal(signal.SIGINT)
    if before is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _run_here(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    runner = asyncio.Runner()  # it turns Ctrl-C into a cancellation of the main task
    loop = runner.get_loop()
    task = loop.create_task(main())

    async def waited() -> T:
        return await task

    try:
        while True:
            try:
                return runner.run(waited())
            except SystemExit:
                if task.done():
                    raise
                # It came from a task that an agent started; whoever awaits that task sees it too.
    finally:
        _end_loop(loop)
        asyncio.set_event_loop(None)


def _end_loop(loop: asyncio.AbstractEventLoop) -> None:
    """Cancel what is left, wait a little for it, and close the loop.

    Unlike `asyncio.run`, it does not wait for tasks that ignore their cancellation, nor for
    threads that hang.
    """
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    if left:
        loop.run_until_complete(asyncio.wait(left, timeout=_GRACE))
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()


class LoopThread:
    """An event loop in a thread, for code that is not async."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="tallymark-loop", daemon=True)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        _end_loop(self._loop)

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine in the loop's thread."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(2 * _GRACE)
