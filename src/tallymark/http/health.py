"""`/healthz`, `/readyz` and `/metrics`, for operators."""

from __future__ import annotations

import logging
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tallymark.abandonable_calls import call_in_thread
from tallymark.errors import NotAllowed, Problem, WorkFailed
from tallymark.http.problems import MEDIA_TYPE, answer_error
from tallymark.http.routes import find_service
from tallymark.service.keys import is_operator
from tallymark.service.service import Service
from tallymark.service.settings import METRICS_VARIABLE
from tallymark.service.sign_in import find_caller

_log = logging.getLogger(__name__)
_FORWARDED = frozenset({"x-forwarded-for", "forwarded", "x-real-ip", "via"})
_PROMETHEUS = "text/plain; version=1.0.0; charset=utf-8"


async def is_alive(_: Request) -> Response:
    return JSONResponse({"status": "ok"})


async def is_ready(request: Request) -> Response:
    parts = await find_service(request).readiness.find_parts()
    failed = [each for each in parts if each.fails]
    if not failed:
        return JSONResponse({"status": "ready", **{each.name: each.state for each in parts}})
    # The details name paths and addresses, which are not public.
    for each in failed:
        _log.error("not ready: %s: %s; %s", each.name, each.state, each.detail)
    problems = [Problem(f"{each.name}: {each.state}", None, each.hint) for each in failed]
    return await answer_error(request, WorkFailed(problems))


async def get_metrics(request: Request) -> Response:
    """For operators: the numbers show the traffic of all tenants."""
    service = find_service(request)
    if not (service.own or _asks_from_known_address(service, request)):
        caller = await find_caller(service, request)
        if not is_operator(caller):
            said = "the metrics show the traffic of all tenants"
            hint = f"ask from an address that {METRICS_VARIABLE} names, or with an operator's key"
            raise NotAllowed(said, hint=hint)
    # In a thread of its own: those of requests may all wait for the database.
    rendered = await call_in_thread(service.metrics.render)
    return Response(rendered, media_type=_PROMETHEUS)


def _asks_from_known_address(service: Service, request: Request) -> bool:
    """Check the address. Behind an untrusted proxy, every client would have the proxy's address."""
    if "tally.through_proxy" not in request.scope and not _FORWARDED.isdisjoint(request.headers):
        return False
    return request.client is not None and request.client.host in service.settings.metrics_from


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
