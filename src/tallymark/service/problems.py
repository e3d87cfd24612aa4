"""Problems by RFC 9457: the record of a refusal or failure, with its status and code."""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus
from typing import Any, Literal

import msgspec

from tallymark.errors import (
    BadRequest,
    Busy,
    Conflict,
    InvalidInput,
    NotAllowed,
    NotFound,
    NotReady,
    NotSignedIn,
    TallymarkError,
    TooLarge,
    TooMany,
    WorkFailed,
)
from tallymark.errors import Problem as ErrorPart

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
CODES: dict[int, str] = {
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


class ProblemPart(msgspec.Struct):
    """One mistake: what is wrong, where, and how to fix it."""

    message: str
    field: str | None
    line: int | None
    column: int | None
    text: str | None
    length: int
    hint: str | None


class Problem(msgspec.Struct):
    """Why a request was refused or failed (RFC 9457). `code` is stable, `detail` is for people."""

    type: str
    title: str
    status: int
    detail: str
    code: Literal[(*sorted({*CODES.values(), "busy", "not_ready"}),)]  # type: ignore[valid-type]
    errors: list[ProblemPart]
    request_id: str


def find_status(error: TallymarkError) -> int:
    """Status of an error."""
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 500)


def describe_problem(
    status: int, parts: Iterable[ErrorPart], request_id: str, code: str | None = None
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
    """Problem document of an error."""
    code: str | None = "busy" if isinstance(error, Busy) else None
    if isinstance(error, NotReady):
        code = "not_ready"
    return describe_problem(find_status(error), error.problems, request_id, code)


def _describe_part(problem: ErrorPart) -> dict[str, Any]:
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
