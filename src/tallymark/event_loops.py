"""Event loops: our own, which end even when something in them does not, and what belongs to one.

Connections, locks and tasks of one event loop cannot be used in another.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import threading
from collections import deque
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable, Coroutine, Iterator
    from concurrent.futures import Future
    from types import TracebackType

T = TypeVar("T")
_GRACE = 1.0
"""Seconds that cancelled tasks get to clean up."""


def run_to_end(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine in an event loop of its own, whether or not one is running here."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass
    else:
        with LoopThread() as thread, _allow_interrupt():
            return thread.submit(main()).result()
    runner = asyncio.Runner()  # it turns Ctrl-C into a cancellation of the main task
    loop = runner.get_loop()
    task = loop.create_task(main())
    try:
        while True:
            try:
                with _wake_on_signals(loop):
                    return runner.run(asyncio.wait_for(task, None))
            except SystemExit:
                if task.done():
                    raise
                # From a task that an agent started; the code that awaits that task sees it too.
    finally:
        _end_loop(loop)
        asyncio.set_event_loop(None)


@contextmanager
def _allow_interrupt() -> Iterator[None]:
    """Let Ctrl-C interrupt this thread: the loop that is blocked here would only record it."""
    before = signal.getsignal(signal.SIGINT)
    if before is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _wake_on_signals(loop: AbstractEventLoop) -> Iterator[None]:
    """A Ctrl-C that comes just before the loop begins to wait would be seen when it next wakes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        theirs.setblocking(False)
        loop.add_reader(ours, ours.recv, 1024)
        before = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(before)
            loop.remove_reader(ours)


def _end_loop(loop: AbstractEventLoop) -> None:
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


class LoopLocal(Generic[T]):
    """One value for each event loop, made when that loop first asks for it."""

    def __init__(self, make: Callable[[], T], *, first: T | None = None) -> None:
        """`first` is a value that is there already, for the first loop that asks."""
        self._make = make
        self._first = first
        self._values: dict[AbstractEventLoop, T] = {}
        self._lock = threading.Lock()

    def get(self) -> T:
        """The value of the running loop."""
        loop = asyncio.get_running_loop()
        # Only this loop's thread stores its value, so no other can come between here and below.
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

    For an object of the user's of which there is only one. While a loop waits, no more tasks of the
    one inside are let in, or a busy loop would never give way.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside: AbstractEventLoop | None = None
        self._tasks = 0
        self._waiting: deque[tuple[AbstractEventLoop, asyncio.Future[None]]] = deque()

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
            with suppress(RuntimeError):  # the loop is closed: no task waits
                loop.call_soon_threadsafe(_settle_turn, turn)

    def _enter(self, loop: AbstractEventLoop) -> asyncio.Future[None] | None:
        """None when inside, else what to wait for before trying again."""
        with self._lock:
            if self._inside is not None and self._inside.is_closed():  # ended without leaving
                self._inside, self._tasks = None, 0
            if self._inside is None or (self._inside is loop and not self._waiting):
                self._inside = loop
                self._tasks += 1
                return None
            turn: asyncio.Future[None] = loop.create_future()
            self._waiting.append((loop, turn))
            return turn


def _settle_turn(turn: asyncio.Future[None]) -> None:
    if not turn.done():
        turn.set_result(None)
