"""`JobService`: what callers see of jobs and may do with them, and waiting for one to end."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tallymark.errors import Conflict, NotFound
from tallymark.store.jobs.jobs import NewJob

if TYPE_CHECKING:
    from concurrent.futures import Future

    from tallymark.service.callers import Caller
    from tallymark.store import Store
    from tallymark.store.jobs.jobs import Job

WAIT_SECONDS = 30.0
"""How long a request waits for what it started, unless it wants to be answered at once."""
_SHORTEST, _LONGEST = 0.1, 0.5
"""Seconds between looks at a job that another process may end."""
_HELD = 5.0
"""The same where a worker of this process has it, and tells."""
_OVERSEERS = ("admin", "organiser")
_CANCELLABLE = ("run", "rescore", "rescore_run", "backfill")


def name_owner(caller: Caller) -> str:
    """On whose account a caller's jobs are done."""
    return caller.owner or caller.agent or caller.name


def cancel_job(store: Store, job_id: str) -> Job:
    """Ends a job, and with it the run that it is about, if that has not begun."""
    job = store.jobs.cancel(job_id)
    if job.kind == "run" and job.state == "cancelled" and job.finished_at is not None:
        mark_cancelled(store, job.subject, job.finished_at)
    if job.kind == "backfill" and job.state == "cancelled":
        store.backfills.end(int(job.subject), "cancelled")
    return job


def mark_cancelled(store: Store, run_id: str, at: float) -> None:
    """A run that somebody ended before a worker had it."""
    store.update_run(run_id, status="cancelled", error="stopped by hand", finished_at=at)


@dataclass(frozen=True)
class JobService:
    """The jobs of one tenant."""

    store: Store

    def get(self, caller: Caller, job_id: str) -> Job:
        """A job that the caller may see: their own, or as an organiser any."""
        job = self.store.jobs.get(job_id)
        if not _may_see(caller, job):
            raise NotFound(f"there is no job {job_id!r}")
        return job

    def list(
        self,
        caller: Caller,
        *,
        state: str | None = None,
        kind: str | None = None,
        before: int | None = None,
        limit: int = 50,
    ) -> list[Job]:
        """The newest first, of those that the caller may see."""
        owner = None if caller.role in _OVERSEERS else name_owner(caller)
        return self.store.jobs.list(state=state, kind=kind, owner=owner, before=before, limit=limit)

    def queue_scoring(self, caller: Caller, attempt: str) -> Job:
        """Has a submitted attempt scored by whichever worker is free."""
        new = NewJob(kind="score", subject=attempt, owner=name_owner(caller))
        return self.store.jobs.add(new)

    def queue_rescoring(
        self, caller: Caller, challenge: str, scoring: dict[str, Any], **how: Any
    ) -> Job:
        """Has all attempts at a challenge scored by another rule.

        `how` is what `Competition.rescore` takes besides: `apply`, `reason`, `based_on`; and
        `packed`, the files of a new version.
        """
        if (packed := how.pop("packed", None)) is not None:
            how["packed"] = base64.b64encode(packed).decode()
        payload = {"challenge": challenge, "scoring": scoring, **how}
        new = NewJob(kind="rescore", subject=challenge, owner=name_owner(caller), payload=payload)
        return self.store.jobs.add(new)

    def cancel(self, caller: Caller, job_id: str) -> Job:
        """Ends a job. What was submitted is scored, whoever would rather not have it scored."""
        job = self.get(caller, job_id)
        if job.kind not in _CANCELLABLE:
            raise Conflict(f"a job of the kind {job.kind!r} cannot be cancelled")
        return cancel_job(self.store, job_id)

    def retry(self, caller: Caller, job_id: str) -> Job:
        """Begins a job anew that failed, was cancelled or set aside."""
        job = self.store.jobs.retry(self.get(caller, job_id).id)
        if job.kind == "run":
            self.store.update_run(job.subject, status="queued", error=None, finished_at=None)
        if job.kind == "backfill":
            self.store.backfills.resume(int(job.subject))
        return job

    async def await_end(self, job_id: str, seconds: float = WAIT_SECONDS) -> Job:
        """The job when it has ended, or as it is after so many seconds or when the server stops.

        Waiting holds no thread.
        """
        deadline, pause = time.monotonic() + seconds, _SHORTEST
        while True:
            # Each time anew: a worker also lets go of a job that it hands back.
            with self._expect(job_id) as told:
                job = await self.store.jobs.aget(job_id)
                left = deadline - time.monotonic()
                if job.ended or left <= 0 or self.store.jobs.bell.is_stopped:
                    return job
                ended = asyncio.wrap_future(told)
                await asyncio.wait([ended], timeout=min(left, self._find_pause(job_id, pause)))
            pause = min(_LONGEST, 1.5 * pause)

    @contextmanager
    def _expect(self, job_id: str) -> Iterator[Future[None]]:
        """Before the first look, so that no end falls between the two."""
        bell = self.store.jobs.bell
        told = bell.expect(job_id)
        try:
            yield told
        finally:
            bell.forget(job_id, told)

    def _find_pause(self, job_id: str, pause: float) -> float:
        return _HELD if self.store.jobs.bell.is_held(job_id) else pause


def describe_job(job: Job, caller: Caller) -> dict[str, Any]:
    """What the API shows of a job; who works on it is for those who look after the server."""
    told: dict[str, Any] = {
        "id": job.id,
        "kind": job.kind,
        "subject": job.subject,
        "state": job.state,
        "owner": job.owner,
        "created_at": job.created_at,
        "started_at": job.started_at,
        "finished_at": job.finished_at,
        "cancelling": job.cancel_at is not None and not job.ended,
        "takeovers": job.takeovers,
        "error": job.error,
        "result": job.result,
    }
    if caller.role == "admin":
        told["holder"] = None if job.holder is None else str(job.holder)
    return told


def _may_see(caller: Caller, job: Job) -> bool:
    if caller.role in _OVERSEERS:
        return True
    return caller.role != "anonymous" and job.owner == name_owner(caller)
