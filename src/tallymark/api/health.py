"""`/healthz`, `/readyz` and `/metrics`: for whoever runs the server."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from tallymark.api.access import find_service
from tallymark.api.answers import answer
from tallymark.errors import TallymarkError

router = APIRouter(tags=["health"])
_PROMETHEUS = "text/plain; version=1.0.0; charset=utf-8"


@router.get("/healthz")
async def is_alive() -> Response:
    """The process answers."""
    return answer({"status": "ok"})


@router.get("/readyz")
def is_ready(request: Request) -> Response:
    """What it needs is there: the database can be read and written."""
    try:
        find_service(request).check_ready()
    except TallymarkError as error:
        return answer({"status": "unready", "database": str(error)}, 503)
    return answer({"status": "ready", "database": "ok"})


@router.get("/metrics")
def get_metrics(request: Request) -> Response:
    """Counters for Prometheus."""
    return Response(find_service(request).metrics.render(), media_type=_PROMETHEUS)
