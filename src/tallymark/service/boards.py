"""Leaderboards: records and operations."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal
from urllib.parse import quote

import msgspec
from msgspec import Meta

from tallymark.challenges.challenge import ScoringRule
from tallymark.challenges.strategies import Standing
from tallymark.service.callers import PUBLIC
from tallymark.service.challenges import Challenge, describe_challenge, find_state
from tallymark.service.cursors import Cursor, Limit, read_cursor, slice_page, write_cursor
from tallymark.service.operations import Event, Page, Resource, operation, stream
from tallymark.service.visibility import (
    ChallengeView,
    Live,
    is_known,
    sees_live,
    view_challenge,
    view_challenges,
)

if TYPE_CHECKING:
    from tallymark.challenges.strategies import LikelyPlace
    from tallymark.service.attempts import AttemptRecord
    from tallymark.store.contests.contest_stats import AttemptNumbers

Name = Annotated[str, Meta(min_length=1, max_length=200)]
Around = Annotated[
    str, Meta(max_length=40, description="An agent's handle: return the places around it instead.")
]
Neighbours = Annotated[int, Meta(ge=1, le=500, description="Places on each side of `around`.")]
Side = Annotated[
    Literal["red", "blue"], Meta(description="In red against blue; else the better of both sides.")
]
Text = Annotated[
    str, Meta(max_length=200, description="Only agents with this text in their handle or name.")
]
Details = Annotated[
    bool,
    Meta(description="Add the result, the time and the dimensions of each attempt to its line."),
]
DETAILS = ("result", "elapsed_ms", "dimensions", "by_earlier_rule")
"""Fields of `figures.numbers` that a line with details has."""
_MATCHING = 200
"""Agents of a large board among whose names a text is looked for."""
_SMALL = 1_000
"""Agents of a board that is read as a whole to look for a text."""
_REPEATED = 200
"""Agents of a board with intervals of repeated attempts, of which there are at most:"""
_MOST_TRIES = 5_000
_STATES = ("open", "frozen", "upcoming", "closed")
"""The order of challenges in their overview."""
_ACTIVE = 20
"""Challenges among which the largest boards are looked for."""


class Board(Page[Standing], kw_only=True):
    """A page of a board, best first, or the places around an agent."""

    challenge: str
    agents: Annotated[int, Meta(description="Number of agents on the board.")]
    frozen_at: Annotated[
        float | None, Meta(description="Time since which the shown board is frozen.")
    ]
    seq: Annotated[
        int, Meta(description="The last event that is taken into account; 0 on a frozen board.")
    ]
    names: Annotated[dict[str, str], Meta(description="Display names by handle.")]


class ChallengeTop(msgspec.Struct, frozen=True, kw_only=True):
    """A challenge with the first places of its board; of red against blue, without them."""

    challenge: Challenge
    agents: int
    frozen: bool
    """True if the visible board is frozen."""
    items: list[Standing]
    names: dict[str, str]


class ChallengeOverview(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the challenges that were looked for."""

    items: list[ChallengeTop]
    found: int
    total: int
    """All that the caller may know of."""


class WhatIfBoard(msgspec.Struct, frozen=True, kw_only=True):
    """The board by another rule."""

    challenge: str
    rule: str
    scoring: ScoringRule
    seq: Annotated[
        int, Meta(description="The last event that is taken into account; 0 on a frozen board.")
    ]
    frozen: bool
    agents: int
    attempts: Annotated[int, Meta(description="Number of attempts that rank.")]
    undefined: Annotated[
        int, Meta(description="Number of agents without a score by this rule, ranked last.")
    ]
    up: int
    down: int
    items: list[Standing]
    around: Annotated[
        list[Standing] | None,
        Meta(
            description="The requested agent and its neighbours; empty if it is not on the board."
        ),
    ]
    findings: Annotated[
        list[dict[str, Any]], Meta(description="Lint findings of the formula, by column.")
    ] = []
    names: Annotated[dict[str, str], Meta(description="Display names by handle.")] = {}


class BoardHistory(msgspec.Struct, frozen=True, kw_only=True):
    """The values of all agents on a board, and the attempts that led to it."""

    values: Annotated[list[float], Meta(description="Of every agent with a value.")]
    days: Annotated[
        dict[int, int], Meta(description="Attempts by the day of their submission, since 1970.")
    ]


def _find_state(boards: Boards, name: str, live: bool | None = None, **_: Any) -> Hashable | None:
    """State that a board depends on; None if frozen, since a tag would reveal later scores."""
    view = view_challenge(boards.services, boards.caller, name, live)
    return None if view.hides_live else view.state


