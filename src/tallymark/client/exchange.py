"""Requests, retries and refusals of both clients.

Every request is retried after a broken connection: reads are harmless, and changes carry an
idempotency key, under which the server runs them once and repeats its answer. Answers 429, 502,
503 and 504 are retried too; 409 with Retry-After means that the request is still running, and its
answer is waited for. A refusal is not retried, and is raised as the error of the library:
`InvalidInput`, `NotFound`, `Conflict`, `NotSignedIn`, `NotAllowed`, `TooMany`, `Busy`,
`WorkFailed`.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypedDict

import httpx2
import msgspec

from tallymark.client.addresses import PREFIX, Address
from tallymark.errors import (
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
    TooMany,
    WorkFailed,
)
from tallymark.service.operations import Event
from tallymark.service.problems import ProblemPart
from tallymark.text import clean_line
from tallymark.traces import Span
from tallymark.traces.otlp_document import write_otlp

TRIES = 5
"""Number of times a request is sent before it has failed."""
LONGEST_WAIT_S = 30.0
MOST_BYTES = 500_000_000
"""Largest decompressed answer; rows and events are streamed."""
ATTEMPT_TOKEN = "tally.attempt"  # noqa: S105 (an attribute's name)
"""Spans that carry an attempt's token under this name are its witnessed trajectory."""
LOOKS = 60
"""Number of times a running request is asked for its answer."""
AGAIN = frozenset({429, 502, 503, 504})
"""Statuses after which the same request may succeed."""
BEING_SERVED = 409
"""With Retry-After: the connection was lost, but the request is still running."""
_LOG_IN = "log in to it: tally login URL; or give another key"
_KINDS: dict[int, type[TallymarkError]] = {
    401: NotSignedIn,
    403: NotAllowed,
    404: NotFound,
    409: Conflict,
}


class Status(Protocol):
    """The parts of a response that decide if its request is retried."""

    @property
    def status_code(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]: ...


class CallOptions(TypedDict, total=False):
    """Options of every call."""

    timeout: float
    """Seconds for each request, instead of the client's."""
    idempotency_key: str
    """Key for a change that two processes may request; by default each call has its own."""


@dataclass(frozen=True, kw_only=True)
class Call:
    """One request, with all its retries."""

    method: str
    path: str
    params: Mapping[str, Any] = field(default_factory=dict)
    body: Any = None
    """Becomes JSON; bytes are sent as they are."""
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout: float | None = None
    prefix: str = PREFIX
    idempotency_key: str | None = None

    def build(self, address: Address) -> dict[str, Any]:
        """Make the arguments for httpx. Retries have the same idempotency key."""
        headers = {"Accept": "application/json", **self.headers}
        if address.key:
            headers["Authorization"] = f"Bearer {address.key}"
        if self.method != "GET":
            headers["Idempotency-Key"] = self.idempotency_key or secrets.token_hex(16)
        built: dict[str, Any] = {
            "method": self.method,
            "url": f"{address.url}{self.prefix}{self.path}",
            "headers": headers,
        }
        if self.params:  # even without entries, they would replace the query of the path
            built["params"] = {
                name: str(value).lower() if isinstance(value, bool) else value
                for name, value in self.params.items()
                if value is not None
            }
        if self.body is not None:
            raw = isinstance(self.body, bytes)
            built["content"] = self.body if raw else msgspec.json.encode(self.body)
            headers["Content-Type"] = self.content_type
        if self.timeout is not None:
            built["timeout"] = self.timeout
        return built


@dataclass(slots=True)
class Answer:
    """An answer of bounded size."""

    status_code: int
    headers: Mapping[str, str]
    _body: bytearray = field(default_factory=bytearray)

    @property
    def content(self) -> bytes:
        """The body."""
        return bytes(self._body)

    def take(self, part: bytes) -> None:
        """Append a part of the body."""
        self._body += part
        if len(self._body) > MOST_BYTES:
            raise WorkFailed(
                f"the server's answer is longer than {MOST_BYTES:,} bytes", hint="ask for less"
            )


