"""Agents: records and operations."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tallymark.challenges.challenge import StrategyName
from tallymark.challenges.dimension_scores import weighted_dimensions
from tallymark.challenges.strategies import Standing
from tallymark.challenges.versus.pairings import Side
from tallymark.errors import InvalidInput, NotAllowed
from tallymark.service.attempts import AttemptRecord, describe_attempt
from tallymark.service.boards import DETAILS
from tallymark.service.callers import MEMBERS, ORGANISERS, check_role
from tallymark.service.cursors import Cursor, Limit, read_cursor, write_cursor
from tallymark.service.keys import Keys, Owner
from tallymark.service.operations import Page, Resource, operation
from tallymark.service.ratings import Elo, Rating, Ratings, describe_elo
from tallymark.service.visibility import (
    Live,
    is_public,
    sees_words,
    show_owner,
    view_challenge,
    withhold_words,
)
from tallymark.store.keys import check_owner

if TYPE_CHECKING:
    from tallymark.challenges.challenge import Challenge
    from tallymark.store.contests.agents import AgentRecord
    from tallymark.store.contests.boards import PlaceOnBoard
    from tallymark.store.contests.contest_stats import AttemptNumbers

_AT_ONCE = 200
Handle = Annotated[str, Meta(max_length=100, description="An agent's handle.")]
Reason = Annotated[str, Meta(max_length=2000, description="Reason, stored in the log.")]
Text = Annotated[str, Meta(max_length=200, description="Part of a handle or a name.")]
Handles = Annotated[Sequence[Handle], Meta(max_length=_AT_ONCE, description="Only these.")]
Ahead = Literal["this", "level", "other"]
_BOARDS = 20
"""Boards on which rivals are looked for."""
_NEAR = 30
"""Places at the top of a board, or around the agent, that rivals have."""


class AgentPlace(Standing, frozen=True, kw_only=True):
    """A leaderboard row with details, and the board it is from."""

    title: str
    strategy: StrategyName
    agents: Annotated[int, Meta(description="Number of agents on the board.")]


class DimensionMean(msgspec.Struct, frozen=True, kw_only=True):
    """A dimension as the mean over an agent's best attempts."""

    label: str
    color: str
    mean: Annotated[float, Meta(description="0 to 1000, not weighted.")]
    of: Annotated[int, Meta(description="Number of challenges with it.")]


class Agent(msgspec.Struct, frozen=True, kw_only=True):
    """An agent. Its ranks are included only when a single agent is requested."""

    handle: str
    name: str
    owner: Annotated[str | None, Meta(description="Shown to its owner and to organisers.")]
    created_at: float
    disqualified_at: float | None
    elo: Elo
    places: Annotated[
        dict[str, AgentPlace] | UnsetType, Meta(description="Lines of boards by challenge.")
    ] = UNSET
    sides: Annotated[
        dict[str, list[AgentPlace]] | UnsetType,
        Meta(description="The same of red against blue, a line for each side."),
    ] = UNSET
    dimensions: list[DimensionMean] | UnsetType = UNSET


class Rival(msgspec.Struct, frozen=True, kw_only=True):
    """Another agent on the same boards."""

    agent: str
    name: str
    ahead: Annotated[int, Meta(description="Boards on which the agent has the better value.")]
    level: int
    behind: int


class SharedBoard(msgspec.Struct, frozen=True, kw_only=True):
    """A board with two agents; equal values are level, whichever came first."""

    challenge: str
    title: str
    strategy: StrategyName
    place: Standing
    other: Standing
    ahead: Ahead


class SharedDimension(msgspec.Struct, frozen=True, kw_only=True):
    """A dimension of both agents' best attempts, as the mean over challenges that both have."""

    label: str
    color: str
    mine: float
    theirs: float
    of: int


class HeadToHead(msgspec.Struct, frozen=True, kw_only=True):
    """An agent against another, on the boards that both are on."""

    agent: str
    other: str
    name: Annotated[str, Meta(description="Of the other.")]
    boards: list[SharedBoard]
    dimensions: list[SharedDimension]
    ahead: int
    level: int
    behind: int
    p_value: Annotated[
        float | None,
        Meta(description="Sign test; null if no board separates the two."),
    ]
    rating: Annotated[Rating | None, Meta(description="Of the other.")]
    difference: Annotated[
        float | None, Meta(description="Of the strengths; null where they cannot be compared.")
    ]
    low: float | None
    high: float | None


