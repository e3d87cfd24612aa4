"""Which places on a board the luck of attempts allows, where attempts were repeated.

A board orders by the best attempt, of which some part is luck. Who tried often enough has a mean
with an interval, and two whose intervals overlap may well change places.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec

from tallymark.challenges.attempt_formula import challenge_formula
from tallymark.challenges.challenge import Challenge
from tallymark.dimensions.exact_numbers import MAX_SCORE
from tallymark.formula.bounds import Analysis
from tallymark.formula.ranges import Range
from tallymark.runs.statistics import student_t
from tallymark.store.contests.figures import Tries

FEWEST = 3
"""Attempts of which a mean has an interval that says something."""
UNBOUNDED = Range(-math.inf, math.inf)


class LikelyPlace(msgspec.Struct, frozen=True, kw_only=True):
    """The mean of all attempts with its 95 % interval, and the places that it allows."""

    mean: float
    low: float
    high: float
    first: int
    last: int
    among: int
    """So many agents have such a mean: the places are those among them."""


def find_likely_places(
    tries: Mapping[str, Tries], scale: Range = UNBOUNDED
) -> dict[str, LikelyPlace]:
    """By agent, among those alone who tried often enough; nothing where they are fewer than two.

    Attempts that are all alike have no interval: their luck has not been seen yet. No interval
    leaves the `scale` of scores.
    """
    ends = {
        # What a constraint did to a score may have taken it off the scale.
        agent: (
            each.mean,
            min(each.mean, max(each.mean - reach, scale.low)),
            max(each.mean, min(each.mean + reach, scale.high)),
        )
        for agent, each in tries.items()
        if (reach := _find_reach(each)) is not None
    }
    if len(ends) < 2:
        return {}
    all_ends = list(ends.values())
    return {
        agent: LikelyPlace(
            mean=mean,
            low=low,
            high=high,
            first=1 + sum(each[1] > high for each in all_ends),
            last=len(all_ends) - sum(each[2] < low for each in all_ends),
            among=len(all_ends),
        )
        for agent, (mean, low, high) in ends.items()
    }


def find_scale(challenge: Challenge) -> Range:
    """Between which scores all others lie, as far as the challenge's rule says it."""
    rule = challenge.scoring
    if rule.formula is not None:
        formula = challenge_formula(challenge).formula
        return Analysis(formula.tree, formula.declared).result.range or UNBOUNDED
    return Range(0.0, MAX_SCORE) if rule.dimensions and rule.plugin is None else UNBOUNDED


def _find_reach(each: Tries) -> float | None:
    if each.count < FEWEST or each.squares <= 0.0:
        return None
    return student_t(each.count - 1) * math.sqrt(each.squares / (each.count - 1) / each.count)


def find_ends(places: Sequence[LikelyPlace]) -> tuple[float, float]:
    """From where to where all intervals lie, for drawing them under each other."""
    return min(each.low for each in places), max(each.high for each in places)
