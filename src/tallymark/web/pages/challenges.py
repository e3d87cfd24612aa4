"""Challenges: what can be entered, and who leads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from tallymark.challenges.challenge import PublicChallenge
from tallymark.challenges.tracks import Track
from tallymark.service.challenges import Challenge
from tallymark.web.board_rows import BoardRow, list_board
from tallymark.web.page import Page
from tallymark.web.view import View
from tallymark.web.visit import Visit

_SHOWN = 3


class ChallengeLine(msgspec.Struct, frozen=True, kw_only=True):
    """A challenge in the list."""

    challenge: Challenge
    agents: int
    top: list[BoardRow]
    """The first places."""

    @property
    def leader(self) -> BoardRow | None:
        return self.top[0] if self.top else None


class ChallengesView(View, frozen=True, kw_only=True):
    """All challenges."""

    challenges: list[ChallengeLine]
    tracks: list[Track]
    titles: dict[str, str]
    """Titles of challenges by name, for the tracks."""
    total: int
    state: str

    def list_rows(self) -> Iterable[Mapping[str, Any]]:
        """Return a row for each challenge."""
        for each in self.challenges:
            flat = {name: getattr(each.challenge, name) for name in _COLUMNS}
            leader = each.leader
            yield flat | {
                "agents": each.agents,
                "leader": leader.name if leader else None,
                "leading": leader.shown if leader else None,
            }


_COLUMNS = (
    "name",
    "title",
    "difficulty",
    "kind",
    "visibility",
    "state",
    "opens_at",
    "closes_at",
    "closed",
)


def gather(visit: Visit) -> ChallengesView:
    """Gather the challenges that the address asks for, those that are open first."""
    wanted = visit.choose("state", ("", "open", "frozen", "closed", "upcoming"))
    text = visit.get("q").casefold()
    found = list(visit.tally.challenges.list())
    lines = [
        _describe(visit, each)
        for each in found
        if text in f"{each.name} {each.title}".casefold() and wanted in ("", each.state)
    ]
    order = ("open", "frozen", "upcoming", "closed")
    lines.sort(
        key=lambda each: (order.index(each.challenge.state), each.challenge.title.casefold())
    )
    return ChallengesView(
        title="Challenges",
        challenges=lines,
        tracks=list(visit.tally.tracks.list()),
        titles={each.name: each.title for each in found},
        total=len(found),
        state=wanted,
    )


def count_agents(visit: Visit, challenge: PublicChallenge, *, public: bool) -> int:
    """Count the agents on the board, or with a submission on either side."""
    store = visit.app.store
    if challenge.kind == "versus":
        return len({each.player for each in store.versus.submissions(challenge.name)})
    return store.boards.size(challenge.name, public=public)


def _describe(visit: Visit, challenge: Challenge) -> ChallengeLine:
    top: list[BoardRow] = []
    if challenge.kind != "versus":
        boards = visit.app.store.boards
        first = boards.top(challenge.name, limit=_SHOWN, public=visit.public)
        top = list_board(visit, challenge, first)
    return ChallengeLine(
        challenge=challenge,
        agents=count_agents(visit, challenge, public=visit.public),
        top=top,
    )


PAGE = Page("/challenges", "challenges.html", gather)
