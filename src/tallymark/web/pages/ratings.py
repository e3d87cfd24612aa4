"""Page of the ratings of agents and the difficulties of challenges."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, get_args

from tallymark.service.ratings import Difficulty, Rating, Sort
from tallymark.web.page import Page, Pager, View
from tallymark.web.page_request import PageRequest

_SORTS: tuple[Sort, ...] = get_args(Sort)


class RatingsView(View, frozen=True, kw_only=True):
    """Tables of agents and of challenges."""

    agents: Sequence[Rating]
    pager: Pager
    challenges: Sequence[Difficulty]
    comparable: bool
    frozen: list[str]
    sort: str
    least: float
    most: float

    def list_rows(self) -> Iterable[Mapping[str, Any]]:
        """Return a row for each agent."""
        for each in self.agents:
            elo, rates, strength = each.elo, each.pass_rates, each.strength
            yield {
                **{name: getattr(each, name) for name in ("rank", "tied", "likely")},
                **{name: getattr(each, name) for name in ("group", "group_size", "agent", "name")},
                "elo": elo.rating,
                **{name: getattr(elo, name) for name in ("matches", "wins", "draws", "losses")},
                "strength": strength.value,
                **{name: getattr(strength, name) for name in ("low", "high", "floor")},
                "provisional": strength.provisional,
                **{name: getattr(rates, name) for name in ("pass_at_1", "pass_at_k")},
                **{name: getattr(rates, name) for name in ("pass_hat_k", "challenges", "enough")},
            }


def gather(request: PageRequest) -> RatingsView:
    """Gather the part of the table that the query asks for."""
    sort = next(each for each in _SORTS if each == request.choose("sort", _SORTS))
    ratings, live = request.tally.ratings, not request.public
    asked = request.read_pager(0)
    found = ratings.page(sort, live, asked.limit, asked.offset)
    challenges = list(ratings.challenges(live=live))
    ends = [end for each in found.items for end in (each.strength.low, each.strength.high)]
    ends += [end for each in challenges for end in (each.difficulty.low, each.difficulty.high)]
    return RatingsView(
        title="Ratings",
        agents=found.items,
        pager=request.read_pager(found.agents),
        challenges=challenges,
        comparable=found.comparable,
        frozen=found.frozen,
        sort=sort,
        least=min(ends, default=0.0),
        most=max(ends, default=1.0),
    )


PAGE = Page("/ratings", "ratings.html", gather)
