"""What organisers' pages share: who may, lines of jobs and of what waits."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import msgspec

from tallymark.challenges.challenge import PluginPause
from tallymark.service.jobs import CANCELLABLE, Job, name_owner
from tallymark.web.page import Outcome
from tallymark.web.visit import Visit

_WORDS = {
    "score": "Score",
    "settle": "Look after what was left",
    "run": "Run",
    "rescore": "Rescore",
    "rescore_run": "Sum up again",
}


class JobLine(msgspec.Struct, frozen=True, kw_only=True):
    """A job with its progress and the actions that are possible."""

    job: Job
    words: str
    since: float
    """Time of its end, else of its start, else of its creation."""
    done: int | None
    of: int | None
    is_own: bool
    may_retry: bool
    may_cancel: bool


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
    """Make the line of a job."""
    result = job.result if isinstance(job.result, dict) else {}
    progress: dict[str, Any] = result.get("progress") or {}
    ended = job.finished_at if job.ended else None
    running = job.state == "running"
    return JobLine(
        job=job,
        words=_WORDS.get(job.kind, job.kind),
        since=ended or (job.started_at if running else None) or job.created_at,
        done=progress.get("done") if running else None,
        of=progress.get("of") if running else None,
        is_own=job.owner == name_owner(visit.caller),
        may_retry=job.state in ("failed", "set_aside", "cancelled"),
        may_cancel=job.kind in CANCELLABLE and not job.ended and not job.cancelling,
    )


def find_last_job(visit: Visit, kind: str, subject: str) -> Job | None:
    """Find the newest job of a kind about something."""
    return next(iter(visit.tally.jobs.list(kind=kind, subject=subject, limit=1)), None)


def list_pauses(visit: Visit, challenge: str | None = None) -> list[PluginPause]:
    """Agents that plugins do not score any more."""
    return list(visit.tally.challenges.pauses(challenge))


def resume(visit: Visit) -> None:
    """Ends the pause that a form names, and scores what waited for it."""
    begin(visit, work=True)
    name = visit.form.require("challenge", "it is not said at which challenge")
    visit.tally.challenges.resume(name, visit.form.get("agent") or None)


def retry_job(visit: Visit) -> Outcome:
    """Queue a job again."""
    begin(visit)
    visit.tally.jobs.retry(visit.form.get("job"))
    return lead_back(visit.path, "queued")


def cancel_job(visit: Visit) -> Outcome:
    """Cancel a job."""
    begin(visit)
    visit.tally.jobs.cancel(visit.form.get("job"))
    return lead_back(visit.path, "cancelled")
