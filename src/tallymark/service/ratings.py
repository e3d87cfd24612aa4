"""Ratings of agents and difficulties of challenges: records and operations.

The joint fit takes long, so a server caches it until its inputs change.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta

from tallymark.errors import NotFound
from tallymark.ratings import AttemptRates, Counts, Fit, RatingEstimate, attempt_rates, fit
from tallymark.ratings import elo as elo_rating
from tallymark.ratings.joint_fit import PRIOR_SD, SCALE, Z95
from tallymark.ratings.matches import worth
from tallymark.ratings.pass_rates import suggest_tier
from tallymark.ratings.strength_path import StrengthPoint, follow_strength
from tallymark.service.callers import MEMBERS, PUBLIC
from tallymark.service.cursors import Cursor, Limit, slice_page
from tallymark.service.operations import Page, Resource, operation
from tallymark.service.visibility import Live, is_public, name_visible

if TYPE_CHECKING:
    from tallymark.ratings import EloChange, EloRating, Match, Pair
    from tallymark.store import Store

Handle = Annotated[str, Meta(max_length=40, description="An agent's handle.")]
K = Annotated[int, Meta(ge=1, le=100, description="For pass@k and pass^k.")]
Sort = Literal["floor", "elo", "strength", "matches", "agent"]
_STEPS = 20
"""Changes of an Elo that are shown, the newest."""
_POINTS = 12
"""Maximum points of a strength path, besides the last."""


class Elo(msgspec.Struct, frozen=True, kw_only=True):
    """Elo of an agent, and the matches that led to it."""

    rating: int
    matches: int
    wins: int
    draws: int
    losses: int
    provisional: Annotated[
        bool, Meta(description="Whether attempts wait to be scored or to expire.")
    ]


def describe_elo(known: EloRating, *, provisional: bool) -> Elo:
    return Elo(**asdict(known), provisional=provisional)


class Rating(msgspec.Struct, frozen=True, kw_only=True):
    """Elo of an agent, and its strength as fitted to all attempts together."""

    agent: str
    name: str
    rank: Annotated[
        int, Meta(description="By floor, among the agents that it can be compared with.")
    ]
    tied: Annotated[bool, Meta(description="Whether others have the same place.")]
    likely: Annotated[
        tuple[int, int], Meta(description="Best and worst place that the intervals leave open.")
    ]
    group: Annotated[
        int, Meta(description="Agents that can be compared with each other; 1 is the largest.")
    ]
    group_size: int
    elo: Elo
    strength: RatingEstimate
    pass_rates: AttemptRates


class Difficulty(msgspec.Struct, frozen=True, kw_only=True):
    """Difficulty of a challenge on the scale of strengths."""

    challenge: str
    difficulty: RatingEstimate
    declared_tier: str | None
    plays_like: Annotated[str, Meta(description="The tier that is nearest.")]
    sure: Annotated[bool, Meta(description="Whether the interval leaves no other tier open.")]


class RatingPage(Page[Rating], kw_only=True):
    """Ratings in order."""

    agents: Annotated[int, Meta(description="Number of agents on all pages.")]
    comparable: Annotated[bool, Meta(description="Whether all strengths can be compared.")]
    frozen: Annotated[
        list[str], Meta(description="Challenges of which later attempts do not show.")
    ]


class EloStep(msgspec.Struct, frozen=True, kw_only=True):
    """Change of an Elo by one match: k times the result minus the expectation."""

    number: int
    challenge: str
    tier: str
    result: str
    k: int
    won: float
    expected: float
    bonus: Annotated[float, Meta(description="Factor of a verified win; otherwise 1.")]
    before: int
    change: int
    after: int


class FitStep(msgspec.Struct, frozen=True, kw_only=True):
    """A challenge in the sum of a lower bound, with the difficulty from others' results."""

    challenge: str
    difficulty: float
    wins: int
    draws: int
    losses: int
    counts: Annotated[
        float, Meta(description="Weight of all its matches; repeats are alike, and count for less.")
    ]
    won: float
    chance: float
    expected: float


class FitSum(msgspec.Struct, frozen=True, kw_only=True):
    """Equation of a strength: what was won less what is expected is the pull of the prior."""

    steps: list[FitStep]
    won: float
    expected: float
    pull: Annotated[
        float, Meta(description="It holds an agent that won everything; next to 0 for others.")
    ]
    correlation: float


class FloorStep(msgspec.Struct, frozen=True, kw_only=True):
    """A challenge in the sum of a floor, as hard as the results of the others tell it."""

    challenge: str
    difficulty: float
    counts: float
    won: float
    expected: float
    variance: float


class FloorSum(msgspec.Struct, frozen=True, kw_only=True):
    """Equation of a floor: what was won is as far above what is expected as luck goes, at 95 %."""

    steps: list[FloorStep]
    won: float
    expected: float
    pull: float
    own: Annotated[float, Meta(description="Variance that the prior leaves.")]
    variance: float
    luck: float


