"""Wake threads of this process when a job was added or has ended, before they poll the table."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from tallymark.store.database import Database


class JobWakeups:
    """Signals about added and ended jobs. Only speed depends on it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._workers: set[threading.Event] = set()
        self._waiting: dict[str, list[Future[None]]] = {}
        self._held: set[str] = set()
        self.is_stopped = False
        """True once the workers of this process take no more jobs, so that waiting is useless."""

    def wake(self, event: threading.Event) -> None:
        """Set the event whenever jobs are added."""
        with self._lock:
            self._workers.add(event)

    def leave(self, event: threading.Event) -> None:
        """Stop setting the event."""
        with self._lock:
            self._workers.discard(event)

    def ring(self) -> None:
        """Signal that jobs were added and committed."""
        with self._lock:
            for event in self._workers:
                event.set()

    def hold(self, job_id: str) -> None:
        """Note that a worker of this process has the job and will signal its end."""
        with self._lock:
            self._held.add(job_id)

    def is_held(self, job_id: str) -> bool:
        """Return whether the job's end will be signalled here."""
        return job_id in self._held

    def let_go(self, job_id: str) -> None:
        """Signal that a worker of this process is done with the job."""
        with self._lock:
            self._held.discard(job_id)
        self._tell(job_id)

    def expect(self, job_id: str) -> Future[None]:
        """Future that is done when a worker of this process is done with the job.

        Pass it to `forget` in the end.
        """
        future: Future[None] = Future()
        with self._lock:
            self._waiting.setdefault(job_id, []).append(future)
        return future

    def is_expected(self, job_id: str) -> bool:
        """Return whether a thread of this process waits for the job's end."""
        return job_id in self._waiting

    def stop(self) -> None:
        """Release all waiting threads because the server ends."""
        self.is_stopped = True
        for job_id in list(self._waiting):
            self._tell(job_id)

    def _tell(self, job_id: str) -> None:
        with self._lock:
            waiting = self._waiting.pop(job_id, [])
        for future in waiting:
            if future.set_running_or_notify_cancel():
                future.set_result(None)

    def forget(self, job_id: str, future: Future[None]) -> None:
        """Drop a future that nothing waits for."""
        with self._lock:
            waiting = self._waiting.get(job_id, [])
            if future in waiting:
                waiting.remove(future)
                if not waiting:
                    del self._waiting[job_id]


_wakeups: WeakKeyDictionary[Database, JobWakeups] = WeakKeyDictionary()
_making = threading.Lock()


def find_wakeups(database: Database) -> JobWakeups:
    """The one instance of all who share a database in this process."""
    with _making:
        return _wakeups.setdefault(database, JobWakeups())
