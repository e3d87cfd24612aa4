"""What organisers' pages share: who may, lines of jobs and of what waits."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import msgspec

from tallymark.service.jobs import name_owner
from tallymark.store.contests.pauses import PluginPause
from tallymark.store.jobs.jobs import Job
from tallymark.web.page import Outcome
from tallymark.web.visit import Visit

CANCELLABLE = ("run", "rescore", "rescore_run")
_WORDS = {
    "score": "Score",
    "settle": "Look after what was left",
    "run": "Run",
    "rescore": "Rescore",
    "rescore_run": "Sum up again",
}


class JobLine(msgspec.Struct, frozen=True, kw_only=True):
    """A job as an organiser sees it."""

    id: str
    kind: str
    words: str
    subject: str
    state: str
    owner: str
    since: float
    """When it came, began or ended."""
    error: str | None
    done: int | None
    of: int | None
    may_retry: bool
    may_cancel: bool
    cancelling: bool


def begin(visit: Visit, *, work: bool = False) -> None:
    """Refuses who does not organise; what takes a while is counted as the API counts it."""
    visit.visitor.require_organiser()
    if work and not visit.service.own:
        visit.service.limits.check(visit.caller, "work")


def lead_back(address: str, done: str) -> Outcome:
    """To a page that says what was done."""
    return Outcome(f"{address}?done={quote(done)}")


def address_challenge(name: str, rest: str = "") -> str:
    """Where a challenge is organised."""
    return f"/organiser/challenges/{quote(name, safe='')}{rest}"


def describe_job(job: Job, visit: Visit) -> JobLine:
    """One line of it."""
    told = job.result if isinstance(job.result, dict) else {}
    progress: dict[str, Any] = told.get("progress") or {}
    ended = job.finished_at if job.ended else None
    running = job.state == "running"
    return JobLine(
        id=job.id,
        kind=job.kind,
        words=_WORDS.get(job.kind, job.kind),
        subject=job.subject,
        state=job.state,
        owner="you" if job.owner == name_owner(visit.caller) else job.owner,
        since=ended or (job.started_at if running else None) or job.created_at,
        error=job.error,
        done=progress.get("done") if running else None,
        of=progress.get("of") if running else None,
        may_retry=job.state in ("failed", "set_aside", "cancelled"),
        may_cancel=job.kind in CANCELLABLE and not job.ended and job.cancel_at is None,
        cancelling=job.cancel_at is not None and not job.ended,
    )


def list_pauses(visit: Visit, challenge: str | None = None) -> list[PluginPause]:
    """Agents that plugins do not score any more."""
    return visit.app.store.pauses.all(challenge) if visit.app.store.exists else []


def resume(visit: Visit) -> None:
    """Ends the pause that a form names, and scores what waited for it."""
    begin(visit, work=True)
    name = visit.form.require("challenge", "it is not said at which challenge")
    visit.services.competition.resume(name, visit.form.get("agent") or None)


def retry_job(visit: Visit) -> Outcome:
    """Begins a job anew."""
    begin(visit)
    visit.services.jobs.retry(visit.caller, visit.form.get("job"))
    return lead_back(visit.path, "queued")


def cancel_job(visit: Visit) -> Outcome:
    """Ends a job."""
    begin(visit)
    visit.services.jobs.cancel(visit.caller, visit.form.get("job"))
    return lead_back(visit.path, "cancelled")
