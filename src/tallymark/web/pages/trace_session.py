"""Page of a session: all traces of a conversation, in order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from tallymark.service.traces import TraceSession
from tallymark.web.page import Page, View
from tallymark.web.page_request import PageRequest


class SessionView(View, frozen=True, kw_only=True):
    """A session with its traces."""

    session: TraceSession

    def list_rows(self) -> Iterable[Mapping[str, Any]]:
        """Return a row for each trace."""
        return (msgspec.structs.asdict(each) for each in self.session.traces)


def gather(request: PageRequest) -> SessionView:
    request.visitor.require_runs()
    found = request.tally.traces.session(request.params["session"])
    return SessionView(title=f"Session {found.name}", session=found)


PAGE = Page("/traces/sessions/{session:path}", "trace_session.html", gather)
