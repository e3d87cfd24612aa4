"""Page of a job: progress, outcome, retry and cancel."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from tallymark.challenges.rescoring import Rescoring
from tallymark.service.jobs import Job
from tallymark.web.organising import (
    JobLine,
    MovedLine,
    RatingLine,
    cancel_job,
    describe_job,
    list_moves,
    list_rating_lines,
    require_organiser,
    retry_job,
)
from tallymark.web.page import Page, View
from tallymark.web.page_request import PageRequest


class JobView(View, frozen=True, kw_only=True):
    """One job."""

    line: JobLine
    rescoring: Rescoring | None
    moves: list[MovedLine]
    ratings: list[RatingLine]
    busy: bool

    def list_rows(self) -> Iterable[Mapping[str, Any]]:
        """A row for each agent that moved or would."""
        return (msgspec.structs.asdict(each) for each in self.moves)


def gather(request: PageRequest) -> JobView:
    """Gather the job in the URL."""
    require_organiser(request)
    job = request.tally.jobs.get(request.params["job"])
    line, rescoring = describe_job(job, request), read_rescoring(job)
    return JobView(
        title=f"{line.words} {job.subject}: {job.state.replace('_', ' ')}",
        line=line,
        rescoring=rescoring,
        moves=[] if rescoring is None else list_moves(request, rescoring),
        ratings=[] if rescoring is None else list_rating_lines(request, rescoring),
        busy=not job.ended and job.state != "set_aside",
    )


def read_rescoring(job: Job) -> Rescoring | None:
    """Return the rescoring of a job; None without a result."""
    told = job.result.get("rescoring") if isinstance(job.result, dict) else None
    return None if told is None else msgspec.convert(told, Rescoring)


PAGE = Page(
    "/organiser/jobs/{job}",
    "organiser/job.html",
    gather,
    parts={"state": "organiser/job_state.html"},
    actions={"retry": retry_job, "cancel": cancel_job},
)
