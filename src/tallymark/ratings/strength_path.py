"""The strength of one agent as it grew, with challenges as hard as the joint fit finds them.

At the optimum of the joint fit, the strength of an agent solves one equation: what it won is what
is expected of it, less the pull of the prior. Solved for its first matches alone, this gives the
strength at that time without fitting everybody again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tallymark.ratings import elo
from tallymark.ratings.joint_fit import PRIOR_SD, SCALE, Z95, Fit, RatingEstimate
from tallymark.ratings.matches import Counts, Match, Pair

_PRECISION = (SCALE / PRIOR_SD) ** 2
_CLOSE = 1e-9
_MOST_STEPS = 100


@dataclass(frozen=True, slots=True)
class StrengthPoint:
    """The fitted strength after a number of the agent's matches."""

    match: int
    value: float
    low: float
    high: float


def follow_strength(
    fitted: Fit, agent: str, log: Sequence[Match], most: int
) -> list[StrengthPoint]:
    """Trace the strength over an agent's matches, at up to `most` of them and the last.

    The interval of an earlier point takes the difficulties as known. The last point is the
    strength of the joint fit with its interval.
    """
    if not log or agent not in fitted.strengths:
        return []
    step = -(-len(log) // most)
    numbers = range(len(log) - step * ((len(log) - 1) // step), len(log), step)
    alike = fitted.repeat_correlation or 0.0
    points = []
    for number in numbers:
        value, error = _solve(list(Counts.of(log[:number])), fitted, alike)
        points.append(StrengthPoint(number, value, value - Z95 * error, value + Z95 * error))
    now = fitted.strengths[agent]
    return [*points, StrengthPoint(len(log), now.value, now.low, now.high)]


def _solve(pairs: Sequence[Pair], fitted: Fit, alike: float) -> tuple[float, float]:
    """The strength on the Elo scale and its error."""
    cells = [_weigh(pair, fitted.difficulties, alike) for pair in pairs]
    strength, slope = 0.0, 1.0
    for _ in range(_MOST_STEPS):
        chances = [_expect(strength - difficulty) for difficulty, _, _ in cells]
        gradient = math.fsum(
            won - counts * p for (_, counts, won), p in zip(cells, chances, strict=True)
        )
        slope = _PRECISION + math.fsum(
            counts * p * (1 - p) for (_, counts, _), p in zip(cells, chances, strict=True)
        )
        change = (gradient - _PRECISION * strength) / slope
        strength += max(-1.0, min(1.0, change))  # a whole Newton step may jump past the optimum
        if abs(change) < _CLOSE:
            break
    return elo.START + SCALE * strength, SCALE / math.sqrt(slope)


def _weigh(
    pair: Pair, difficulties: Mapping[str, RatingEstimate], alike: float
) -> tuple[float, float, float]:
    """Difficulty, weight and points of a pair; repeats are alike, and count for less."""
    matches = pair.wins + pair.draws + pair.losses
    scale = 1 / (1 + (matches - 1) * alike)
    difficulty = (difficulties[pair.challenge].value - elo.START) / SCALE
    return difficulty, matches * scale, (pair.wins + pair.draws / 2) * scale


def _expect(gap: float) -> float:
    return 0.5 * (1 + math.tanh(gap / 2))