def write_spans(spans: Iterable[Span], token: str) -> Call:
    """Make the request that sends steps of an attempt to the server that witnesses them."""
    return Call(
        method="POST",
        path="/v1/traces",
        prefix="",
        body=write_otlp(spans, {ATTEMPT_TOKEN: token}, trace_id=token),
    )


def is_being_served(answer: Status | None) -> bool:
    """Check if the server is still running this request."""
    told = answer is not None and "retry-after" in answer.headers
    return told and answer is not None and answer.status_code == BEING_SERVED


def find_wait(answer: Status | None, tries: int, looks: int = 0) -> float | None:
    """Find the seconds to wait before a retry; None to give up."""
    if is_being_served(answer):
        return 1.0 if looks < LOOKS else None
    if tries >= TRIES or (answer is not None and answer.status_code not in AGAIN):
        return None
    told = "" if answer is None else answer.headers.get("retry-after", "")
    wait = float(told) if told.isdigit() else 0.1 * 2**tries
    # Clients that were refused together do not return together.
    return None if wait > LONGEST_WAIT_S else wait * random.uniform(1.0, 1.25)  # noqa: S311


class _Refusal(msgspec.Struct):
    detail: str
    code: str
    errors: list[ProblemPart]


def _read_part(part: ProblemPart) -> Problem:
    known = any(each is not None for each in (part.field, part.line, part.column))
    place = Place(part.field, part.line, part.column, part.length, part.text)
    return Problem(part.message, place if known else None, part.hint)


def describe_redirect(address: Address, headers: Mapping[str, str]) -> TallymarkError:
    """Describe a redirect, which is not followed: the key is not for another server."""
    to = clean_line(headers.get("location", "another address"), 200)
    return WorkFailed(
        f"{address} redirects to {to}, and redirects are not followed",
        hint="where that is the server, log in to its own address: tally login URL",
    )


def read_refusal(status: int, headers: Mapping[str, str], body: bytes) -> TallymarkError:
    """Read a refusal as the error that the library raises."""
    try:
        told = msgspec.json.decode(body, type=_Refusal)
    except msgspec.DecodeError:
        said = "something between here and the server" if status >= 500 else "the server"
        return WorkFailed(
            f"{said} answered {status}, not in our language", hint="check its address"
        )
    code, parts = told.code, [_read_part(each) for each in told.errors] or [Problem(told.detail)]
    retry = headers.get("retry-after", "")
    wait = float(retry) if retry.isdigit() else 10.0
    if status == 429 or code == "busy":
        kind = TooMany if status == 429 else Busy
        return kind(str(parts[0]), retry_after=wait)
    if status == 401:
        parts = [_say_log_in(each) for each in parts]
    if code == "not_ready":
        return NotReady(parts)
    return _KINDS.get(status, WorkFailed if status >= 500 else InvalidInput)(parts)


def _say_log_in(part: Problem) -> Problem:
    """Replace a hint about HTTP headers by the command to log in."""
    in_http = part.hint is not None and "Authorization:" in part.hint
    return Problem(part.message, part.place, _LOG_IN) if in_http else part


def describe_failure(address: Address, error: Exception, tries: int) -> TallymarkError:
    """Describe a server that could not be reached."""
    if isinstance(error, httpx2.TimeoutException):
        return WorkFailed(
            f"{address} did not answer in time, {tries} times",
            hint="it may have been done: ask for it before you do it again",
        )
    said = str(error) or type(error).__name__
    return WorkFailed(
        f"{address} cannot be reached: {said}", hint="check the address, and that it runs"
    )


class EventReader:
    """Server-sent events from the lines of a stream."""

    def __init__(self) -> None:
        self.last: str | None = None
        """Number of the last event."""
        self._kind, self._data = "", ""

    def take(self, line: str) -> Event | None:
        """Take a line; return the event that it ends, if any."""
        if not line:
            kind, data, self._kind, self._data = self._kind, self._data, "", ""
            if not data:
                return None
            return Event(kind, int(self.last or 0), msgspec.json.decode(data, type=dict[str, Any]))
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            self._kind = value
        elif name == "data":
            self._data += value
        elif name == "id" and value.isdigit():
            self.last = value
        return None
