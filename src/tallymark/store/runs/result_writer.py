"""Stores results as they come, from a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from tallymark.errors import LeaseLost, WorkFailed
from tallymark.store.leases import RENEWED_AFTER

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallymark.runs.record import CaseResult
    from tallymark.store.store import Store

CAPACITY = 2000
_MOST_TEXT = 32_000_000
_GATHERING = 0.2
"""Seconds that a commit waits for more results: it costs as much for one as for many, 2 ms."""


class ResultWriter:
    """Commits whatever is queued, a fifth of a second after the first of it came.

    So a result is durable soon, and many that come one after the other share a commit. `stored` is
    called in the writer's thread with what a commit has made durable. Storage that fails, fails the
    next call of `put`, `aput` or `close`.
    """

    def __init__(
        self,
        store: Store,
        run_id: str,
        *,
        stored: Callable[[list[CaseResult]], None] | None = None,
        capacity: int = CAPACITY,
    ) -> None:
        self._store = store
        self._run_id = run_id
        self._stored = stored
        self._capacity = capacity
        self._queue: list[CaseResult] = []
        self._text = 0
        """Characters of prompts and answers in the queue: few results can be a lot to hold."""
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []
        self._closing = False
        self._enough = threading.Event()
        """There is no reason to wait for more results."""
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._work, name="tally-results", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # What went wrong in the block is the cause, and must not be hidden by a second error.
        with suppress(*([Exception] if kind else [])):
            self.close()

    def put(self, result: CaseResult) -> None:
        """Queues a result; blocks while the queue is full."""
        with self._changed:
            while not self._offer(result):
                self._changed.wait()

    async def aput(self, result: CaseResult) -> None:
        """Queues a result; lets the event loop go on while the queue is full."""
        while True:
            with self._lock:
                if self._offer(result):
                    return
                loop = asyncio.get_running_loop()
                room: asyncio.Future[None] = loop.create_future()
                self._waiting.append((loop, room))
            await room  # without the lock, which the writer needs to make room

    def close(self) -> None:
        """Stores what is queued, and ends. Blocks until that is done."""
        with self._changed:
            self._closing = True
            self._enough.set()
            self._changed.notify_all()
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _offer(self, result: CaseResult) -> bool:
        """Takes the result if there is room; the lock is held."""
        if self._failure is not None:
            raise self._failure
        if self._closing:
            raise RuntimeError("the writer is closed")
        if len(self._queue) >= self._capacity or self._text >= _MOST_TEXT:
            return False
        self._queue.append(result)
        self._text += len(result.input) + len(result.output)
        if len(self._queue) >= self._capacity // 2 or self._text >= _MOST_TEXT // 2:
            self._enough.set()
        if len(self._queue) == 1:  # else the writer knows already that there is something
            self._changed.notify_all()
        return True

    def _work(self) -> None:
        try:
            while True:
                with self._changed:
                    told = self._changed.wait_for(
                        lambda: self._queue or self._closing, RENEWED_AFTER
                    )
                if not told:
                    self._renew()
                    continue
                self._enough.wait(_GATHERING)
                with self._changed:
                    batch, self._queue, self._text = self._queue, [], 0
                    if not self._closing:
                        self._enough.clear()
                    self._changed.notify_all()
                    if self._waiting:
                        self._wake_tasks()
                if not batch:
                    return
                self._store.add_results(self._run_id, batch)
                # Only now: whoever hears of a result relies on it.
                if self._stored is not None:
                    self._stored(batch)
        except BaseException as error:  # noqa: BLE001  raised again where the caller is
            with self._changed:
                self._failure = error
                self._queue.clear()
                self._changed.notify_all()
                self._wake_tasks()

    def _renew(self) -> None:
        """Holds the run while no result comes; who has lost it should not go on asking."""
        try:
            self._store.renew_run(self._run_id)
        except LeaseLost:
            raise
        except WorkFailed:
            pass  # a database that is away for a while is none of our results' loss

    def _wake_tasks(self) -> None:
        """Wakes the tasks that wait for room; the lock is held."""
        waiting, self._waiting = self._waiting, []
        for loop, room in waiting:
            # A future may only be touched in the thread of its loop.
            with suppress(RuntimeError):  # the loop has ended without waiting for us
                loop.call_soon_threadsafe(_resolve, room)


def _resolve(room: asyncio.Future[None]) -> None:
    if not room.done():
        room.set_result(None)
