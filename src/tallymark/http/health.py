"""`/healthz`, `/readyz` and `/metrics`, for operators."""

from __future__ import annotations

import logging
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tallymark.errors import Problem, WorkFailed
from tallymark.http.access import find_service
from tallymark.http.answers import answer
from tallymark.http.problems import MEDIA_TYPE, answer_error

_log = logging.getLogger(__name__)
_PROMETHEUS = "text/plain; version=1.0.0; charset=utf-8"


async def is_alive(_: Request) -> Response:
    return answer({"status": "ok"})


async def is_ready(request: Request) -> Response:
    parts = await find_service(request).readiness.find_parts()
    failed = [each for each in parts if each.fails]
    if not failed:
        return answer({"status": "ready", **{each.name: each.state for each in parts}})
    # The details name paths and addresses, which are not for everybody who reaches this.
    for each in failed:
        _log.error("not ready: %s: %s; %s", each.name, each.state, each.detail)
    problems = [Problem(f"{each.name}: {each.state}", None, each.hint) for each in failed]
    return await answer_error(request, WorkFailed(problems))


def get_metrics(request: Request) -> Response:
    return Response(find_service(request).metrics.render(), media_type=_PROMETHEUS)


ROUTES = [
    Route("/healthz", is_alive),
    Route("/readyz", is_ready),
    Route("/metrics", get_metrics),
]


def _describe(name: str, summary: str, kind: str, schema: str) -> dict[str, Any]:
    content = {kind: {"schema": {"type": schema}}}
    responses: dict[str, Any] = {"200": {"description": "Done.", "content": content}}
    if name == "is_ready":
        problem = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
        responses["503"] = {"description": "Something it needs is missing.", "content": problem}
    words = {"summary": summary, "description": summary}
    return {"operationId": name, **words, "tags": ["health"], "responses": responses}


PATHS = {
    "/healthz": {
        "get": _describe("is_alive", "The process answers.", "application/json", "object")
    },
    "/readyz": {
        "get": _describe(
            "is_ready",
            "Database, sandbox, workers and disk can be used.",
            "application/json",
            "object",
        )
    },
    "/metrics": {
        "get": _describe("get_metrics", "Counters for Prometheus.", _PROMETHEUS, "string")
    },
}
"""Entries of the OpenAPI document."""
