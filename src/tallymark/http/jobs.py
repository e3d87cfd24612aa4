"""`/jobs`: what takes longer than a request."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Response

from tallymark.http.access import MEMBERS, ORGANISERS, Services, Who, may
from tallymark.http.answers import Cursor, Limit, ValidateOnly, answer
from tallymark.http.api_route import make_router
from tallymark.service.cursors import read_cursor, write_cursor
from tallymark.service.jobs import describe_job
from tallymark.wire import accounts as wire

router = make_router("jobs")


@router.get("/jobs", response_model=wire.JobPage, dependencies=[may(MEMBERS)])
def list_jobs(
    services: Services,
    caller: Who,
    state: wire.JobStates | None = None,
    kind: Annotated[str | None, Query(max_length=40)] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """Jobs, newest first: one's own, and to organisers all of the tenant."""
    before = read_cursor(cursor, int)
    found = services.jobs.list(
        caller, state=state, kind=kind, limit=limit + 1, before=before[0] if before else None
    )
    more = write_cursor(found[limit - 1].number) if len(found) > limit else None
    items = [describe_job(each, caller) for each in found[:limit]]
    return answer({"items": items, "next": more})


@router.get("/jobs/{job}", response_model=wire.OneJob, dependencies=[may(MEMBERS)])
def get_job(job: str, services: Services, caller: Who) -> Response:
    """How far a job is, and what it came to."""
    return answer({"job": describe_job(services.jobs.get(caller, job), caller)})


@router.post(
    "/jobs/{job}/cancel", response_model=wire.OneJob, dependencies=[may(ORGANISERS, "write")]
)
def cancel_job(
    job: str, services: Services, caller: Who, validate_only: ValidateOnly = False
) -> Response:
    """End a run or a rescoring that has not ended; what was submitted is scored in any case."""
    return answer({"job": describe_job(services.jobs.cancel(caller, job), caller)})


@router.post(
    "/jobs/{job}/retry", response_model=wire.OneJob, dependencies=[may(ORGANISERS, "write")]
)
def retry_job(
    job: str, services: Services, caller: Who, validate_only: ValidateOnly = False
) -> Response:
    """Try a job again that failed, was cancelled or set aside."""
    return answer({"job": describe_job(services.jobs.retry(caller, job), caller)})
