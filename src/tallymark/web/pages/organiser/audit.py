"""Page of the audit log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from tallymark.errors import InvalidInput
from tallymark.service.audit import LogEntry
from tallymark.web.organising import require_organiser
from tallymark.web.page import Page, View
from tallymark.web.page_request import MOST_ROWS, PageRequest

_MOST_WRITTEN = 10_000
"""Most entries of a CSV or JSON export."""
_AT_ONCE = 1000
_DAY = 86_400.0
_NAMES = ("challenge", "agent", "actor", "event")


class AuditView(View, frozen=True, kw_only=True):
    """A page of the log, newest first."""

    entries: list[LogEntry]
    filters: dict[str, str]
    next: str | None
    """Cursor of the page with older entries."""

    def list_rows(self) -> Iterable[Mapping[str, Any]]:
        """Return the entries for exports."""
        for each in self.entries:
            yield msgspec.structs.asdict(each) | {"note": each.facts, "reason": each.reason}


def gather(request: PageRequest) -> AuditView:
    require_organiser(request)
    most = _MOST_WRITTEN if request.get("format") else MOST_ROWS
    limit = request.read_number("limit", most if request.get("format") else 50, most, least=1)
    wanted: Any = {name: request.get(name) or None for name in _NAMES}
    wanted["since"], until = _read_day(request, "from"), _read_day(request, "until")
    wanted["until"] = None if until is None else until + _DAY  # that day too
    page = request.tally.audit.list(
        **wanted, limit=min(limit, _AT_ONCE), cursor=request.get("cursor") or None
    )
    entries = page.items
    while page.next is not None and len(entries) < limit:
        left = min(limit - len(entries), _AT_ONCE)
        page = request.tally.audit.list(**wanted, limit=left, cursor=page.next)
        entries += page.items
    return AuditView(
        title="Audit log",
        entries=entries,
        filters={
            name: request.get(name) for name in (*_NAMES, "from", "until") if request.get(name)
        },
        next=page.next,
    )


def _read_day(request: PageRequest, name: str) -> float | None:
    text = request.get(name)
    if not text:
        return None
    try:
        return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC).timestamp()
    except ValueError:
        raise InvalidInput(
            f"{name}={text[:40]!r} is no day", hint="write it as 2026-11-17"
        ) from None


PAGE = Page("/organiser/audit", "organiser/audit.html", gather)