class Agents(Resource):
    """Agents that take part."""

    @operation("GET /agents", MEMBERS)
    def list(  # noqa: PLR0913, PLR0917 (filters)
        self,
        owner: Owner | None = None,
        named: Annotated[
            bool, Meta(description="Only those shown by another name than their handle.")
        ] = False,
        handle: Handles = (),
        text: Text | None = None,
        disqualified: bool | None = None,
        live: Live = None,
        limit: Limit = 100,
        cursor: Cursor | None = None,
    ) -> Page[Agent]:
        """List agents by handle."""
        public = self._check_list(owner, live)
        if not self.store.exists:
            return Page(items=[])
        after = read_cursor(cursor, str)
        found = self.store.agents.all(
            owner=owner,
            named=named,
            handles=handle,
            text=text,
            disqualified=disqualified,
            after=after[0] if after else "",
            limit=limit + 1,
        )
        more = write_cursor(found[limit - 1].handle) if len(found) > limit else None
        return Page(items=[*self._describe(found[:limit], public)], next=more)

    def find_names(self, handles: Iterable[str]) -> dict[str, str]:
        """Find the names of agents that are shown by others than their handles."""
        found: dict[str, str] = {}
        with suppress(NotAllowed):  # without a key, handles are shown
            wanted = sorted(set(handles))
            for start in range(0, len(wanted), _AT_ONCE):
                some = wanted[start : start + _AT_ONCE]
                page = self.list(named=True, handle=some, limit=_AT_ONCE)
                found |= {each.handle: each.name for each in page.items}
        return found

    def page(self, text: str | None, live: bool, limit: int, offset: int) -> Sequence[Agent]:
        """Read a numbered page of the agents that are not disqualified."""
        public = self._check_list(None, live)
        found = self.store.agents.all(text=text, disqualified=False, limit=limit, offset=offset)
        return self._describe(found, public)

    def count(self, text: str | None) -> int:
        """Count the agents of `page`."""
        self._check_list(None, None)
        return self.store.agents.count(text=text, disqualified=False) if self.store.exists else 0

    @operation("GET /agents/{handle}", MEMBERS, noun="agent", etag=True)
    def get(self, handle: Handle, live: Live = None) -> Agent:
        """Get an agent with its Elo and its places."""
        # The caller's own rank too: on the live board it shows how many others have passed it.
        public = is_public(self.caller, live)
        with self.store.read():
            (found,) = self._describe([self.store.agents.get(handle)], public)
            standings = self.store.boards.places(handle, as_frozen=public)
            places = self._list_places(standings, public)
        return msgspec.structs.replace(
            found,
            places=places,
            sides=self._list_sides(handle, live),
            dimensions=[
                DimensionMean(label=label, color=color, mean=fmean(scores), of=len(scores))
                for (label, color), scores in _gather_dimensions(standings, [places]).items()
            ],
        )

    def profile(self, handle: str, live: bool) -> tuple[Agent, Sequence[Rival]]:
        """Read an agent and its rivals, in one transaction."""
        with self.store.read():
            return self.get(handle, live), self.rivals(handle, live).items

    @operation("PATCH /agents/{handle}", ORGANISERS, rate="write", noun="agent")
    def change(
        self,
        handle: Handle,
        name: Annotated[str, Meta(min_length=1, max_length=200, description="As boards show it.")]
        | None = None,
        owner: Annotated[Owner | UnsetType | None, Meta(description="Null: no owner.")] = UNSET,
    ) -> Agent:
        """Name an agent, or change its owner; agents of one owner do not count for each other."""
        if name is None and owner is UNSET:
            raise InvalidInput("there is nothing to change", hint="give name or owner")
        if owner is not UNSET:
            Keys(self.services, self.caller).check_manager("agent")
            if owner is not None:
                check_owner(owner)
        if name is not None:
            self.store.agents.name_agent(handle, name, at=self.now)
        if owner is not UNSET:
            self.store.agents.give(handle, owner, at=self.now)
        return self._get(handle)

    @operation("POST /agents/{handle}/disqualify", ORGANISERS, rate="write", noun="agent")
    def disqualify(self, handle: Handle, reason: Reason) -> Agent:
        """Take an agent off all boards and ratings; it may not compete."""
        self.store.agents.get(handle)
        self.store.disqualifications.disqualify(handle, at=self.now, reason=reason)
        return self._get(handle)

    @operation("POST /agents/{handle}/reinstate", ORGANISERS, rate="write", noun="agent")
    def reinstate(self, handle: Handle, reason: Reason) -> Agent:
        """Let an agent compete, as if it had never been disqualified."""
        self.store.agents.get(handle)
        self.store.disqualifications.reinstate(handle, at=self.now, reason=reason)
        return self._get(handle)

    @operation("GET /agents/{handle}/rivals", MEMBERS, cost=3)
    def rivals(
        self,
        handle: Handle,
        live: Live = None,
        limit: Annotated[int, Meta(ge=1, le=100)] = 10,
    ) -> Page[Rival]:
        """List agents that share most boards with one, of those near the top or near it."""
        public, boards = is_public(self.caller, live), self.store.boards
        counts: dict[str, dict[Ahead, int]] = {}
        with self.store.read():
            self.store.agents.get(handle)
            places = boards.places(handle, as_frozen=public)[:_BOARDS]
            rivals = boards.rivals(places, _NEAR, as_frozen=public)
        for mine in places:
            near = rivals.get(mine.kept.challenge.name, [])
            for theirs in {each.agent: each for each in near if each.agent != handle}.values():
                found = counts.setdefault(theirs.agent, {"this": 0, "level": 0, "other": 0})
                found[_compare(mine.standing, theirs)] += 1
        ordered = sorted(counts.items(), key=lambda each: (-sum(each[1].values()), each[0]))
        names = self.store.agents.names(agent for agent, _ in ordered[:limit])
        return Page(
            items=[
                Rival(
                    agent=agent,
                    name=names.get(agent, agent),
                    ahead=found["this"],
                    level=found["level"],
                    behind=found["other"],
                )
                for agent, found in ordered[:limit]
            ]
        )

    @operation("GET /agents/{handle}/against/{other}", MEMBERS, noun="head_to_head")
    def compare(self, handle: Handle, other: Handle, live: Live = None) -> HeadToHead:
        """Compare two agents on the boards that both are on, and by their strengths."""
        public, store = is_public(self.caller, live), self.store
        store.agents.get(handle)
        name = store.agents.get(other).name
        if other == handle:
            raise InvalidInput("an agent has no head to head with itself", hint="name another")
        standings = store.boards.places(handle, as_frozen=public)
        mine = self._list_places(standings, public)
        theirs = self._list_places(store.boards.places(other, as_frozen=public), public)
        shared = sorted(mine.keys() & theirs.keys())
        boards = [
            SharedBoard(
                challenge=each,
                title=mine[each].title,
                strategy=mine[each].strategy,
                place=_as_standing(mine[each]),
                other=_as_standing(theirs[each]),
                ahead=_compare(mine[each], theirs[each]),
            )
            for each in shared
        ]
        ahead, level, behind = (
            sum(each.ahead == word for each in boards) for word in ("this", "level", "other")
        )
        ratings = Ratings(self.services, self.caller).find([handle, other], not public)
        difference, low, high = _subtract(ratings.get(handle), ratings.get(other))
        return HeadToHead(
            agent=handle,
            other=other,
            name=name,
            boards=boards,
            dimensions=[
                SharedDimension(
                    label=label,
                    color=color,
                    mine=fmean(pairs[::2]),
                    theirs=fmean(pairs[1::2]),
                    of=len(pairs) // 2,
                )
                for (label, color), pairs in _gather_dimensions(standings, [mine, theirs]).items()
            ],
            ahead=ahead,
            level=level,
            behind=behind,
            p_value=compute_sign_test(ahead, behind),
            rating=ratings.get(other),
            difference=difference,
            low=low,
            high=high,
        )

    def list_ended(
        self, handle: str, live: bool, limit: int, offset: int
    ) -> Sequence[AttemptRecord]:
        """List an agent's attempts that have ended, newest first."""
        public = self._check_list(None, live)
        found = self.store.contest_stats.attempts_of(
            handle, limit=limit, offset=offset, as_frozen=public
        )
        sees = {
            each.challenge: sees_words(self.services, self.caller, each)
            for each in {each.challenge: each for each in found}.values()
        }
        return [
            describe_attempt(each if sees[each.challenge] else withhold_words(each))
            for each in found
        ]

    def _check_list(self, owner: str | None, live: bool | None) -> bool:
        if self.caller is not None:
            check_role(self.caller, MEMBERS)
            if owner not in (None, self.caller.owner):
                check_role(self.caller, ORGANISERS)
        return is_public(self.caller, live)

    def _get(self, handle: str) -> Agent:
        (found,) = self._describe([self.store.agents.get(handle)], is_public(self.caller, None))
        return found

    def _describe(self, records: Sequence[AgentRecord], public: bool) -> Sequence[Agent]:
        handles = [each.handle for each in records]
        elo = self.store.ratings.current_of(handles, self.now, as_frozen=public)
        return [
            Agent(
                handle=each.handle,
                name=each.name,
                owner=show_owner(self.caller, each.handle, each.owner),
                created_at=each.created_at,
                disqualified_at=each.disqualified_at,
                elo=describe_elo(elo[each.handle].elo, provisional=elo[each.handle].provisional),
            )
            for each in records
        ]

    def _list_places(
        self, standings: Sequence[PlaceOnBoard], public: bool
    ) -> dict[str, AgentPlace]:
        best = [each.standing.attempt for each in standings if each.standing.attempt is not None]
        numbers = self.store.contest_stats.numbers(best, as_frozen=public)
        return {
            each.kept.challenge.name: _make_place(
                each.kept.challenge,
                each.standing,
                each.agents,
                numbers.get(each.standing.attempt or ""),
            )
            for each in standings
        }

    def _list_sides(self, handle: str, live: bool | None) -> dict[str, Any]:
        found: dict[str, list[AgentPlace]] = {}
        for name in self.store.versus.played_by(handle):
            from tallymark.service.versus import list_side_standings  # noqa: PLC0415 (numpy)

            view = view_challenge(self.services, self.caller, name, live)
            for side in get_args(Side):
                lines = list_side_standings(self.services, self.caller, view, side)
                found.setdefault(name, []).extend(
                    _make_place(view.stored.challenge, line, len(lines))
                    for line in lines
                    if line.agent == handle
                )
        return {name: lines for name, lines in found.items() if lines}


