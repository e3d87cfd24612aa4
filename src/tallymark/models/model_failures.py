"""Failures of requests to models, as a ModelError with `retryable` and `retry_after`."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import TYPE_CHECKING

from tallymark.errors import ModelError
from tallymark.text import shorten

if TYPE_CHECKING:
    from collections.abc import Mapping

_OVERLOADED = 529  # Anthropic's own
_THROTTLED = {429, 503, _OVERLOADED}
_PASSING = {408, 409, 425}  # timeout, conflict, too early: gone at the next try
_HINTS = {
    401: "check the API key",
    403: "check that the API key may use this model",
    404: "check the address and the model's name",
}


def http_failure(
    name: str, status: int, headers: Mapping[str, str], said: str, *, key: str | None = None
) -> ModelError:
    """The error for an HTTP status: 429, overload and 5xx may pass, other refusals stay.

    `key` is the environment variable for the key, when there was none.
    """
    throttled = status in _THROTTLED
    hint = f"put its key into {key}" if key and status == HTTPStatus.UNAUTHORIZED else None
    return ModelError(
        f"{name} answered {status} {_find_phrase(status)}{_quote(said)}",
        hint=hint or _HINTS.get(status),
        retryable=throttled or status in _PASSING or status >= 500,
        throttled=throttled,
        retry_after=retry_after(headers),
        refused=True,
    )


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait by the `Retry-After` headers, given as a number or as a date."""
    said = {key.lower(): value for key, value in headers.items()}
    seconds = _parse_seconds(said.get("retry-after-ms"))
    if seconds is not None:
        return seconds / 1000
    seconds = _parse_seconds(said.get("retry-after"))
    return _parse_date(said.get("retry-after")) if seconds is None else seconds


def one_line(said: object) -> str:
    """Any message as one line of readable length."""
    line = " ".join(str(said).split()) or type(said).__name__
    return shorten(line, 300)


def _parse_seconds(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if 0 <= number < math.inf else None


def _parse_date(date: str | None) -> float | None:
    try:
        moment = parsedate_to_datetime(date or "")
    except ValueError:
        return None
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0.0, (aware - datetime.now(UTC)).total_seconds())


def _find_phrase(status: int) -> str:
    if status == _OVERLOADED:
        return "Overloaded"
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "(not a standard status)"


def _quote(said: str) -> str:
    return f": {one_line(said)}" if said.strip() else ""
