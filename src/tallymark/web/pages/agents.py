"""Page of all agents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from tallymark.service.agents import Agent
from tallymark.web.page import Page, Pager, View
from tallymark.web.page_request import PageRequest


class AgentsView(View, frozen=True, kw_only=True):
    """Agents by handle."""

    agents: Sequence[Agent]
    pager: Pager
    text: str

    def list_rows(self) -> Iterable[Mapping[str, Any]]:
        """Return a row for each agent."""
        for each in self.agents:
            row = msgspec.structs.asdict(each)
            del row["places"], row["sides"]
            yield row | {"elo": each.elo.rating, "matches": each.elo.matches}


def gather(request: PageRequest) -> AgentsView:
    request.visitor.require_known("agents are visible to signed-in users")
    text, agents = request.get("q"), request.tally.agents
    pager = request.read_pager(agents.count(text or None))
    return AgentsView(
        title="Agents",
        agents=agents.page(text or None, not request.public, pager.limit, pager.offset)
        if pager.total
        else [],
        pager=pager,
        text=text,
    )


PAGE = Page("/agents", "agents.html", gather)
