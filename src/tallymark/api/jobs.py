"""`/jobs`: what takes longer than a request."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query, Request, Response

from tallymark.api.access import MEMBERS, ORGANISERS, Services, Who, find_service, may
from tallymark.api.answers import Cursor, Limit, ValidateOnly, answer, read_cursor, write_cursor
from tallymark.api.api_route import make_router
from tallymark.wire import accounts as wire

router = make_router("jobs")


@router.get("/jobs", response_model=wire.JobPage, dependencies=[may(ORGANISERS)])
def list_jobs(
    request: Request,
    services: Services,
    caller: Who,
    state: Annotated[str | None, Query(max_length=20)] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """Jobs of the tenant, newest first."""
    before = read_cursor(cursor, str)
    found = find_service(request).jobs.list(
        services.tenant, caller, state=state, limit=limit + 1, before=before and before[0]
    )
    more = write_cursor(found[limit - 1]["id"]) if len(found) > limit else None
    return answer({"items": found[:limit], "next": more})


@router.get("/jobs/{job}", response_model=wire.OneJob, dependencies=[may(MEMBERS)])
def get_job(job: str, request: Request, services: Services, caller: Who) -> Response:
    """How far a job is, and what it came to."""
    return answer({"job": _show(request, services, caller, job)})


@router.post(
    "/jobs/{job}/cancel", response_model=wire.OneJob, dependencies=[may(ORGANISERS, "write")]
)
def cancel_job(
    job: str,
    request: Request,
    services: Services,
    caller: Who,
    validate_only: ValidateOnly = False,
) -> Response:
    """Take a job back that has not ended."""
    _show(request, services, caller, job)
    services.store.jobs.cancel(job)
    return answer({"job": _show(request, services, caller, job)})


@router.post(
    "/jobs/{job}/retry", response_model=wire.OneJob, dependencies=[may(ORGANISERS, "write")]
)
def retry_job(
    job: str,
    request: Request,
    services: Services,
    caller: Who,
    validate_only: ValidateOnly = False,
) -> Response:
    """Try a job again that failed or was set aside."""
    _show(request, services, caller, job)
    services.store.jobs.retry(job)
    return answer({"job": _show(request, services, caller, job)})


def _show(request: Request, services: Services, caller: Who, job: str) -> dict[str, Any]:
    shown: dict[str, Any] = find_service(request).jobs.show(services.tenant, caller, job)
    return shown
