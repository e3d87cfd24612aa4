"""Page of all challenges with their leaders."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from tallymark.challenges.tracks import Track
from tallymark.service.challenges import Challenge
from tallymark.web.board_rows import BoardRow, list_board
from tallymark.web.page import Page, Pager, View
from tallymark.web.page_request import PageRequest
from tallymark.web.pages.tracks import list_titles

_SHOWN = 3


class ChallengeLine(msgspec.Struct, frozen=True, kw_only=True):
    """A challenge in the list."""

    challenge: Challenge
    agents: int
    top: list[BoardRow]
    """First places."""

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
    pager: Pager

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


def gather(request: PageRequest) -> ChallengesView:
    """Gather the challenges that the query asks for, open ones first."""
    wanted = request.choose("state", ("", "open", "frozen", "closed", "upcoming"))
    asked = request.read_pager(0)
    found = request.tally.boards.overview(
        asked.limit,
        asked.offset,
        places=_SHOWN,
        live=not request.public,
        text=request.get("q"),
        state=wanted,
    )
    tracks = list(request.tally.tracks.list())
    return ChallengesView(
        title="Challenges",
        challenges=[
            ChallengeLine(
                challenge=each.challenge,
                agents=each.agents,
                top=list_board(each.challenge, each.items, each.names) if each.items else [],
            )
            for each in found.items
        ],
        tracks=tracks,
        titles=list_titles(request, tracks),
        total=found.total,
        state=wanted,
        pager=request.read_pager(found.found),
    )


PAGE = Page("/challenges", "challenges.html", gather)