class RatingDetails(Rating, frozen=True, kw_only=True):
    """A rating with the sums that lead to it. A frozen board hides those of the Elo."""

    comparable: bool
    frozen: list[str]
    elo_path: Annotated[list[int], Meta(description="1000, and the Elo after each match.")]
    elo_steps: Annotated[list[EloStep], Meta(description="The newest matches, newest first.")]
    fit_path: Annotated[
        list[StrengthPoint],
        Meta(
            description="The strength as it grew, with challenges as hard as they are known to be"
            " now."
        ),
    ]
    fit_sum: FitSum
    floor_sum: FloorSum


class Ratings(Resource):
    """Strengths of agents and difficulties of challenges."""

    @operation("GET /ratings", PUBLIC)
    def list(
        self,
        k: K = 3,
        sort: Sort = "floor",
        live: Live = None,
        limit: Limit = 100,
        cursor: Cursor | None = None,
    ) -> RatingPage:
        """List agents with their Elo and their strength, by the floor of the strength.

        Without a key, as if there were only public challenges.
        """
        table = self._find_table(k, live)
        page = slice_page(table.sort(sort), limit, cursor)
        return RatingPage(items=page.items, next=page.next, **table.facts)

    def page(self, sort: Sort, live: bool, limit: int, offset: int) -> RatingPage:
        """Read a numbered page of the list."""
        table = self._find_table(3, live)
        return RatingPage(items=table.sort(sort)[offset : offset + limit], **table.facts)

    @operation("GET /difficulties", PUBLIC)
    def challenges(
        self, live: Live = None, limit: Limit = 100, cursor: Cursor | None = None
    ) -> Page[Difficulty]:
        """List challenges with their difficulty, hardest floor first."""
        return slice_page(self._find_table(3, live).difficulties, limit, cursor)

    @operation("GET /ratings/{agent}", MEMBERS, noun="rating")
    def get(self, agent: Handle, k: K = 3, live: Live = None) -> RatingDetails:
        """Get the rating of an agent with the sums that lead to it."""
        table = self._find_table(k, live)
        line = table.by_agent.get(agent)
        if line is None:
            raise NotFound(
                f"there is no rating of an agent {agent[:60]!r}",
                hint="an agent is rated once an attempt of it has ended",
            )
        with self.store.read():
            changes = [] if table.frozen else self.store.ratings.changes(agent)
        log = [match for match, _ in changes]
        return RatingDetails(
            **{name: getattr(line, name) for name in Rating.__struct_fields__},
            comparable=table.fitted.connected,
            frozen=table.frozen,
            elo_path=[elo_rating.START, *(each.after for _, each in changes)] if changes else [],
            elo_steps=_list_steps(changes),
            fit_path=follow_strength(table.fitted, agent, log, _POINTS),
            fit_sum=_sum_up_fit(table.fitted, table.pairs[agent], agent),
            floor_sum=_sum_up_floor(table.fitted, agent),
        )

    def find(self, agents: Collection[str], live: bool) -> dict[str, Rating]:
        """Find the ratings of those agents that have one."""
        known = self._find_table(3, live).by_agent
        return {each: known[each] for each in agents if each in known}

    def _find_table(self, k: int, live: bool | None) -> RatingTable:
        public, store, at = is_public(self.caller, live), self.store, self.now
        if not store.exists:
            return RatingTable([], [], fit([]), {}, [])
        only = name_visible(self.services, self.caller)
        waiting = frozenset(store.ratings.provisional(at, only))
        frozen = store.challenges.frozen(at) if public else []
        made_of = (tuple(frozen), None if only is None else frozenset(only))
        state = (store.ratings.newest(), waiting)

        def make() -> RatingTable:
            return read_table(store, k=k, public=public, only=only, waiting=waiting, frozen=frozen)

        key = ("ratings", k, public, only is None)
        return self.services.find_table(self.caller, key, made_of, make, state=state)


@dataclass(frozen=True)
class RatingTable:
    """All ratings that a caller may see, by floor."""

    ratings: list[Rating]
    difficulties: list[Difficulty]
    fitted: Fit
    pairs: Mapping[str, list[Pair]]
    """Results of each agent at each challenge, to which the fit was made."""
    frozen: list[str]

    @cached_property
    def by_agent(self) -> Mapping[str, Rating]:
        return {each.agent: each for each in self.ratings}

    @property
    def facts(self) -> dict[str, Any]:
        """Fields of every page."""
        return {
            "agents": len(self.ratings),
            "comparable": self.fitted.connected,
            "frozen": self.frozen,
        }

    @cached_property
    def _sorted(self) -> dict[str, list[Rating]]:
        return {"floor": self.ratings}

    def sort(self, by: Sort) -> list[Rating]:
        """List the ratings by a column, equal ones by floor."""
        if by not in self._sorted:
            self._sorted[by] = sorted(self.ratings, key=_SORTS[by])
        return self._sorted[by]


_SORTS: dict[str, Callable[[Rating], Any]] = {
    "elo": lambda each: -each.elo.rating,
    "strength": lambda each: -each.strength.value,
    "matches": lambda each: -each.elo.matches,
    "agent": lambda each: each.agent,
}


