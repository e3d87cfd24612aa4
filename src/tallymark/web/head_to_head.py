"""Two agents at the challenges that both have tried, and how sure it is who is better.

Who is ahead at a challenge is what its board says; the same value is level, whoever was earlier.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

import msgspec

from tallymark.errors import InvalidInput, NotFound
from tallymark.web.board_rows import list_dimensions, write_value

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tallymark.challenges.strategies import Standing
    from tallymark.web.rating_lines import RatingLine
    from tallymark.web.visit import Visit

Ahead = Literal["this", "level", "other"]
_MOST_BOARDS = 30
_MOST_PLACES = 100
"""Of a board, whose agents are looked at as rivals."""
_CHANCE = 0.05


class Rival(msgspec.Struct, frozen=True, kw_only=True):
    """Another agent on the same boards."""

    agent: str
    name: str
    ahead: int
    """Boards on which the agent stands higher than this rival."""
    level: int
    behind: int


class SharedBoard(msgspec.Struct, frozen=True, kw_only=True):
    """Both on one board."""

    challenge: str
    title: str
    attempt: str
    shown: str
    place: int
    other_attempt: str
    other_shown: str
    other_place: int
    ahead: Ahead


class SharedDimension(msgspec.Struct, frozen=True, kw_only=True):
    """A dimension of their best attempts, at the challenges that both have."""

    label: str
    color: str
    mine: float
    theirs: float
    of: int


class Duel(msgspec.Struct, frozen=True, kw_only=True):
    """One agent against another."""

    agent: str
    name: str
    boards: list[SharedBoard]
    dimensions: list[SharedDimension]
    ahead: int
    level: int
    behind: int
    p_value: float | None
    """Of so one-sided a count, were both equally good; None where no board tells them apart."""
    rating: RatingLine | None
    difference: float | None
    """Of the fitted ratings, with its interval."""
    low: float | None
    high: float | None

    @property
    def may_be_chance(self) -> bool:
        """Whether boards leave open who is better."""
        return self.p_value is None or self.p_value > _CHANCE


def list_rivals(visit: Visit, handle: str, mine: dict[str, Standing], most: int) -> list[Rival]:
    """Who shares most boards with an agent, of those who stand near the top or near it."""
    boards, counts = visit.app.store.boards, dict[str, dict[Ahead, int]]()
    for name in list(mine)[:_MOST_BOARDS]:
        near = boards.top(name, limit=_MOST_PLACES, public=visit.public)
        if all(each.agent != handle for each in near):
            near += boards.around(name, handle, each=_MOST_PLACES // 2, public=visit.public)
        for theirs in {each.agent: each for each in near if each.agent != handle}.values():
            found = counts.setdefault(theirs.agent, {"this": 0, "level": 0, "other": 0})
            found[_compare(mine[name], theirs)] += 1
    ordered = sorted(counts.items(), key=lambda each: (-sum(each[1].values()), each[0]))[:most]
    names = visit.app.store.agents.names(agent for agent, _ in ordered)
    return [
        Rival(
            agent=agent,
            name=names.get(agent, agent),
            ahead=found["this"],
            level=found["level"],
            behind=found["other"],
        )
        for agent, found in ordered
    ]


def _compare(mine: Standing, theirs: Standing) -> Ahead:
    if mine.value == theirs.value:
        return "level"
    return "this" if mine.rank < theirs.rank else "other"


def make_duel(
    visit: Visit,
    handle: str,
    other: str,
    mine: dict[str, Standing],
    ratings: Iterable[RatingLine],
) -> Duel:
    """The agent of a profile against one that the address names."""
    store = visit.app.store
    found = store.figures.agent(other)
    if found is None:
        raise NotFound(f"there is no agent {other[:60]!r}", hint="see the list of agents")
    if other == handle:
        raise InvalidInput("an agent has no head to head with itself", hint="name another")
    theirs = store.boards.places(other, public=visit.public)
    boards = [
        _pair(visit, name, mine[name], theirs[name]) for name in sorted(mine.keys() & theirs.keys())
    ]
    ahead, level, behind = (
        sum(each.ahead == word for each in boards) for word in ("this", "level", "other")
    )
    rated = {each.agent: each for each in ratings}
    one, two = rated.get(handle), rated.get(other)
    difference, low, high = _subtract(one, two)
    return Duel(
        agent=other,
        name=found.name,
        boards=boards,
        dimensions=_list_dimensions(visit, boards),
        ahead=ahead,
        level=level,
        behind=behind,
        p_value=compute_sign_test(ahead, behind),
        rating=two,
        difference=difference,
        low=low,
        high=high,
    )


def _pair(visit: Visit, name: str, mine: Standing, theirs: Standing) -> SharedBoard:
    challenge = visit.app.store.challenges.get(name)
    return SharedBoard(
        challenge=name,
        title=challenge.title,
        attempt=mine.attempt,
        shown=write_value(challenge, mine.value),
        place=mine.rank,
        other_attempt=theirs.attempt,
        other_shown=write_value(challenge, theirs.value),
        other_place=theirs.rank,
        ahead=_compare(mine, theirs),
    )


def _list_dimensions(visit: Visit, boards: list[SharedBoard]) -> list[SharedDimension]:
    """The mean of each over both agents' best attempts, dimension by dimension."""
    store = visit.app.store
    wanted = [identifier for each in boards for identifier in (each.attempt, each.other_attempt)]
    numbers = store.figures.numbers(wanted, public=visit.public)
    scores: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for each in boards:
        mine, theirs = (numbers.get(key) for key in (each.attempt, each.other_attempt))
        if mine is None or theirs is None:
            continue
        for part in list_dimensions(store.challenges.get(each.challenge)):
            if part.key in mine.dimensions and part.key in theirs.dimensions:
                pair = (mine.dimensions[part.key], theirs.dimensions[part.key])
                scores.setdefault((part.label, part.color), []).append(pair)
    return [
        SharedDimension(
            label=label,
            color=color,
            mine=math.fsum(one for one, _ in pairs) / len(pairs),
            theirs=math.fsum(two for _, two in pairs) / len(pairs),
            of=len(pairs),
        )
        for (label, color), pairs in scores.items()
    ]


def _subtract(
    one: RatingLine | None, two: RatingLine | None
) -> tuple[float | None, float | None, float | None]:
    """The difference of two fitted ratings, where it can be told.

    Their errors are taken as independent, which makes the interval rather too wide: what both owe
    to the same challenges cancels out.
    """
    if one is None or two is None or one.strength is None or two.strength is None:
        return None, None, None
    if one.group != two.group:
        return None, None, None
    value = one.strength - two.strength
    reach = math.hypot(*((each.high or 0.0) - (each.strength or 0.0) for each in (one, two)))
    return value, value - reach, value + reach


def compute_sign_test(ahead: int, behind: int) -> float | None:
    """The two-sided sign test: what is level says nothing (Conover 1999, section 3.4)."""
    count = ahead + behind
    if not count:
        return None
    tail = sum(math.comb(count, least) for least in range(min(ahead, behind) + 1))
    return min(1.0, float(2 * tail / 2**count))
