"""Organiser overview: waiting attempts, failed jobs, challenges and recent actions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from tallymark.challenges.challenge import PluginPause
from tallymark.service.audit import LogEntry
from tallymark.service.challenges import Challenge, WaitingAttempt, WaitingCount
from tallymark.service.cursors import write_cursor
from tallymark.service.jobs import Job, JobState
from tallymark.text import format_count
from tallymark.web.organising import (
    JobLine,
    cancel_job,
    confirm_at,
    describe_job,
    find_last_job,
    list_pauses,
    require_organiser,
    resume,
    retry_job,
)
from tallymark.web.page import Outcome, Page, Pager, View
from tallymark.web.page_request import PageRequest

if TYPE_CHECKING:
    from tallymark.service.boards import ChallengeTop

_SHOWN = 20
_CHALLENGES = 50
_OF_EACH_STATE = 100


class WaitingLine(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt that has no score yet."""

    attempt: str
    agent: str
    challenge: str
    since: float
    why: str
    job: JobLine | None


class OrganisedLine(msgspec.Struct, frozen=True, kw_only=True):
    """A challenge with its state."""

    challenge: Challenge
    agents: int
    waiting: int
    waiting_since: float | None
    paused: int


class OrganiserView(View, frozen=True, kw_only=True):
    """Everything that an organiser looks after."""

    challenge: str
    """Challenge whose queue is shown; empty for all."""
    waiting: list[WaitingLine]
    pager: Pager
    jobs: list[JobLine]
    """Running and queued jobs other than scoring."""
    broken: list[JobLine]
    """Jobs that failed or were set aside."""
    pauses: list[PluginPause]
    challenges: list[OrganisedLine]
    """Challenges, those with waiting work first."""
    total: int
    """Number of challenges."""
    log: list[LogEntry]
    busy: bool

    def list_rows(self) -> Iterable[Mapping[str, Any]]:
        """A row for each attempt that waits."""
        for each in self.waiting:
            row = msgspec.structs.asdict(each)
            yield {**row, "job": each.job.job.state if each.job else None}


def gather(request: PageRequest) -> OrganiserView:
    """Gather the overview, or the queue of one challenge."""
    require_organiser(request)
    chosen, challenges = request.get("challenge"), request.tally.challenges
    pager = request.read_pager(0, _SHOWN)
    found = challenges.waiting(chosen or None, pager.limit, write_cursor(pager.offset))
    counts = {each.challenge: each for each in challenges.waiting(limit=1).counts}
    total = sum(each.count for each in found.counts)
    pager = msgspec.structs.replace(pager, total=total)
    states: tuple[JobState, ...] = ("running", "queued", "set_aside", "failed")
    by_state = {
        state: request.tally.jobs.list(state=state, limit=_OF_EACH_STATE).items for state in states
    }
    live = [
        each for state in states[:2] for each in by_state[state] if each.kind in ("rescore", "run")
    ]
    # A failed job that a later one repeated needs nothing.
    broken = by_state["set_aside"] + [
        each
        for each in by_state["failed"]
        if (last := find_last_job(request, each.kind, each.subject)) is None or last.id == each.id
    ]
    waiting = [_describe_waiting(request, each) for each in found.items]
    return _make_view(request, chosen, waiting, pager, live, broken, counts)


def _make_view(  # noqa: PLR0913, PLR0917 (the parts of one page)
    request: PageRequest,
    chosen: str,
    waiting: list[WaitingLine],
    pager: Pager,
    live: list[Job],
    broken: list[Job],
    counts: Mapping[str, WaitingCount],
) -> OrganiserView:
    pauses = list_pauses(request)
    before = {*counts, *(each.challenge for each in pauses)}
    found = request.tally.boards.overview(_CHALLENGES, 0, places=1, live=True, before=before)
    needs = len(broken) + len(pauses)
    if needs:
        title = f"{format_count(needs, 'thing')} {'needs' if needs == 1 else 'need'} you"
    elif pager.total:
        verb = "waits" if pager.total == 1 else "wait"
        title = f"{format_count(pager.total, 'attempt')} {verb} for a score"
    else:
        title = "Nothing needs you"
    return OrganiserView(
        title=title,
        challenge=chosen,
        waiting=waiting,
        pager=pager,
        jobs=[describe_job(each, request) for each in live],
        broken=[describe_job(each, request) for each in broken],
        pauses=pauses,
        challenges=[_describe_challenge(each, counts, pauses) for each in found.items],
        total=found.total,
        log=request.tally.audit.list(limit=12).items,
        busy=bool(live or pager.total),
    )


def _describe_waiting(request: PageRequest, attempt: WaitingAttempt) -> WaitingLine:
    job = find_last_job(request, "score", attempt.attempt)
    line = None if job is None or job.ended else describe_job(job, request)
    if line is not None and line.job.state == "running":
        why = "being scored"
    elif line is not None and line.job.state == "set_aside":
        why = f"set aside: {line.job.error or 'its worker stopped'}"
    elif attempt.reason:
        why = f"failed, will be retried: {attempt.reason}"
    elif line is not None:
        why = "waits for a worker"
    else:
        why = "not queued yet"
    return WaitingLine(
        attempt=attempt.attempt,
        agent=attempt.agent,
        challenge=attempt.challenge,
        since=attempt.submitted_at,
        why=why,
        job=line,
    )


def _describe_challenge(
    found: ChallengeTop, counts: Mapping[str, WaitingCount], pauses: list[PluginPause]
) -> OrganisedLine:
    name = found.challenge.name
    waits = counts.get(name)
    return OrganisedLine(
        challenge=found.challenge,
        agents=found.agents,
        waiting=waits.count if waits else 0,
        waiting_since=waits.oldest if waits else None,
        paused=sum(each.challenge == name for each in pauses),
    )


def end_pause(request: PageRequest) -> Outcome:
    """Has an agent's attempts scored again."""
    resume(request)
    return confirm_at(request.path, "resumed")


PAGE = Page(
    "/organiser",
    "organiser/front.html",
    gather,
    parts={"queue": "organiser/queue.html"},
    actions={"retry": retry_job, "cancel": cancel_job, "resume": end_pause},
)
