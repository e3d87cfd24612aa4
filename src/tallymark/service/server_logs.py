"""Log format of servers and workers: readable lines, or one JSON object a line.

No line contains a secret: requests are logged by route and never by address, which may contain one,
and anything that looks like a key is masked everywhere else, tracebacks included.
"""

from __future__ import annotations

import logging
import re
import sys
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from tallymark.errors import InvalidInput, suggest
from tallymark.service.metrics import name_route
from tallymark.store.engines import REQUEST_SECONDS, statement_seconds

if TYPE_CHECKING:
    from collections.abc import Mapping

VARIABLE = "TALLY_LOG"
FORMATS = ("quiet", "text", "json")
_HIDDEN = "[hidden]"
_KEYS = re.compile(
    r"\b(?:tl[a-z]_|sk-|pk-|ghp_|xox[a-z]-)[A-Za-z0-9_-]{8,}"  # ours, and those of providers
    r"|\bwhsec_[A-Za-z0-9+/=]{8,}"  # what signs for webhooks
    r"|(?<=://)[^\s/@]+:[^\s/@]+(?=@)"  # who and their password, in an address
    r"|(?i:(?<=bearer )|(?<=basic ))[A-Za-z0-9._~+/=-]{6,}"
    r"|(?i:(?<=key=)|(?<=token=)|(?<=secret=)|(?<=password=)|(?<=csrf=))[^\s&\"',;]+"
)
_SECRET_NAMES = re.compile(r"(?i)key|secret|token|password|_headers$")
_SHORTEST = 8
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
"""Characters that end a line or control a terminal."""
current_request: ContextVar[str] = ContextVar("tally_request", default="")
"""The id of the request that is being served here."""
_requests = logging.getLogger("tallymark.requests")


def begin_request(request_id: str) -> None:
    """Name the request that is served in this context, and limit the time of its statements."""
    current_request.set(request_id)
    statement_seconds.set(REQUEST_SECONDS)


def set_up_logs(
    wanted: str | None, environment: Mapping[str, str], stream: Any = None
) -> logging.Handler:
    """From now on all that is logged goes to standard error, in this format."""
    chosen = wanted or environment.get(VARIABLE) or FORMATS[0]
    if chosen not in FORMATS:
        near = suggest(chosen, FORMATS)
        source = "--log-format" if wanted else VARIABLE
        hint = f"did you mean {near!r}?" if near else f"write {', '.join(FORMATS)}"
        raise InvalidInput(f"{source}: there is no format {chosen!r}", hint=hint)
    secrets = [
        value
        for name, value in environment.items()
        if _SECRET_NAMES.search(name) and len(value) >= _SHORTEST
    ]
    handler = logging.StreamHandler(sys.stderr if stream is None else stream)
    make = _JsonLines if chosen == "json" else _TextLines
    handler.setFormatter(make(sorted(secrets, key=len, reverse=True)))
    root = logging.getLogger()
    for known in [each for each in root.handlers if isinstance(each.formatter, _Lines)]:
        root.removeHandler(known)
    root.addHandler(handler)
    logging.getLogger("tallymark").setLevel(logging.WARNING if chosen == "quiet" else logging.INFO)
    return handler


def log_request(scope: Mapping[str, Any], status: int, seconds: float) -> None:
    """Log an answered request, if access logs are on."""
    if not _requests.isEnabledFor(logging.INFO):
        return
    caller = scope.get("tally.caller")
    facts = {
        "request_id": scope.get("tally.request_id", ""),
        "method": scope["method"],
        "route": name_route(scope),
        "status": status,
        "seconds": round(seconds, 6),
        "tenant": getattr(caller, "tenant", None),
        "role": getattr(caller, "role", None),
        "key": getattr(caller, "key_id", None),
    }
    who = facts["key"] or facts["role"] or "nobody"
    said = f"{facts['method']} {facts['route']} {status} {seconds * 1000:.1f} ms {who}"
    _requests.info(said, extra={"facts": facts})


class _Lines(logging.Formatter):
    """Common part of both formats, without secrets."""

    def __init__(self, secrets: list[str]) -> None:
        super().__init__()
        self._secrets = secrets

    def hide(self, text: str) -> str:
        """The text without what looks like a key, and without those that are known."""
        for each in self._secrets:
            text = text.replace(each, _HIDDEN)
        return _KEYS.sub(_HIDDEN, text)

    def read(self, record: logging.LogRecord) -> tuple[str, str, str]:
        """Time, message, and Python's fields."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        error = "" if not record.exc_info else self.formatException(record.exc_info)
        return at.replace("+00:00", "Z"), self.hide(record.getMessage()), self.hide(error)


class _TextLines(_Lines):
    def format(self, record: logging.LogRecord) -> str:
        at, said, error = self.read(record)
        asked = getattr(record, "facts", {}).get("request_id") or current_request.get()
        where = f" [{self.hide(asked)}]" if asked and asked not in said else ""
        line = f"{at} {record.levelname.lower()} {record.name}: {said}{where}"
        # One entry, one line; a traceback follows below.
        line = _CONTROLS.sub(lambda found: ascii(found[0])[1:-1], line)
        return f"{line}\n{error}" if error else line


class _JsonLines(_Lines):
    def format(self, record: logging.LogRecord) -> str:
        at, said, error = self.read(record)
        told: dict[str, Any] = {
            "at": at,
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": said,
        }
        if asked := current_request.get():
            told["request_id"] = self.hide(asked)
        facts = getattr(record, "facts", {}).items()
        told |= {name: self.hide(it) if isinstance(it, str) else it for name, it in facts}
        if error:
            told["error"] = error
        return msgspec.json.encode(told, enc_hook=str).decode()
