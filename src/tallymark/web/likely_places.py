"""Which places on a board the luck of attempts allows, where attempts were repeated.

A board orders by the best attempt, of which some part is luck. Who tried often enough has a mean
with an interval, and two whose intervals overlap may well change places.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec

from tallymark.runs.statistics import student_t
from tallymark.store.contests.figures import Tries

FEWEST = 3
"""Attempts of which a mean has an interval that says something."""


class LikelyPlace(msgspec.Struct, frozen=True, kw_only=True):
    """The mean of all attempts with its 95 % interval, and the places that it allows."""

    mean: float
    low: float
    high: float
    first: int
    last: int


def find_likely_places(tries: Mapping[str, Tries]) -> dict[str, LikelyPlace]:
    """By agent, among those alone who tried often enough; nothing where they are fewer than two.

    Attempts that are all alike have no interval: their luck has not been seen yet.
    """
    ends = {
        agent: (each.mean, each.mean - reach, each.mean + reach)
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
        )
        for agent, (mean, low, high) in ends.items()
    }


def _find_reach(each: Tries) -> float | None:
    if each.count < FEWEST or each.squares <= 0.0:
        return None
    return student_t(each.count - 1) * math.sqrt(each.squares / (each.count - 1) / each.count)


def find_ends(places: Sequence[LikelyPlace]) -> tuple[float, float]:
    """From where to where all intervals lie, for drawing them under each other."""
    return min(each.low for each in places), max(each.high for each in places)
