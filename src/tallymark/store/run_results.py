"""Results of a run that goes on: written by a thread, and followed by readers."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter, deque
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

import msgspec
from sqlalchemy import func, select

from tallymark.errors import LeaseLost, WorkFailed
from tallymark.store import runs
from tallymark.store.case_results import case_results
from tallymark.store.database import TenantRows
from tallymark.store.dialects import repeatable_read
from tallymark.store.leases import RENEWED_AFTER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sqlalchemy import Connection

    from tallymark.runs.record import CaseResult
    from tallymark.store.store import Store


CAPACITY = 2000
_MOST_TEXT = 32_000_000
_GATHERING = 0.2
"""Seconds that a commit waits for more results: it costs as much for one as for many, 2 ms."""


class ResultWriter:
    """Commits queued results a fifth of a second after the first of them was queued.

    A result is therefore durable soon, and results in quick succession share a commit. `stored` is
    called in the writer's thread with the results of each commit. If storing fails, the next call
    of `put`, `aput` or `close` raises.
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
        # Entered itself, and not by the condition, in whose own code Ctrl-C could lose it locked.
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []
        self._closing = False
        self._enough = False
        """There is no reason to wait for more results."""
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._work, name="tally-results", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # The error in the block is the cause, and must not be hidden by a second error.
        with suppress(*([Exception] if kind else [])):
            self.close()

    def put(self, result: CaseResult) -> None:
        """Queue a result; block while the queue is full."""
        with self._lock:
            while not self._offer(result):
                self._changed.wait()

    async def aput(self, result: CaseResult) -> None:
        """Queue a result; yield to the event loop while the queue is full."""
        while True:
            with self._lock:
                if self._offer(result):
                    return
                loop = asyncio.get_running_loop()
                room: asyncio.Future[None] = loop.create_future()
                self._waiting.append((loop, room))
            await room  # without the lock, which the writer needs

    def close(self) -> None:
        """Store what is queued, and end."""
        with self._lock:
            self._closing = self._enough = True
            self._changed.notify_all()
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _offer(self, result: CaseResult) -> bool:
        """Queue the result if there is space; the caller holds the lock."""
        if self._failure is not None:
            raise self._failure
        if self._closing:
            raise RuntimeError("the writer is closed")
        if len(self._queue) >= self._capacity or self._text >= _MOST_TEXT:
            return False
        self._queue.append(result)
        self._text += len(result.input) + len(result.output)
        enough = len(self._queue) >= self._capacity // 2 or self._text >= _MOST_TEXT // 2
        # Else the writer knows already that there is something, or that it is enough.
        if len(self._queue) == 1 or (enough and not self._enough):
            self._enough = self._enough or enough
            self._changed.notify_all()
        return True

    def _work(self) -> None:
        try:
            while True:
                with self._lock:
                    told = self._changed.wait_for(
                        lambda: self._queue or self._closing, RENEWED_AFTER
                    )
                if not told:
                    self._renew()
                    continue
                with self._lock:
                    self._changed.wait_for(lambda: self._enough, _GATHERING)
                    batch, self._queue, self._text = self._queue, [], 0
                    if not self._closing:
                        self._enough = False
                    self._changed.notify_all()
                    if self._waiting:
                        self._wake_tasks()
                if not batch:
                    return
                self._store.add_results(self._run_id, batch)
                # Only now: receivers rely on stored results.
                if self._stored is not None:
                    self._stored(batch)
        except BaseException as error:  # noqa: BLE001  raised again where the caller is
            with self._lock:
                self._failure = error
                self._queue.clear()
                self._changed.notify_all()
                self._wake_tasks()

    def _renew(self) -> None:
        """Renew the run's lease while no result arrives; stop if it is lost."""
        try:
            self._store.renew_run(self._run_id)
        except LeaseLost:
            raise
        except WorkFailed:
            pass  # a database that is unavailable for a while loses no results

    def _wake_tasks(self) -> None:
        """Wake the tasks that wait for space; the caller holds the lock."""
        waiting, self._waiting = self._waiting, []
        for loop, room in waiting:
            # A future may only be touched in the thread of its loop.
            with suppress(RuntimeError):  # the loop has ended without waiting for us
                loop.call_soon_threadsafe(_resolve, room)


def _resolve(room: asyncio.Future[None]) -> None:
    if not room.done():
        room.set_result(None)


_MOST_CASES = 20
_CHUNK = 500
_results = case_results.c


class CaseNow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A case that has a result."""

    case: str
    epoch: int
    status: str
    latency: float | None = None
    cost: float | None = None


class RunProgress(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    seq: int
    """Number of commits of results."""
    run: str
    status: str
    total: int
    """Expected number of results; 0 if unknown."""
    passed: int
    failed: int
    errors: int
    cost: float
    score: float | None = None
    cases: tuple[CaseNow, ...] = ()
    """The last results of those that are new."""

    @property
    def ended(self) -> bool:
        return self.status not in ("queued", "running")


@dataclass(slots=True)
class RunCounts:
    """Totals of a run up to a commit."""

    seq: int = -1
    counts: Counter[str] = field(default_factory=Counter)
    cost: float = 0.0
    errors: dict[tuple[str, int], float] = field(default_factory=dict)
    """Cost of errors, by case and epoch: resuming replaces them."""

    def add(self, case: CaseNow) -> None:
        """Count a result, replacing the error of the same case if there is one."""
        key, cost = (case.case, case.epoch), case.cost or 0.0
        if key in self.errors:
            self.counts["error"] -= 1
            self.cost -= self.errors.pop(key)
        self.counts[case.status] += 1
        self.cost += cost
        if case.status == "error":
            self.errors[key] = cost


class RunProgressReader(TenantRows):
    """Progress of runs: counted once, then continued after the last commit that was seen."""

    def read(self, run_id: str, counts: RunCounts) -> RunProgress:
        """Progress of a run with what is new since `counts`, which are updated."""
        with self._database.read() as connection:
            record = runs.find_run(repeatable_read(connection), self._tenant, run_id)
            mine = (_results.tenant == self._tenant, _results.run_id == record.id)
            seq = connection.scalar(select(func.max(_results.seq)).where(*mine)) or 0
            last: deque[CaseNow] = deque(maxlen=_MOST_CASES)
            if seq != counts.seq:
                for case in self._read_new(connection, record.id, counts.seq, seq):
                    counts.add(case)
                    last.append(case)
                counts.seq = seq
        return RunProgress(
            seq=seq,
            run=record.id,
            status=record.status,
            total=record.total,
            passed=counts.counts["passed"],
            failed=counts.counts["failed"],
            errors=counts.counts["error"],
            cost=max(0.0, counts.cost),
            score=record.score,
            cases=tuple(last),
        )

    def _read_new(
        self, connection: Connection, run_id: str, after: int, until: int
    ) -> Iterator[CaseNow]:
        names = ("epoch", "status", "latency", "cost")
        query = (
            select(_results.case_name.label("case"), *(_results[name] for name in names))
            .where(_results.tenant == self._tenant, _results.run_id == run_id)
            .where(_results.seq > after, _results.seq <= until)
            .order_by(_results.seq)
        )
        with connection.execution_options(yield_per=_CHUNK).execute(query) as rows:
            yield from (CaseNow(**row._mapping) for row in rows)  # noqa: SLF001 (its own name)
