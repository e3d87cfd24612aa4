"""The arithmetic of a rating, step by step, as somebody would check it on paper."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from tallymark.ratings import elo
from tallymark.ratings.joint_fit import PRIOR_SD, SCALE, Z95
from tallymark.ratings.match_results import tier_rating, worth
from tallymark.text import format_number

if TYPE_CHECKING:
    from tallymark.ratings import EloChange, Fit, Match, Pair

_TIMES = "\N{MULTIPLICATION SIGN}"


class Sum(msgspec.Struct, frozen=True):
    """A step of it."""

    what: str
    how: str
    result: str


def write_sums(match: Match, change: EloChange) -> Iterable[Sum]:
    """From what was expected to the rating afterwards."""
    opponent, value = tier_rating(match.tier), worth(match.result)
    did = {1.0: "Won", 0.5: "Drew", 0.0: "Lost"}[value]
    plain = change.k * (value - change.expected)
    rounded = elo.half_up(plain)
    yield Sum(
        f"Expected against tier {match.tier}",
        f"1 / (1 + 10^(({opponent} - {change.before}) / 400))",
        format_number(change.expected, 3, 3),
    )
    yield Sum(
        f"{did}, so the change is",
        f"{change.k} {_TIMES} ({format_number(value)} - {format_number(change.expected, 3, 3)})"
        f" = {format_number(plain, 2)}, rounded",
        f"{rounded:+d}",
    )
    if change.bonus != 1.0:
        more = (rounded * round(change.bonus * 10) + 5) // 10
        yield Sum(
            "Verified win",
            f"{rounded} {_TIMES} {format_number(change.bonus)}, rounded",
            f"{more:+d}",
        )
    floor = " (not below 100)" if change.after == elo.FLOOR else ""
    yield Sum(
        "Elo",
        f"{change.before} {'-' if change.change < 0 else '+'} {abs(change.change)}{floor}",
        f"{change.after}",
    )


class EloStep(msgspec.Struct, frozen=True, kw_only=True):
    """What one match did to a rating."""

    number: int
    challenge: str
    tier: str
    result: str
    how: str
    before: int
    change: int
    after: int


def list_elo_steps(changes: Sequence[tuple[Match, EloChange]], most: int) -> list[EloStep]:
    """The newest matches, the last one first, each with its arithmetic in a line."""
    found = []
    for number, (match, change) in list(enumerate(changes, 1))[: -most - 1 : -1]:
        bonus = f" {_TIMES} {format_number(change.bonus)}" if change.bonus != 1.0 else ""
        won, expected = format_number(worth(match.result)), format_number(change.expected, 3, 3)
        found.append(
            EloStep(
                number=number,
                challenge=match.challenge,
                tier=match.tier,
                result="loss" if match.result == "expired" else match.result,
                how=f"{change.k} {_TIMES} ({won} - {expected}){bonus}",
                before=change.before,
                change=change.change,
                after=change.after,
            )
        )
    return found


class FitStep(msgspec.Struct, frozen=True, kw_only=True):
    """A challenge that an agent met: what it won there, and what its strength lets expect."""

    challenge: str
    difficulty: float
    wins: int
    draws: int
    losses: int
    counts: float
    """For how many matches all of them count, because repeats are alike."""
    won: float
    chance: float
    expected: float


class FitSum(msgspec.Struct, frozen=True, kw_only=True):
    """A strength is where what was won equals what is expected, but for the pull of the prior."""

    steps: list[FitStep]
    won: float
    expected: float
    pull: float
    """What the prior takes: it holds who won everything, and is next to nothing for others."""
    correlation: float


class FloorStep(msgspec.Struct, frozen=True, kw_only=True):
    """A challenge as the others found it: what was won there, and what the floor lets expect."""

    challenge: str
    difficulty: float
    counts: float
    won: float
    expected: float
    variance: float


class FloorSum(msgspec.Struct, frozen=True, kw_only=True):
    """A floor is where what was won is as far above what is expected as luck goes, at 95 %."""

    steps: list[FloorStep]
    won: float
    expected: float
    pull: float
    own: float
    """The part of the variance that the prior leaves where nothing was won or lost."""
    variance: float
    luck: float


def sum_up_floor(fitted: Fit, agent: str) -> FloorSum | None:
    """The equation that an agent's floor solves; None for one that has not played."""
    if agent not in fitted.strengths:
        return None
    names = list(fitted.difficulties)
    steps = [
        FloorStep(
            challenge=names[each.against],
            difficulty=elo.START + SCALE * each.opponent,
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
    """What the prior takes at a rating."""
    return SCALE * (rating - elo.START) / PRIOR_SD**2


def sum_up_fit(fitted: Fit, pairs: Iterable[Pair], agent: str) -> FitSum | None:
    """The equation that an agent's strength solves; None for one that has not played."""
    if agent not in fitted.strengths:
        return None
    strength, alike = fitted.strengths[agent].value, fitted.repeat_correlation or 0.0
    steps = []
    for each in pairs:
        matches = each.wins + each.draws + each.losses
        if each.agent != agent or not matches:
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