class Boards(Resource):
    """Leaderboards of challenges."""

    @operation("GET /challenges/{name}/leaderboard", PUBLIC, etag=_find_state)
    def get(  # noqa: PLR0913, PLR0917 (the parts of a board)
        self,
        name: Name,
        limit: Limit = 100,
        cursor: Cursor | None = None,
        around: Around | None = None,
        each: Neighbours = 3,
        side: Side | None = None,
        text: Text | None = None,
        details: Details = False,
        live: Live = None,
    ) -> Board:
        """Get the best attempt of each agent in order; in red against blue, players by side."""
        view = view_challenge(self.services, self.caller, name, live)
        if view.stored.challenge.kind == "versus":
            from tallymark.service.versus import list_side_standings  # noqa: PLC0415 (numpy)

            lines = list_side_standings(self.services, self.caller, view, side)
            page = _cut_whole(lines, limit, cursor, around, each)
            return self._make_board(view, page, len(lines))
        with self.store.read():
            size = self.store.boards.size(name, as_frozen=view.public)
            if text:
                found = self._find_matching(view, text, size)
                page = _cut_whole(found, limit, cursor, around, each)
            else:
                page = self._read_page(view, size, limit, cursor, around, each)
            if details:
                page = Page(items=self._add_details(view, page.items, size), next=page.next)
            return self._make_board(view, page, size)

    @operation("POST /challenges/{name}/what-if", PUBLIC, cost=5, query=("live",), reads=True)
    def what_if(  # noqa: PLR0913, PLR0917 (a rule and a part of its board)
        self,
        name: Name,
        formula: Annotated[str, Meta(min_length=1, max_length=4096)] | None = None,
        weights: dict[str, float] | None = None,
        config: dict[str, Any] | None = None,
        around: Around | None = None,
        limit: Limit = 100,
        live: Live = None,
    ) -> WhatIfBoard:
        """Make the board by another formula, other weights or another config; nothing changes."""
        from tallymark.service.what_if import WhatIfRule  # noqa: PLC0415 (numpy)

        view = view_challenge(self.services, self.caller, name, live)
        rule = WhatIfRule(formula=formula, weights=weights, config=config)
        found = self.services.what_if.ask(
            self.store, name, rule, public=view.public, around=around, limit=limit
        )
        agents = {each.agent for each in (*found.items, *(found.around or ()))}
        return msgspec.structs.replace(found, names=self.store.agents.names(agents))

    @operation("GET /challenges/{name}/history", PUBLIC)
    def history(self, name: Name, live: Live = None) -> BoardHistory:
        """Get the values of all agents on a board, and how many attempts were made by day."""
        public = view_challenge(self.services, self.caller, name, live).public
        figures = self.store.contest_stats
        return BoardHistory(
            values=figures.values(name, as_frozen=public), days=figures.days(name, as_frozen=public)
        )

    @stream("/challenges/{name}/events")
    def events(self, name: Name, after: int | None = None) -> Iterator[Event]:
        """Follow the changes of a board on a server."""
        return self.listen(f"/challenges/{quote(name, '')}/events", after, ends=False)

    def overview(  # noqa: PLR0913 (a part of a list)
        self,
        limit: int,
        offset: int,
        *,
        places: int,
        live: bool,
        text: str = "",
        state: str = "",
        before: Collection[str] = (),
    ) -> ChallengeOverview:
        """List challenges with their first places, open ones first, by state and by a text.

        Those of which the name is in `before` come before the others.
        """
        if not self.store.exists:
            return ChallengeOverview(items=[], found=0, total=0)
        views = view_challenges(self.services, self.caller)
        wanted, found = text.casefold(), []
        for view in views:
            challenge = view.stored.challenge
            now = find_state(view)
            if state in ("", now) and wanted in f"{challenge.name} {challenge.title}".casefold():
                order = (challenge.name not in before, _STATES.index(now))
                found.append((order, challenge.title.casefold(), view))
        found.sort(key=lambda each: each[:2])
        shown = [view for *_, view in found[offset : offset + limit]]
        return ChallengeOverview(
            items=self._read_tops(shown, places, live), found=len(found), total=len(views)
        )

    def find_active(self, limit: int, places: int, live: bool) -> list[ChallengeTop]:
        """The largest boards among those that changed last in the log."""
        if not self.store.exists:
            return []
        solo = [each for each in self._view_active() if each.stored.challenge.kind != "versus"]
        found = [each for each in self._read_tops(solo, places, live) if each.agents]
        return sorted(found, key=lambda each: -each.agents)[:limit]

    def name_active(self) -> list[str]:
        """Name some challenges that the caller may know of, those with the last log entries."""
        return [each.stored.challenge.name for each in self._view_active()]

    def _view_active(self) -> list[ChallengeView]:
        found = self.store.challenges.active(
            _ACTIVE, visibility=None if is_known(self.caller) else "public"
        )
        live = sees_live(self.caller)
        return [
            ChallengeView(stored=each, at=self.now, is_organiser=live, public=not live)
            for each in found
        ]

    def find_ranks(self, attempts: Iterable[AttemptRecord], live: bool) -> dict[str, int]:
        """Find the places of those attempts that stand on a board, by their ids."""
        found = {}
        with self.store.read():
            for each in attempts:
                if not each.ranks:
                    continue
                standing = self.store.boards.standing(
                    each.challenge, each.agent, as_frozen=not live
                )
                if standing is not None and standing.attempt == each.id:
                    found[each.id] = standing.rank
        return found

    def _read_tops(
        self, views: Sequence[ChallengeView], places: int, live: bool
    ) -> list[ChallengeTop]:
        """Read the first places of many boards at once."""
        if not views:
            return []
        solo = [each.stored for each in views if each.stored.challenge.kind != "versus"]
        with self.store.read():
            tops = self.store.boards.tops(solo, places, as_frozen=not live)
            lines = [line for _, top in tops.values() for line in top]
            names = self.store.agents.names({each.agent for each in lines})
            best = [each.attempt for each in lines if each.attempt is not None]
            numbers = self.store.contest_stats.numbers(best, as_frozen=not live) if best else {}
        found = []
        for view in views:
            name = view.stored.challenge.name
            if name in tops:
                size, top = tops[name]
            else:
                size, top = self.get(name, limit=1, live=live).agents, []
            found.append(
                ChallengeTop(
                    challenge=describe_challenge(view),
                    agents=size,
                    frozen=not live and view.frozen is not None,
                    items=[_add_numbers(each, numbers) for each in top],
                    names=names,
                )
            )
        return found

    def _read_page(
        self,
        view: ChallengeView,
        size: int,
        limit: int,
        cursor: str | None,
        around: str | None,
        each: int,
    ) -> Page[Standing]:
        boards, name = self.store.boards, view.stored.challenge.name
        if around is not None:
            return Page(items=boards.around(name, around, each=each, as_frozen=view.public))
        place = read_cursor(cursor, int)
        first = place[0] if place else 0
        found = boards.top(name, limit=limit, offset=first, as_frozen=view.public)
        end = first + len(found)
        return Page(items=found, next=write_cursor(end) if found and end < size else None)

    def _find_matching(self, view: ChallengeView, text: str, size: int) -> list[Standing]:
        """Agents on a board whose handles or names have a text; of a large one, the first ones."""
        boards, agents = self.store.boards, self.store.agents
        name, public, wanted = view.stored.challenge.name, view.public, text.casefold()
        if size > _SMALL:
            near = self.store.contest_stats.agents(text=text, limit=_MATCHING)
            found = [boards.standing(name, each.handle, as_frozen=public) for each in near]
            return sorted((each for each in found if each), key=lambda each: each.rank)
        lines = boards.top(name, limit=_SMALL, as_frozen=public)
        names = agents.names(each.agent for each in lines)
        return [
            each
            for each in lines
            if wanted in each.agent.casefold() or wanted in names.get(each.agent, "").casefold()
        ]

    def _add_details(
        self, view: ChallengeView, lines: Sequence[Standing], size: int
    ) -> list[Standing]:
        best = [each.attempt for each in lines if each.attempt is not None]
        numbers = self.store.contest_stats.numbers(best, as_frozen=view.public)
        likely = self._find_likely(view, size)
        return [
            msgspec.structs.replace(line, likely=likely[line.agent])
            if line.agent in likely
            else line
            for line in (_add_numbers(each, numbers) for each in lines)
        ]

    def _find_likely(self, view: ChallengeView, size: int) -> Mapping[str, LikelyPlace]:
        """Intervals of repeated attempts, on a small live board that is ordered by score."""
        challenge = view.stored.challenge
        if challenge.scoring.strategy != "custom" or view.hides_live or not 1 < size <= _REPEATED:
            return {}
        scores = self.store.contest_stats.scores(challenge.name, most=_MOST_TRIES)
        if not scores:
            return {}
        from tallymark.challenges import likely_places  # noqa: PLC0415 (formulas)

        return likely_places.find_likely_places(scores, likely_places.find_scale(challenge))

    def _make_board(self, view: ChallengeView, page: Page[Standing], size: int) -> Board:
        return Board(
            items=page.items,
            next=page.next,
            challenge=view.stored.challenge.name,
            agents=size,
            frozen_at=view.frozen if view.hides_live else None,
            seq=0 if view.hides_live else view.newest[0],
            names=self.store.agents.names([each.agent for each in page.items]),
        )


def _add_numbers(line: Standing, numbers: Mapping[str, AttemptNumbers]) -> Standing:
    own = numbers.get(line.attempt or "")
    if own is None:
        return line
    return msgspec.structs.replace(line, **{name: getattr(own, name) for name in DETAILS})


def _cut_whole(
    lines: Sequence[Standing], limit: int, cursor: str | None, around: str | None, each: int
) -> Page[Standing]:
    """Cut a page, or the places around an agent, from a board that was read whole."""
    if around is None:
        return slice_page(lines, limit, cursor)
    place = next((nth for nth, line in enumerate(lines) if line.agent == around), None)
    if place is None:
        return Page(items=[])
    return Page(items=list(lines[max(0, place - each) : place + each + 1]))
