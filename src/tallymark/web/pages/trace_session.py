"""A session as a whole: every trace of one conversation, in order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tallymark.store.traces.trace_rows import TraceRecord
from tallymark.store.traces.trace_sums import TraceSum
from tallymark.web.page import Page
from tallymark.web.view import View
from tallymark.web.visit import Visit


class SessionView(View, frozen=True, kw_only=True):
    """What its traces come to."""

    name: str
    sums: TraceSum
    scores: dict[str, TraceSum]
    traces: list[TraceRecord]
    more: bool

    def list_rows(self) -> Iterable[Mapping[str, Any]]:
        """A row for each trace."""
        return (each.to_dict() for each in self.traces)


def gather(visit: Visit) -> SessionView:
    """The session that the address names."""
    visit.visitor.require_runs()
    found = visit.services.traces.session(visit.params["session"])
    return SessionView(title=f"Session {found.name}", **found._asdict())


PAGE = Page("/traces/sessions/{session:path}", "trace_session.html", gather)
