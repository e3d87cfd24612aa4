"""Shared parts of organiser pages: access, jobs, paused plugins, and moves by a rescoring."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import msgspec

from tallymark.challenges.challenge import PluginPause
from tallymark.challenges.rescoring import BoardPlace, Rescoring
from tallymark.service.jobs import CANCELLABLE, Job, name_owner
from tallymark.web.page import Outcome
from tallymark.web.page_request import PageRequest

_WORDS = {
    "score": "Score",
    "settle": "Clean up",
    "run": "Run",
    "rescore": "Rescore",
    "rescore_run": "Recompute",
}


class JobLine(msgspec.Struct, frozen=True, kw_only=True):
    """A job with its progress and possible actions."""

    job: Job
    words: str
    since: float
    """Time of its end, else its start, else its creation."""
    done: int | None
    of: int | None
    is_own: bool
    may_retry: bool
    may_cancel: bool


def require_organiser(request: PageRequest, *, work: bool = False) -> None:
    """Require an organiser; `work` applies the rate limit of slow requests."""
    request.visitor.require_organiser()
    if work and not request.service.own:
        request.service.limits.check(request.caller, "work")


def confirm_at(address: str, done: str) -> Outcome:
    """Redirect to a page that confirms what was done."""
    return Outcome(f"{address}?done={quote(done)}")


def challenge_address(name: str, rest: str = "") -> str:
    """Return the URL of a challenge's organiser page."""
    return f"/organiser/challenges/{quote(name, safe='')}{rest}"


def describe_job(job: Job, request: PageRequest) -> JobLine:
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
        is_own=job.owner == name_owner(request.caller),
        may_retry=job.state in ("failed", "set_aside", "cancelled"),
        may_cancel=job.kind in CANCELLABLE and not job.ended and not job.cancelling,
    )


def find_last_job(request: PageRequest, kind: str, subject: str) -> Job | None:
    """Find the newest job of a kind about something."""
    return next(iter(request.tally.jobs.list(kind=kind, subject=subject, limit=1)), None)


def list_pauses(request: PageRequest, challenge: str | None = None) -> list[PluginPause]:
    """List agents whose input is paused for a plugin."""
    return list(request.tally.challenges.pauses(challenge))


def resume(request: PageRequest) -> None:
    """End the pause that the form names, and score what waited."""
    require_organiser(request, work=True)
    name = request.form.require("challenge", "the form names no challenge")
    request.tally.challenges.resume(name, request.form.get("agent") or None)


def retry_job(request: PageRequest) -> Outcome:
    """Queue a job again."""
    require_organiser(request)
    request.tally.jobs.retry(request.form.get("job"))
    return confirm_at(request.path, "queued")


def cancel_job(request: PageRequest) -> Outcome:
    """Cancel a job."""
    require_organiser(request)
    request.tally.jobs.cancel(request.form.get("job"))
    return confirm_at(request.path, "cancelled")


class MovedLine(msgspec.Struct, frozen=True, kw_only=True):
    """An agent that changes place; None if it has no place."""

    agent: str
    name: str
    rank: int | None
    was: int | None
    by: int | None
    """Places gained; negative if lost."""
    score: float | None
    score_was: float | None
    result: str | None
    result_was: str | None
    at: float | None
    at_was: float | None
    """Scores as shares of the axis."""
    attempt: str
    """The attempt that counts, or counted before."""


class RatingLine(msgspec.Struct, frozen=True, kw_only=True):
    """An agent whose Elo changes."""

    agent: str
    name: str
    was: float
    rating: float


class Scale(msgspec.Struct, frozen=True, kw_only=True):
    """Ends of the axis."""

    least: float
    most: float


def list_moves(request: PageRequest, rescoring: Rescoring) -> list[MovedLine]:
    """List agents that move, by new place; those that leave the board come last."""
    scale = find_scale(rescoring)
    names = request.tally.agents.find_names(each.agent for each in rescoring.moves)
    lines = []
    for each in rescoring.moves:
        before, after = each.before, each.after
        ranks = (before.rank, after.rank) if before and after else None
        place = after or before
        lines.append(
            MovedLine(
                agent=each.agent,
                name=names.get(each.agent, each.agent),
                rank=after.rank if after else None,
                was=before.rank if before else None,
                by=ranks[0] - ranks[1] if ranks else None,
                score=after.score if after else None,
                score_was=before.score if before else None,
                result=after.result if after else None,
                result_was=before.result if before else None,
                at=_find_share(after, scale),
                at_was=_find_share(before, scale),
                attempt=place.attempt if place else "",
            )
        )
    return sorted(lines, key=lambda line: (line.rank is None, line.rank or line.was or 0))


def list_rating_lines(request: PageRequest, rescoring: Rescoring) -> list[RatingLine]:
    """List the Elo changes that applying the rescoring would make."""
    names = request.tally.agents.find_names(each.agent for each in rescoring.ratings)
    return [
        RatingLine(
            agent=each.agent,
            name=names.get(each.agent, each.agent),
            was=each.before,
            rating=each.after,
        )
        for each in rescoring.ratings
    ]


def find_scale(rescoring: Rescoring) -> Scale:
    """Choose the axis: 0 to 1000 if it holds all scores."""
    places = [place for each in rescoring.moves for place in (each.before, each.after)]
    scores = [each.score for each in places if each is not None and each.score is not None]
    least, most = min(scores, default=0.0), max(scores, default=0.0)
    if any(each is not None and each.result is not None for each in places) and most <= 1000:
        most = 1000.0
    return Scale(least=min(0.0, least), most=most if most > min(0.0, least) else least + 1)


def _find_share(place: BoardPlace | None, scale: Scale) -> float | None:
    if place is None or place.score is None:
        return None
    return (place.score - scale.least) / (scale.most - scale.least)
