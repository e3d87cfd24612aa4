"""The places on a board that repeated attempts allow.

A board orders by the best attempt, of which some part is luck. An agent with several attempts has a
mean with an interval, and two whose intervals overlap may well change places.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tallymark.challenges.attempt_formula import challenge_formula
from tallymark.challenges.challenge import Challenge
from tallymark.challenges.strategies import LikelyPlace
from tallymark.dimensions.dimension import MAX_SCORE
from tallymark.formula.bounds import Analysis
from tallymark.formula.ranges import Range
from tallymark.runs.statistics import student_t

FEWEST = 3
"""Attempts that an interval needs."""
UNBOUNDED = Range(-math.inf, math.inf)


def find_likely_places(
    scores: Mapping[str, Sequence[float]], scale: Range = UNBOUNDED
) -> dict[str, LikelyPlace]:
    """By agent, among those with enough attempts; empty if there are fewer than two of them.

    Attempts that are all alike have no interval: their variance has not been seen yet. No interval
    leaves the `scale` of scores.
    """
    ends = {
        # A constraint may have taken a score off the scale.
        agent: (
            mean,
            min(mean, max(mean - reach, scale.low)),
            max(mean, min(mean + reach, scale.high)),
        )
        for agent, each in scores.items()
        if (reach := _find_reach(each, mean := math.fsum(each) / len(each))) is not None
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
    """Range of scores, as far as the rule of the challenge determines it."""
    rule = challenge.scoring
    if rule.formula is not None:
        formula = challenge_formula(challenge).formula
        return Analysis(formula.tree, formula.declared).result.range or UNBOUNDED
    return Range(0.0, MAX_SCORE) if rule.dimensions and rule.plugin is None else UNBOUNDED


def _find_reach(scores: Sequence[float], mean: float) -> float | None:
    count = len(scores)
    squares = math.fsum((each - mean) ** 2 for each in scores)
    if count < FEWEST or squares <= 0.0:
        return None
    return student_t(count - 1) * math.sqrt(squares / (count - 1) / count)
