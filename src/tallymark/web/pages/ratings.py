"""Ratings: how strong agents are and how hard challenges, and how sure that is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from tallymark.web.page import Page
from tallymark.web.rating_lines import DifficultyLine, RatingLine, make_rating_table
from tallymark.web.view import Pager, View
from tallymark.web.visit import Visit

_SORTS: dict[str, Callable[[RatingLine], Any]] = {
    "floor": lambda each: (each.group, each.place),
    "elo": lambda each: (-each.elo, each.group, each.place),
    "strength": lambda each: (-(each.strength or 0.0), each.group, each.place),
    "matches": lambda each: (-each.matches, each.group, each.place),
    "agent": lambda each: each.agent,
}


class RatingsView(View, frozen=True, kw_only=True):
    """The table of agents, and that of challenges."""

    agents: list[RatingLine]
    pager: Pager
    challenges: list[DifficultyLine]
    comparable: bool
    frozen: list[str]
    sort: str
    least: float
    most: float

    def list_rows(self) -> Iterable[Mapping[str, Any]]:
        """A row for each agent."""
        return (msgspec.structs.asdict(each) for each in self.agents)


def gather(visit: Visit) -> RatingsView:
    """The part of the table that the address asks for."""
    table = make_rating_table(visit)
    sort = visit.choose("sort", tuple(_SORTS))
    ordered = sorted(table.agents, key=_SORTS[sort])
    pager = visit.read_pager(len(ordered))
    shown = ordered[pager.offset : pager.offset + pager.limit]
    ends = [end for each in shown for end in (each.low, each.high) if end is not None]
    ends += [end for each in table.challenges for end in (each.low, each.high)]
    return RatingsView(
        title="Ratings",
        agents=shown,
        pager=pager,
        challenges=table.challenges,
        comparable=table.comparable,
        frozen=table.frozen,
        sort=sort,
        least=min(ends, default=0.0),
        most=max(ends, default=1.0),
    )


PAGE = Page("/ratings", "ratings.html", gather)
