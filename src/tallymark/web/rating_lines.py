"""Ratings of all agents as pages show them: Elo, and the fit with its interval."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from tallymark.ratings import Fit, suggest_tier
from tallymark.service import ratings
from tallymark.service.ratings import keep_ratings

if TYPE_CHECKING:
    from tallymark.ratings import Pair
    from tallymark.web.visit import Visit

_K = 3


class RatingLine(msgspec.Struct, frozen=True, kw_only=True):
    """An agent that has played."""

    place: int
    tied: bool
    """Another has the same place: nothing tells the two apart."""
    likely: tuple[int, int]
    """The places that its interval leaves open."""
    group: int
    """Agents of one group can be compared with each other: places are those in it."""
    group_size: int
    agent: str
    name: str
    elo: int
    matches: int
    wins: int
    draws: int
    losses: int
    strength: float | None
    low: float | None
    high: float | None
    floor: float | None
    provisional: bool
    waiting: bool
    """Attempts of it wait to be scored, so its Elo may move for what is past."""
    pass_at_1: float | None
    pass_at_k: float | None
    pass_hat_k: float | None
    challenges: int
    """That it tried, over which pass@1 is the mean."""
    enough: int
    """Of those the ones that it tried k times or more, over which the others are."""


class DifficultyLine(msgspec.Struct, frozen=True, kw_only=True):
    """How hard a challenge has turned out to be."""

    name: str
    value: float
    low: float
    high: float
    provisional: bool
    tier: str
    plays_like: str
    sure: bool


class RatingTable(msgspec.Struct, frozen=True, kw_only=True):
    """All of it, from one reading."""

    agents: list[RatingLine]
    challenges: list[DifficultyLine]
    comparable: bool
    frozen: list[str]
    pairs: list[Pair]
    """How everybody fared, as far as the visitor may know; and what was fitted to it."""
    fitted: Fit


def make_rating_table(visit: Visit) -> RatingTable:
    """By floors, as `tally ratings` lists them."""
    store, public = visit.app.store, visit.public
    if not store.exists:
        return RatingTable(
            agents=[], challenges=[], comparable=True, frozen=[], pairs=[], fitted=Fit({}, {}, ())
        )
    return keep_ratings(visit.services, visit.caller, _make_table, k=_K, public=public)


def _make_table(read: ratings.RatingTable) -> RatingTable:
    elo, fitted, names = read.elo, read.fitted, read.names
    likely: dict[str, tuple[int, int]] = {}
    for group in fitted.groups:
        members = {name: fitted.strengths[name] for name in group.agents}
        likely |= find_likely_places(
            {name: (each.low, each.high) for name, each in members.items()}
        )
    agents = []
    for agent, place in fitted.places().items():
        if agent not in elo:
            continue
        rating, strength, rate = elo[agent], fitted.strengths[agent], read.rates[agent]
        agents.append(
            RatingLine(
                place=place.place,
                tied=place.tied,
                likely=likely[agent],
                group=place.group,
                group_size=place.group_size,
                agent=agent,
                name=names.get(agent, agent),
                elo=rating.rating,
                matches=rating.matches,
                wins=rating.wins,
                draws=rating.draws,
                losses=rating.losses,
                strength=strength.value,
                low=strength.low,
                high=strength.high,
                floor=strength.floor,
                provisional=strength.provisional,
                waiting=agent in read.waiting,
                pass_at_1=rate.pass_at_1,
                pass_at_k=rate.pass_at_k,
                pass_hat_k=rate.pass_hat_k,
                challenges=rate.challenges,
                enough=rate.enough,
            )
        )
    challenges = []
    for name in fitted.order("difficulties"):
        value = fitted.difficulties[name]
        suggested = suggest_tier(value)
        challenges.append(
            DifficultyLine(
                name=name,
                value=value.value,
                low=value.low,
                high=value.high,
                provisional=value.provisional,
                tier=read.tiers.get(name, ""),
                plays_like=suggested.tier,
                sure=suggested.sure,
            )
        )
    return RatingTable(
        agents=agents,
        challenges=challenges,
        comparable=fitted.connected,
        frozen=read.frozen,
        pairs=read.pairs,
        fitted=fitted,
    )


def find_likely_places(intervals: Mapping[str, tuple[float, float]]) -> dict[str, tuple[int, int]]:
    """By name, the best and the worst place that intervals leave open.

    Whoever's interval lies wholly above is ahead, wholly below behind; the rest may be either.
    """
    lows = sorted(low for low, _ in intervals.values())
    highs = sorted(high for _, high in intervals.values())
    count = len(intervals)
    return {
        name: (1 + count - bisect_right(lows, high), count - bisect_left(highs, low))
        for name, (low, high) in intervals.items()
    }
