"""Jobs: records, operations, and waiting for one to end."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from anyio import to_thread
from msgspec import Meta

from tallymark.errors import Conflict, NotFound
from tallymark.service.callers import MEMBERS, ORGANISERS
from tallymark.service.cursors import Cursor, Limit, read_cursor, write_cursor
from tallymark.service.operations import Page, Resource, operation
from tallymark.store.jobs import ENDED, NewJob
from tallymark.store.jobs import JobState as JobState  # noqa: PLC0414 (a type here)

if TYPE_CHECKING:
    from concurrent.futures import Future

    from tallymark.service.callers import Caller
    from tallymark.store import Store
    from tallymark.store.jobs import Job as StoredJob

WAIT_SECONDS = 30.0
"""Seconds that a request waits for its job, unless it asks for an immediate answer."""
_SHORTEST, _LONGEST = 0.1, 0.5
"""Seconds between looks at a job that another process may end."""
_HELD = 5.0
"""Seconds to wait if a worker of this process has the job and reports its end."""
CANCELLABLE = ("run", "rescore", "rescore_run", "backfill")
Id = Annotated[str, Meta(max_length=100)]


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """Work that takes longer than a request."""

    id: str
    kind: str
    subject: Annotated[str, Meta(description="Id or name of the thing that the job is about.")]
    state: JobState
    owner: str
    created_at: float
    started_at: float | None
    finished_at: float | None
    cancelling: Annotated[bool, Meta(description="True while a running job is being cancelled.")]
    takeovers: Annotated[int, Meta(description="Number of times that its worker was lost.")]
    failures: Annotated[int, Meta(description="Number of failed tries.")]
    error: str | None
    result: Any
    holder: Annotated[
        str | msgspec.UnsetType, Meta(description="The worker that has it; for admins only.")
    ] = msgspec.UNSET

    @property
    def ended(self) -> bool:
        """True if it will not continue by itself."""
        return self.state in ENDED


class Jobs(Resource):
    """Work that takes longer than a request. Without organisers' roles, one's own only."""

    @operation("GET /jobs", MEMBERS)
    def list(
        self,
        state: JobState | None = None,
        kind: Annotated[str, Meta(max_length=40)] | None = None,
        subject: Annotated[str, Meta(max_length=1000)] | None = None,
        limit: Limit = 50,
        cursor: Cursor | None = None,
    ) -> Page[Job]:
        """List jobs, newest first."""
        if not self.store.exists:
            return Page(items=[])
        place = read_cursor(cursor, int)
        owner = None
        if self.caller is not None and not self.is_organiser:
            owner = name_owner(self.caller)
        found = self.store.jobs.list(
            state=state,
            kind=kind,
            subject=subject,
            owner=owner,
            before=None if place is None else place[0],
            limit=limit + 1,
        )
        following = write_cursor(found[limit - 1].number) if len(found) > limit else None
        return Page(items=[make_job(each, self.caller) for each in found[:limit]], next=following)

    @operation("GET /jobs/{job}", MEMBERS, noun="job")
    def get(self, job: Id) -> Job:
        """Get a job with its progress or result."""
        return make_job(self._find(job), self.caller)

    @operation("POST /jobs/{job}/cancel", ORGANISERS, rate="write", noun="job")
    def cancel(self, job: Id) -> Job:
        """Cancel a job; submitted attempts are scored in any case."""
        stored = self._find(job)
        if stored.kind not in CANCELLABLE:
            raise Conflict(f"a job of the kind {stored.kind!r} cannot be cancelled")
        return make_job(cancel_job(self.store, job), self.caller)

    @operation("POST /jobs/{job}/retry", ORGANISERS, rate="write", noun="job")
    def retry(self, job: Id) -> Job:
        """Queue a job again that failed, was cancelled or set aside."""
        stored = self.store.jobs.retry(self._find(job).id)
        if stored.kind == "run":
            self.store.update_run(stored.subject, status="queued", error=None, finished_at=None)
        if stored.kind == "backfill":
            self.store.backfills.resume(int(stored.subject))
        return make_job(stored, self.caller)

    def _find(self, job_id: str) -> StoredJob:
        """Find a job that the caller may see: their own, or as an organiser any."""
        stored = self.store.jobs.get(job_id)
        if self.caller is None or self.is_organiser or stored.owner == name_owner(self.caller):
            return stored
        raise NotFound(f"there is no job {job_id!r}")


def make_job(stored: StoredJob, caller: Caller | None) -> Job:
    """Make the record of a stored job."""
    sees_holder = (caller is None or caller.role == "admin") and stored.holder is not None
    return Job(
        id=stored.id,
        kind=stored.kind,
        subject=stored.subject,
        state=stored.state,
        owner=stored.owner,
        created_at=stored.created_at,
        started_at=stored.started_at,
        finished_at=stored.finished_at,
        cancelling=stored.cancel_at is not None and not stored.ended,
        takeovers=stored.takeovers,
        failures=stored.failures,
        error=stored.error,
        result=stored.result,
        holder=str(stored.holder) if sees_holder else msgspec.UNSET,
    )


def name_owner(caller: Caller) -> str:
    """Name the account that a caller's jobs are done for."""
    return caller.owner or caller.agent or caller.name


