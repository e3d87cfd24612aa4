"""Agents: who takes part."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from tallymark.service.visibility import show_owner
from tallymark.web.page import Page
from tallymark.web.view import Pager, View
from tallymark.web.visit import Visit


class AgentLine(msgspec.Struct, frozen=True, kw_only=True):
    """An agent in the list."""

    handle: str
    name: str
    since: float
    owner: str | None
    elo: int | None
    matches: int


class AgentsView(View, frozen=True, kw_only=True):
    """A page of all agents."""

    agents: list[AgentLine]
    pager: Pager
    text: str

    def list_rows(self) -> Iterable[Mapping[str, Any]]:
        """A row for each agent."""
        return (msgspec.structs.asdict(each) for each in self.agents)


def gather(visit: Visit) -> AgentsView:
    """The agents that the address asks for, by handle."""
    visit.visitor.require_known("agents are shown to those who are signed in")
    store, text = visit.app.store, visit.get("q")
    if not store.exists:
        return AgentsView(title="Agents", agents=[], pager=visit.read_pager(0), text=text)
    figures = store.figures
    pager = visit.read_pager(figures.count_agents(text=text or None))
    found = figures.agents(text=text or None, limit=pager.limit, offset=pager.offset)
    ratings = {each.handle: store.ratings.of(each.handle, public=visit.public) for each in found}
    return AgentsView(
        title="Agents",
        agents=[
            AgentLine(
                handle=each.handle,
                name=each.name,
                since=each.since,
                owner=show_owner(visit.caller, each.handle, each.owner),
                elo=ratings[each.handle].rating if ratings[each.handle].matches else None,
                matches=ratings[each.handle].matches,
            )
            for each in found
        ],
        pager=pager,
        text=text,
    )


PAGE = Page("/agents", "agents.html", gather)
