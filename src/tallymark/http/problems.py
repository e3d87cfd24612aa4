"""Every refusal and failure as `application/problem+json`: a stable code, and what to do."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import msgspec
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import iter_route_contexts
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.routing import compile_path

from tallymark.errors import (
    BadRequest,
    BeingServed,
    Busy,
    Conflict,
    InvalidInput,
    NotAllowed,
    NotFound,
    NotReady,
    NotSignedIn,
    Place,
    Problem,
    TallymarkError,
    TooLarge,
    TooMany,
    WorkFailed,
    suggest,
)

if TYPE_CHECKING:
    from tallymark.wire.problems import Code

MEDIA_TYPE = "application/problem+json"
_log = logging.getLogger(__name__)
# The first that fits: subclasses stand before what they are made from.
_STATUS: tuple[tuple[type[TallymarkError], int], ...] = (
    (BadRequest, 400),
    (NotFound, 404),
    (Conflict, 409),
    (TooLarge, 413),
    (InvalidInput, 422),
    (NotSignedIn, 401),
    (NotAllowed, 403),
    (TooMany, 429),
    (Busy, 503),
    (WorkFailed, 503),
)
CODES: dict[int, Code] = {
    400: "bad_request",
    401: "not_signed_in",
    403: "not_allowed",
    404: "not_found",
    405: "method_not_allowed",
    406: "not_acceptable",
    409: "conflict",
    413: "too_large",
    415: "unsupported_media_type",
    422: "invalid_input",
    429: "too_many_requests",
    500: "internal_error",
    503: "work_failed",
}
_HINTS = {
    401: "send a key: Authorization: Bearer tly_...",
    404: "see /docs for what there is",
    405: "see the Allow header for what is",
}
_OURS = "something of ours failed; the same request may be sent again"


class RequestProblem(HTTPException):
    """What is wrong with a request before any service sees it, with its parts."""

    def __init__(self, status: int, *parts: Problem, headers: Mapping[str, str] | None = None):
        super().__init__(status, "; ".join(map(str, parts)), dict(headers or {}))
        self.parts = parts


def refuse(status: int, message: str, hint: str | None = None) -> RequestProblem:
    """One sentence, to be raised."""
    return RequestProblem(status, Problem(message, None, hint))


def install(app: FastAPI) -> None:
    """Whatever is raised becomes a problem."""
    app.add_exception_handler(TallymarkError, _tell_ours)
    app.add_exception_handler(RequestValidationError, _tell_validation)
    app.add_exception_handler(HTTPException, _tell_http)
    app.add_exception_handler(ClientDisconnect, _tell_gone)
    app.add_exception_handler(Exception, _tell_unforeseen)


async def answer_error(request: Request, error: Exception) -> Response:
    """The answer to a request that ended with this."""
    if isinstance(error, TallymarkError):
        return await _tell_ours(request, error)
    if isinstance(error, HTTPException):
        return await _tell_http(request, error)
    return await _tell_unforeseen(request, error)


def find_status(error: TallymarkError) -> int:
    """The status that an error of ours is answered with."""
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 500)


def describe_problem(
    status: int, parts: Iterable[Problem], request_id: str, code: Code | None = None
) -> dict[str, Any]:
    """The document of a problem."""
    told = list(parts)
    return {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": "; ".join(map(str, told)),
        "code": code or CODES.get(status, "internal_error" if status >= 500 else "bad_request"),
        "errors": [_describe_part(each) for each in told],
        "request_id": request_id,
    }


def describe_error(error: TallymarkError, request_id: str) -> dict[str, Any]:
    """The same of an error of ours."""
    code: Code | None = "busy" if isinstance(error, Busy) else None
    if isinstance(error, NotReady):
        code = "not_ready"
    return describe_problem(find_status(error), error.problems, request_id, code)


def _describe_part(problem: Problem) -> dict[str, Any]:
    place = problem.place
    return {
        "message": problem.message,
        "field": None if place is None else place.source,
        "line": None if place is None else place.line,
        "column": None if place is None else place.column,
        "text": None if place is None else place.text,
        "length": 1 if place is None else place.length,
        "hint": problem.hint,
    }


def _answer(document: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> Response:
    body = msgspec.json.encode(document)
    return Response(body, document["status"], dict(headers or {}), MEDIA_TYPE)


async def _tell_ours(request: Request, error: Exception) -> Response:
    assert isinstance(error, TallymarkError)  # noqa: S101 (what it is installed for)
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
        document = _hide_database(request, document)
    return _answer(document, headers)


def _hide_database(request: Request, document: dict[str, Any]) -> dict[str, Any]:
    """Where the database is, is the operator's business."""
    shown = request.app.state.service.app.store.shown
    text = msgspec.json.encode(document).decode().replace(shown, "the database")
    hidden: dict[str, Any] = msgspec.json.decode(text)
    return hidden


async def _tell_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101
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
    """Of all routes with the path that is meant: Starlette names those of the first alone.

    `/traces/sums` is not also the trace `sums`, though `/traces/{trace}` would take it.
    """
    found: set[str] = set()
    meant = None
    for each in iter_route_contexts(request.app.routes):
        if meant is None and each.path and compile_path(each.path)[0].match(request.url.path):
            meant = each.path
        if meant is not None and each.path == meant:
            found |= each.methods or set()
    return found | ({"HEAD"} if "GET" in found else set())


async def _tell_validation(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101
    found = error.errors()
    body = all(each["loc"][:1] == ("body",) and each["type"] != "json_invalid" for each in found)
    parts = [_read_mistake(each, request) for each in found[:50]]
    return _answer(describe_problem(422 if body else 400, parts, _find_id(request)))


async def _tell_gone(request: Request, _: Exception) -> Response:
    """Nobody hears it; it is counted as theirs, not as ours."""
    return _answer(describe_problem(400, [Problem("the body was cut off")], _find_id(request)))


async def _tell_unforeseen(request: Request, error: Exception) -> Response:
    _log.error("request %s failed", _find_id(request), exc_info=error)
    return _answer(describe_problem(500, [Problem(_OURS)], _find_id(request)))


def _read_mistake(mistake: Mapping[str, Any], request: Request) -> Problem:
    where, *path = mistake["loc"] or ("request",)
    field = ".".join(str(each) for each in path) or str(where)
    kind, hint = mistake["type"], None
    said = str(mistake["msg"])
    if kind == "json_invalid":
        said, field = "the body is not JSON", "body"
        hint = str(mistake.get("ctx", {}).get("error", "")) or None
    elif kind == "missing":
        said = "it is missing" if path else "the request has no body"
    elif kind == "extra_forbidden":
        said = "there is no such field"
        near = suggest(str(path[-1]), _list_fields(request)) if path else None
        hint = f"did you mean {near!r}?" if near else None
    elif kind == "value_error":
        said = said.removeprefix("Value error, ")
    return Problem(said[:1].lower() + said[1:], Place(source=field), hint)


def _list_fields(request: Request) -> list[str]:
    """What the body of this route may have."""
    field = getattr(request.scope.get("route"), "body_field", None)
    model = getattr(getattr(field, "field_info", None), "annotation", None)
    known = isinstance(model, type) and issubclass(model, BaseModel)
    return list(model.model_fields) if known else []  # type: ignore[union-attr]


def _find_id(request: Request) -> str:
    return str(request.scope.get("tally.request_id", "-"))
