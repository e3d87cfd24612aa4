"""`/healthz`, `/readyz` and `/metrics`: for whoever runs the server."""

from __future__ import annotations

import logging

from fastapi import APIRouter, Request, Response

from tallymark.api.access import find_service
from tallymark.api.answers import answer
from tallymark.api.api_route import PROBLEMS
from tallymark.errors import TallymarkError, WorkFailed

router = APIRouter(tags=["health"])
_log = logging.getLogger(__name__)
_PROMETHEUS = "text/plain; version=1.0.0; charset=utf-8"


@router.get("/healthz")
async def is_alive() -> Response:
    """The process answers."""
    return answer({"status": "ok"})


@router.get("/readyz", responses={503: PROBLEMS[503]})
def is_ready(request: Request) -> Response:
    """What it needs is there: the database can be read and written."""
    try:
        find_service(request).check_ready()
    except TallymarkError as error:
        # Where the database is, is not for whoever reaches this.
        _log.error("not ready: %s", error)
        raise WorkFailed("the database cannot be read or written", hint="see the log") from None
    return answer({"status": "ready", "database": "ok"})


@router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {_PROMETHEUS: {"schema": {"type": "string"}}}}},
)
def get_metrics(request: Request) -> Response:
    """Counters for Prometheus."""
    return Response(find_service(request).metrics.render(), media_type=_PROMETHEUS)
