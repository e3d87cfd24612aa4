"""`/healthz`, `/readyz` and `/metrics`: for whoever runs the server."""

from __future__ import annotations

import logging

from fastapi import APIRouter, Request, Response

from tallymark.errors import Problem, WorkFailed
from tallymark.http.access import find_service
from tallymark.http.answers import answer
from tallymark.http.api_route import PROBLEMS

router = APIRouter(tags=["health"])
_log = logging.getLogger(__name__)
_PROMETHEUS = "text/plain; version=1.0.0; charset=utf-8"


@router.get("/healthz")
async def is_alive() -> Response:
    """The process answers."""
    return answer({"status": "ok"})


@router.get("/readyz", responses={503: PROBLEMS[503]})
async def is_ready(request: Request) -> Response:
    """What it needs is there: database, sandbox, workers, room on the disk."""
    parts = await find_service(request).readiness.find_parts()
    failed = [each for each in parts if each.fails]
    if failed:
        # Where the database is, is not for whoever reaches this.
        for each in failed:
            _log.error("not ready: %s: %s; %s", each.name, each.state, each.detail)
        raise WorkFailed(
            [Problem(f"{each.name}: {each.state}", None, each.hint) for each in failed]
        )
    return answer({"status": "ready", **{each.name: each.state for each in parts}})


@router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {_PROMETHEUS: {"schema": {"type": "string"}}}}},
)
def get_metrics(request: Request) -> Response:
    """Counters for Prometheus."""
    return Response(find_service(request).metrics.render(), media_type=_PROMETHEUS)