def read_table(
    store: Store,
    *,
    k: int,
    public: bool,
    only: Collection[str] | None,
    waiting: Collection[str],
    frozen: list[str],
) -> RatingTable:
    """Read all ratings; `public` as they were known when boards were frozen.

    With `only`, of these challenges and their agents, as if there were no others.
    """
    elo = dict(store.ratings.elo(as_frozen=public, only=only))
    pairs = store.ratings.pairs(as_frozen=public)
    if only is not None:
        pairs = [each for each in pairs if each.challenge in only]
        frozen = [each for each in frozen if each in only]
    tiers = {each.challenge.name: each.challenge.difficulty for each in store.challenges.all()}
    names = store.agents.names(elo)
    fitted, rates = fit(pairs), attempt_rates(Counts.of(pairs), k)
    likely: dict[str, tuple[int, int]] = {}
    for group in fitted.groups:
        members = {name: fitted.strengths[name] for name in group.agents}
        likely |= find_likely_places(
            {name: (each.low, each.high) for name, each in members.items()}
        )
    ratings = [
        Rating(
            agent=agent,
            name=names.get(agent, agent),
            rank=place.place,
            tied=place.tied,
            likely=likely[agent],
            group=place.group,
            group_size=place.group_size,
            elo=describe_elo(elo[agent], provisional=agent in waiting),
            strength=fitted.strengths[agent],
            pass_rates=rates[agent],
        )
        for agent, place in fitted.places().items()
        if agent in elo
    ]
    difficulties = []
    for name in fitted.order("difficulties"):
        suggested = suggest_tier(fitted.difficulties[name])
        difficulties.append(
            Difficulty(
                challenge=name,
                difficulty=fitted.difficulties[name],
                declared_tier=tiers.get(name),
                plays_like=suggested.tier,
                sure=suggested.sure,
            )
        )
    by_agent: dict[str, list[Pair]] = {}
    for each in pairs:
        by_agent.setdefault(each.agent, []).append(each)
    return RatingTable(ratings, difficulties, fitted, by_agent, frozen)


def find_likely_places(intervals: Mapping[str, tuple[float, float]]) -> dict[str, tuple[int, int]]:
    """By name, the best and the worst place that intervals leave open.

    An interval that lies wholly above is ahead, wholly below behind; the rest may be either.
    """
    lows = sorted(low for low, _ in intervals.values())
    highs = sorted(high for _, high in intervals.values())
    count = len(intervals)
    return {
        name: (1 + count - bisect_right(lows, high), count - bisect_left(highs, low))
        for name, (low, high) in intervals.items()
    }


def _list_steps(changes: list[tuple[Match, EloChange]]) -> list[EloStep]:
    return [
        EloStep(
            number=number,
            challenge=match.challenge,
            tier=match.tier,
            result="loss" if match.result == "expired" else match.result,
            k=change.k,
            won=worth(match.result),
            expected=change.expected,
            bonus=change.bonus,
            before=change.before,
            change=change.change,
            after=change.after,
        )
        for number, (match, change) in list(enumerate(changes, 1))[: -_STEPS - 1 : -1]
    ]


def _sum_up_fit(fitted: Fit, pairs: list[Pair], agent: str) -> FitSum:
    strength, alike = fitted.strengths[agent].value, fitted.repeat_correlation or 0.0
    steps = []
    for each in pairs:
        matches = each.wins + each.draws + each.losses
        if not matches:
            continue
        counts = matches / (1 + (matches - 1) * alike)
        chance = fitted.chance(agent, each.challenge) or 0.0
        steps.append(
            FitStep(
                challenge=each.challenge,
                difficulty=fitted.difficulties[each.challenge].value,
                wins=each.wins,
                draws=each.draws,
                losses=each.losses,
                counts=counts,
                won=counts * (each.wins + each.draws / 2) / matches,
                chance=chance,
                expected=counts * chance,
            )
        )
    return FitSum(
        steps=sorted(steps, key=lambda each: -each.counts),
        won=math.fsum(each.won for each in steps),
        expected=math.fsum(each.expected for each in steps),
        pull=_find_pull(strength),
        correlation=alike,
    )


def _sum_up_floor(fitted: Fit, agent: str) -> FloorSum:
    names = list(fitted.difficulties)
    steps = [
        FloorStep(
            challenge=names[each.against],
            difficulty=elo_rating.START + SCALE * each.opponent,
            counts=each.counts,
            won=each.won,
            expected=each.expected,
            variance=each.variance,
        )
        for each in fitted.list_floor_terms(agent)
    ]
    own = (SCALE / PRIOR_SD) ** 2
    variance = math.fsum(each.variance for each in steps) + own
    return FloorSum(
        steps=sorted(steps, key=lambda each: -each.counts),
        won=math.fsum(each.won for each in steps),
        expected=math.fsum(each.expected for each in steps),
        pull=_find_pull(fitted.strengths[agent].floor),
        own=own,
        variance=variance,
        luck=Z95 * math.sqrt(variance),
    )


def _find_pull(rating: float) -> float:
    """Prior's contribution at a rating."""
    return SCALE * (rating - elo_rating.START) / PRIOR_SD**2
