"""Every refusal and failure as `application/problem+json`: a stable code, and what to do."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from tallymark.errors import (
    BeingServed,
    Busy,
    NotSignedIn,
    Problem,
    TallymarkError,
    TooMany,
    WorkFailed,
)
from tallymark.service.problems import describe_error, describe_problem

MEDIA_TYPE = "application/problem+json"
_log = logging.getLogger(__name__)
_HINTS = {
    401: "send a key: Authorization: Bearer tly_...",
    404: "see /docs for what there is",
    405: "see the Allow header for what is",
}
_OURS = "the server failed; the same request can be repeated"


class RequestProblem(HTTPException):
    """A refusal of a request before any operation runs."""

    def __init__(self, status: int, *parts: Problem, headers: Mapping[str, str] | None = None):
        super().__init__(status, "; ".join(map(str, parts)), dict(headers or {}))
        self.parts = parts


def refuse(status: int, message: str, hint: str | None = None) -> RequestProblem:
    """Make a refusal of one sentence."""
    return RequestProblem(status, Problem(message, None, hint))


async def answer_error(request: Request, error: Exception) -> Response:
    """Answer a request that ended with an error."""
    if isinstance(error, TallymarkError):
        return _answer_refusal(request, error)
    if isinstance(error, HTTPException):
        return _answer_http_error(request, error)
    request_id = _find_id(request)
    if isinstance(error, ClientDisconnect):  # metrics count it as an error of the client
        return _answer(describe_problem(400, [Problem("the body was cut off")], request_id))
    _log.error("request %s failed", request_id, exc_info=error)
    return _answer(describe_problem(500, [Problem(_OURS)], request_id))


def _answer(document: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> Response:
    body = msgspec.json.encode(document)
    return Response(body, document["status"], dict(headers or {}), MEDIA_TYPE)


def _answer_refusal(request: Request, error: TallymarkError) -> Response:
    headers = {}
    if isinstance(error, TooMany | Busy):
        headers["Retry-After"] = str(max(1, round(error.retry_after)))
    elif isinstance(error, WorkFailed):
        headers["Retry-After"] = "10"
    elif isinstance(error, BeingServed):
        headers["Retry-After"] = "1"
    elif isinstance(error, NotSignedIn):
        headers["WWW-Authenticate"] = "Bearer"
    document = describe_error(error, _find_id(request))
    if isinstance(error, WorkFailed):
        _log.warning("request %s: %s", _find_id(request), error)
        # The address of the database is for operators only.
        text = msgspec.json.encode(document).decode()
        document = msgspec.json.decode(request.app.state.service.hide_database(text))
    return _answer(document, headers)


def _answer_http_error(request: Request, error: HTTPException) -> Response:
    if isinstance(error, RequestProblem):
        parts = error.parts
    else:
        said = f"{request.method} {request.url.path}: {HTTPStatus(error.status_code).phrase}"
        parts = (Problem(said, None, _HINTS.get(error.status_code)),)
    document = describe_problem(error.status_code, parts, _find_id(request))
    headers = dict(error.headers or {})
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        headers["Allow"] = ", ".join(sorted(_list_methods(request)))
    return _answer(document, headers)


def _list_methods(request: Request) -> set[str]:
    """List the methods of the first matching route: `/traces/sums` is not also the trace `sums`."""
    for route in request.app.routes:
        if isinstance(route, Route) and route.path_regex.match(request.url.path):
            return set(route.methods or ())  # HEAD is among them where GET is
    return set()


def _find_id(request: Request) -> str:
    return str(request.scope.get("tally.request_id", "-"))
