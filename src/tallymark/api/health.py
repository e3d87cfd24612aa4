"""`/healthz`, `/readyz` and `/metrics`: for whoever runs the server."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from tallymark.api.access import find_service
from tallymark.api.answers import answer
from tallymark.errors import TallymarkError

router = APIRouter(tags=["health"])


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
    from prometheus_client import CONTENT_TYPE_LATEST, generate_latest  # noqa: PLC0415

    registry = find_service(request).metrics
    return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)
