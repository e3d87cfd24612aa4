"""The audit log: who did what to what, when and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from tallymark.errors import InvalidInput
from tallymark.store.contests.audit_log import LogFilter
from tallymark.web.organising import LogLine, begin, describe_entries
from tallymark.web.page import Page
from tallymark.web.view import View
from tallymark.web.visit import MOST_ROWS, Visit

_MOST_WRITTEN = 10_000
"""Entries of a CSV or JSON."""
_DAY = 86_400.0
_NAMES = ("challenge", "agent", "actor", "event")


class AuditView(View, frozen=True, kw_only=True):
    """A page of the log, newest first."""

    entries: list[LogLine]
    filters: dict[str, str]
    older: int | None
    """After which entry the next page begins."""

    def list_rows(self) -> Iterable[Mapping[str, Any]]:
        """A row for each entry."""
        return (msgspec.structs.asdict(each) for each in self.entries)


def gather(visit: Visit) -> AuditView:
    """The entries that the address asks for."""
    begin(visit)
    most = _MOST_WRITTEN if visit.get("format") else MOST_ROWS
    limit = visit.read_number("limit", most if visit.get("format") else 50, most, least=1)
    found = []
    if visit.app.store.exists:
        found = visit.app.store.audit_log.entries(limit=limit + 1, **_read_filter(visit))
    given = {name: visit.get(name) for name in (*_NAMES, "from", "until") if visit.get(name)}
    return AuditView(
        title="Audit log",
        entries=describe_entries(found[:limit]),
        filters=given,
        older=found[limit - 1].seq if len(found) > limit else None,
    )


def _read_filter(visit: Visit) -> LogFilter:
    wanted: Any = {name: visit.get(name) or None for name in _NAMES}
    if visit.get("before"):
        wanted["before"] = visit.read_number("before", 0, 10**15)
    wanted["earliest"] = _read_day(visit, "from")
    until = _read_day(visit, "until")
    wanted["latest"] = None if until is None else until + _DAY  # that day too
    found: LogFilter = wanted
    return found


def _read_day(visit: Visit, name: str) -> float | None:
    text = visit.get(name)
    if not text:
        return None
    try:
        return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC).timestamp()
    except ValueError:
        raise InvalidInput(
            f"{name}={text[:40]!r} is no day", hint="write it as 2026-11-17"
        ) from None


PAGE = Page("/organiser/audit", "organiser/audit.html", gather)