def _gather_dimensions(
    standings: Sequence[PlaceOnBoard], columns: Sequence[Mapping[str, AgentPlace]]
) -> Mapping[tuple[str, str], Sequence[float]]:
    """Scores by label and color, at challenges where all have the dimension, side by side."""
    found: dict[tuple[str, str], list[float]] = {}
    for challenge in (each.kept.challenge for each in standings):
        if not all(challenge.name in each for each in columns):
            continue
        scores = [each[challenge.name].dimensions or {} for each in columns]
        dimensions = challenge.scoring.dimensions
        for each in weighted_dimensions(dimensions) if dimensions else ():
            if all(each.key in some for some in scores):
                mine = found.setdefault((each.dimension.label, each.dimension.color), [])
                mine += [some[each.key] for some in scores]
    return found


def _make_place(
    challenge: Challenge, standing: Standing, agents: int, numbers: AttemptNumbers | None = None
) -> AgentPlace:
    fields = {each: getattr(standing, each) for each in Standing.__struct_fields__}
    if numbers is not None:
        fields |= {each: getattr(numbers, each) for each in DETAILS}
    strategy = challenge.scoring.strategy
    return AgentPlace(**fields, title=challenge.title, strategy=strategy, agents=agents)


def _as_standing(place: AgentPlace) -> Standing:
    return Standing(**{name: getattr(place, name) for name in Standing.__struct_fields__})


def _compare(mine: Standing, theirs: Standing) -> Ahead:
    if mine.value == theirs.value:
        return "level"
    return "this" if mine.rank < theirs.rank else "other"


def _subtract(
    one: Rating | None, two: Rating | None
) -> tuple[float | None, float | None, float | None]:
    """The difference of two strengths with its interval, where they can be compared.

    Their errors are taken as independent, which makes the interval rather too wide: what both owe
    to the same challenges cancels out.
    """
    if one is None or two is None or one.group != two.group:
        return None, None, None
    value = one.strength.value - two.strength.value
    reach = math.hypot(*(each.strength.high - each.strength.value for each in (one, two)))
    return value, value - reach, value + reach


def compute_sign_test(ahead: int, behind: int) -> float | None:
    """Compute the two-sided sign test, which leaves ties out (Conover 1999, section 3.4)."""
    count = ahead + behind
    if not count:
        return None
    tail = sum(math.comb(count, least) for least in range(min(ahead, behind) + 1))
    return min(1.0, float(2 * tail / 2**count))
