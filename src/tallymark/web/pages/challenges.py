"""Challenges: what can be entered, and who leads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from tallymark.challenges.tracks import Track
from tallymark.web.board_rows import BoardRow, list_board
from tallymark.web.page import Page
from tallymark.web.pages.tracks import list_titles
from tallymark.web.view import View
from tallymark.web.visit import Visit

if TYPE_CHECKING:
    from tallymark.challenges.challenge import Challenge
    from tallymark.store.contests.challenges import StoredChallenge

_SHOWN = 3
ChallengeState = Literal["open", "frozen", "closed", "upcoming"]


class ChallengeLine(msgspec.Struct, frozen=True, kw_only=True):
    """A challenge in the list."""

    name: str
    title: str
    difficulty: str
    kind: str
    visibility: str
    state: ChallengeState
    opens_at: float | None
    closes_at: float | None
    agents: int
    top: list[BoardRow]
    """Who stands first, the leader at the head."""

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
        """A row for each challenge."""
        for each in self.challenges:
            flat = msgspec.structs.asdict(each)
            del flat["top"]
            leader = each.leader
            yield flat | {
                "leader": leader.name if leader else None,
                "leading": leader.shown if leader else None,
            }


def find_state(kept: StoredChallenge, now: float) -> ChallengeState:
    """Whether it can be entered, and whether its board moves."""
    closes = kept.closed_at or kept.challenge.closes_at
    if kept.challenge.opens_at is not None and now < kept.challenge.opens_at:
        return "upcoming"
    if closes is not None and now >= closes:
        return "closed"
    return "frozen" if kept.is_frozen(now) else "open"


def gather(visit: Visit) -> ChallengesView:
    """The challenges that the address asks for, those that are open first."""
    wanted = visit.choose("state", ("", "open", "frozen", "closed", "upcoming"))
    text = visit.get("q").casefold()
    found = visit.list_challenges()
    lines = [
        _describe(visit, kept)
        for kept in found
        if text in f"{kept.challenge.name} {kept.challenge.title}".casefold()
    ]
    order = ("open", "frozen", "upcoming", "closed")
    lines.sort(key=lambda each: (order.index(each.state), each.title.casefold()))
    return ChallengesView(
        title="Challenges",
        challenges=[each for each in lines if wanted in ("", each.state)],
        tracks=list(visit.tally.tracks.list()),
        titles=list_titles(visit),
        total=len(found),
        state=wanted,
    )


def count_agents(visit: Visit, challenge: Challenge, *, public: bool) -> int:
    """Who stands on its board, or has a submission on either side."""
    store = visit.app.store
    if challenge.kind == "versus":
        return len({each.player for each in store.versus.submissions(challenge.name)})
    return store.boards.size(challenge.name, public=public)


def _describe(visit: Visit, kept: StoredChallenge) -> ChallengeLine:
    store, challenge = visit.app.store, kept.challenge
    top: list[BoardRow] = []
    if challenge.kind != "versus":
        first = store.boards.top(challenge.name, limit=_SHOWN, public=visit.public)
        top = list_board(visit, challenge, first)
    return ChallengeLine(
        name=challenge.name,
        title=challenge.title,
        difficulty=challenge.difficulty,
        kind=challenge.kind,
        visibility=challenge.visibility,
        state=find_state(kept, visit.now),
        opens_at=challenge.opens_at,
        closes_at=kept.closed_at or challenge.closes_at,
        agents=count_agents(visit, challenge, public=visit.public),
        top=top,
    )


PAGE = Page("/challenges", "challenges.html", gather)
