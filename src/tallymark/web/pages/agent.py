"""Page of an agent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, ClassVar

import msgspec

from tallymark.challenges.challenge import StrategyName
from tallymark.challenges.strategies import STRATEGIES
from tallymark.charts.frame import Chart
from tallymark.charts.lines import Line, LinePoint, draw_lines
from tallymark.errors import NotFound
from tallymark.service.agents import Agent, HeadToHead, Rival
from tallymark.service.attempts import AttemptRecord
from tallymark.service.ratings import RatingDetails
from tallymark.text import format_rating, format_tick
from tallymark.web.attempt_score import write_step
from tallymark.web.board_rows import write_values
from tallymark.web.page import Page, Pager, View
from tallymark.web.page_request import PageRequest

_MOST_ATTEMPTS = 20
_CHANCE = 0.05


class AgentView(View, frozen=True, kw_only=True):
    """An agent's profile."""

    agent: Agent
    rating: RatingDetails | None
    rivals: list[Rival]
    head_to_head: HeadToHead | None
    """Comparison with the agent in the URL."""
    attempts: list[AttemptRecord]
    pager: Pager
    write_step: ClassVar = staticmethod(write_step)

    @property
    def chart(self) -> Chart:
        """Fitted rating with its interval and Elo, over matches."""
        path, elo_path = (self.rating.fit_path, self.rating.elo_path) if self.rating else ([], [])
        fitted = [LinePoint(each.match, each.value, (each.low, each.high)) for each in path]
        elo = [LinePoint(place, value) for place, value in enumerate(elo_path)]
        lines = [Line("Fit", fitted)] if fitted else []
        lines.append(Line("Elo", elo))
        return draw_lines("Rating", lines, format_tick, format_rating)

    @property
    def results(self) -> list[dict[str, Any]]:
        """Rows of all places, best first."""
        return sorted(_list_results(self.agent), key=lambda each: (each["rank"], each["title"]))

    @property
    def may_be_chance(self) -> bool:
        """True if the difference between two agents may be chance."""
        p_value = None if self.head_to_head is None else self.head_to_head.p_value
        return p_value is None or p_value > _CHANCE

    @staticmethod
    def write_value(strategy: StrategyName, value: float | None) -> str:
        return write_values(STRATEGIES[strategy], [value])[0]

    def list_rows(self) -> Iterable[Mapping[str, Any]]:
        """Return a row for each challenge, or for each that two agents share."""
        if self.head_to_head is None:
            yield from self.results
            return
        for each in self.head_to_head.boards:
            row = msgspec.structs.asdict(each)
            for name in ("place", "other"):
                standing = row.pop(name)
                row |= {f"{name}_{key}": getattr(standing, key) for key in ("attempt", "value")}
                row |= {f"{name}_rank": standing.rank}
            yield row


def gather(request: PageRequest) -> AgentView:
    """Gather the agent in the URL."""
    request.visitor.require_known("agents are visible to signed-in users")
    handle, live, tally = request.params["handle"], not request.public, request.tally
    if not request.services.exists:
        raise NotFound(f"there is no agent {handle[:60]!r}", hint="see the list of agents")
    agent, rivals = tally.agents.profile(handle, live)
    rating = None
    with suppress(NotFound):
        rating = tally.ratings.get(handle, live=live)
    against = request.get("against").strip()
    offset = request.read_number("offset", 0, 10**9)
    attempts = tally.agents.list_ended(handle, live, _MOST_ATTEMPTS + 1, offset)
    total = offset + len(attempts)
    return AgentView(
        title=agent.name,
        agent=agent,
        rating=rating,
        rivals=[*rivals],
        head_to_head=tally.agents.compare(handle, against, live=live) if against else None,
        attempts=[*attempts[:_MOST_ATTEMPTS]],
        pager=Pager(offset=offset, limit=_MOST_ATTEMPTS, total=total),
    )


def _list_results(agent: Agent) -> Iterator[dict[str, Any]]:
    lines = {name: [each] for name, each in (agent.places or {}).items()} | (agent.sides or {})
    for name, places in lines.items():
        for each in places:
            points, against = each.points or 0, each.against or 0
            yield {
                "challenge": name,
                "title": each.title,
                "side": each.side or None,
                "tries": each.tries,
                "attempt": each.attempt,
                "shown": f"{points} of {points + against}"
                if each.side
                else AgentView.write_value(each.strategy, each.value),
                "result": each.result or None,
                "rank": each.rank,
                "agents": each.agents,
            }


PAGE = Page("/agents/{handle}", "agent.html", gather)