def cancel_job(store: Store, job_id: str) -> StoredJob:
    """Cancel a job, and with it the run or backfill that it is about."""
    job = store.jobs.cancel(job_id)
    if job.kind == "run" and job.state == "cancelled" and job.finished_at is not None:
        mark_cancelled(store, job.subject, job.finished_at)
    if job.kind == "backfill" and job.state == "cancelled":
        store.backfills.end(int(job.subject), "cancelled")
    return job


def mark_cancelled(store: Store, run_id: str, at: float) -> None:
    """Mark a run as cancelled before a worker had it."""
    store.update_run(run_id, status="cancelled", error="stopped by hand", finished_at=at)


@dataclass(frozen=True)
class JobService:
    """Queues jobs of a tenant, and waits for their end."""

    store: Store

    def queue_scoring(self, caller: Caller, attempt: str) -> StoredJob:
        """Queue the rescoring of a challenge by another rule.

        `how` has further arguments of `Competition.rescore`: `apply`, `reason`, `based_on`; and
        `packed`, the files of a new version.
        """
        new = NewJob(kind="score", subject=attempt, owner=name_owner(caller))
        return self.store.jobs.add(new)

    def queue_rescoring(
        self, caller: Caller, challenge: str, scoring: dict[str, Any], **how: Any
    ) -> StoredJob:
        """Queue the scoring of all attempts at a challenge by another rule.

        `how` is what `Competition.rescore` takes besides: `apply`, `reason`, `based_on`; and
        `packed`, the files of a new version.
        """
        if (packed := how.pop("packed", None)) is not None:
            how["packed"] = base64.b64encode(packed).decode()
        payload = {"challenge": challenge, "scoring": scoring, **how}
        new = NewJob(kind="rescore", subject=challenge, owner=name_owner(caller), payload=payload)
        return self.store.jobs.add(new)

    async def await_end(self, job_id: str, seconds: float = WAIT_SECONDS) -> StoredJob:
        """The job at its end, or its state after some seconds or when the server stops.

        Waiting holds no thread; looking takes one for a moment.
        """
        deadline, pause = time.monotonic() + seconds, _SHORTEST
        while True:
            # Read each time: a worker may also hand a job back.
            with self._expect(job_id) as told:
                job = await to_thread.run_sync(self.store.jobs.get, job_id)
                left = deadline - time.monotonic()
                if job.ended or left <= 0 or self.store.jobs.wakeups.is_stopped:
                    return job
                ended = asyncio.wrap_future(told)
                await asyncio.wait([ended], timeout=min(left, self._find_pause(job_id, pause)))
            pause = min(_LONGEST, 1.5 * pause)

    @contextmanager
    def _expect(self, job_id: str) -> Iterator[Future[None]]:
        """Before the first look, so that no end falls between the two."""
        bell = self.store.jobs.wakeups
        told = bell.expect(job_id)
        try:
            yield told
        finally:
            bell.forget(job_id, told)

    def _find_pause(self, job_id: str, pause: float) -> float:
        return _HELD if self.store.jobs.wakeups.is_held(job_id) else pause
