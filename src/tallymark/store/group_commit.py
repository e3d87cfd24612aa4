"""Group commit: one thread applies all waiting items in one transaction, and answers after it.

A single request does not wait for others; while a batch is applied, the next one gathers. See
docs/decisions/0032-group-commit.md.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeAlias

from tallymark.errors import Busy, WorkFailed
from tallymark.instrumentation import watch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Answers: TypeAlias = list[Any]
    """Result of each item of a request: an answer, or an exception."""

MOST_WAITING = 10_000
"""More items than these are refused: their sender can send them again."""
MOST_AT_ONCE = 500
_RETRY_AFTER = 1.0


class Overtaken(WorkFailed):
    """Another transaction was quicker: this one is rolled back and begins again."""


class GroupCommit:
    """Applies items in batches. `apply` returns an answer or an exception for each."""

    def __init__(
        self,
        apply: Callable[[Sequence[Any]], Sequence[Any]],
        *,
        name: str = "tally-writer",
        most_waiting: int = MOST_WAITING,
        most_at_once: int = MOST_AT_ONCE,
    ) -> None:
        self._apply = apply
        self._most_waiting = most_waiting
        self._most_at_once = most_at_once
        self._requests: deque[tuple[Sequence[Any], Future[Answers]]] = deque()
        self._waiting = 0
        """Items of these requests."""
        self._lock = threading.RLock()  # reentrant: Ctrl-C could leave the condition's own locked
        self._arrived = threading.Condition(self._lock)
        self._closing = False
        self.batches = self.items = 0
        """Totals since the start."""
        self._name = name
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def put(self, items: Sequence[Any]) -> Future[Answers]:
        """Enqueue items; the future has their answers after the commit."""
        future: Future[Answers] = Future()
        future.set_running_or_notify_cancel()  # applied even if nothing waits for it
        with self._lock:
            if self._closing:
                raise Busy("the store is being closed", retry_after=_RETRY_AFTER)
            if self._waiting and self._waiting + len(items) > self._most_waiting:
                raise Busy(
                    f"{self._waiting} things are waiting for the database",
                    retry_after=_RETRY_AFTER,
                    hint="try again a little later",
                )
            self._waiting += len(items)
            self._requests.append((items, future))
            self._arrived.notify()
        return future

    async def aput(self, items: Sequence[Any]) -> Answers:
        """Apply items without blocking the event loop."""
        return await asyncio.wrap_future(self.put(items))

    def close(self) -> None:
        """Apply what is waiting, then end."""
        with self._lock:
            self._closing = True
            self._arrived.notify()
        self._thread.join()

    def __len__(self) -> int:
        """Number of waiting items."""
        return self._waiting

    def _work(self) -> None:
        while batch := self._take():
            items = [item for some, _ in batch for item in some]
            with watch("batch", thread=self._name, items=items):
                answers = iter(self._do(items))
            self.batches += 1
            self.items += len(items)
            for some, future in batch:
                future.set_result([next(answers) for _ in some])

    def _take(self) -> list[tuple[Sequence[Any], Future[Answers]]]:
        """Wait for requests and take a batch of them; empty once the queue is closed."""
        with self._lock:
            while not self._requests and not self._closing:
                self._arrived.wait()
            count = 0
            taken: list[tuple[Sequence[Any], Future[Answers]]] = []
            while self._requests and (not taken or count < self._most_at_once):
                taken.append(self._requests.popleft())
                count += len(taken[-1][0])
            self._waiting -= count
            return taken

    def _do(self, items: list[Any]) -> Sequence[Any]:
        try:
            return self._apply(items)
        except (
            Busy
        ) as error:  # the database is busy: trying each item alone would take as long again
            return [error] * len(items)
        except Exception as error:  # noqa: BLE001 (whatever it was, its sender is told)
            if len(items) == 1:
                return [error]
        # One item may be impossible, and the others must not fail with it.
        return [answer for item in items for answer in self._do([item])]
