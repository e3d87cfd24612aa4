"""A board computed from columns: weighted totals of many attempts, and the agents in order.

Totals are those of `dimensions.breakdown`, to the bit. Scores and weights count as they are
written, so floats are not enough: 0.1 and 0.2 are 0.3. Numbers of few decimals, as most scores
have, are added as whole numbers, which floats hold exactly; rows with more are added one by one,
and only where it matters. The order is that of `strategies.py`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from decimal import Context, Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from tallymark.dimensions.dimension import MAX_SCORE, clamp_score

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tallymark.dimensions import WeightedDimension

Column: TypeAlias = "NDArray[Any] | float"
Rows: TypeAlias = "NDArray[np.intp]"
_DECIMALS = (0, 3, 6)
_LARGEST = 2.0**53
_FINEST = 1e11
"""Totals in steps finer than this many parts could be rounded to the next whole number."""
_DOUBTFUL = 1e-6
"""Maximum distance of a float sum from the whole number it stands for."""
_EXACT = Context(prec=60)
_BLOCK = 1 << 16
"""Rows at a time: what is computed of them stays in the processor's cache."""


def find_totals(
    weighted: Sequence[WeightedDimension], columns: Mapping[str, Column], rows: int
) -> NDArray[np.float64]:
    """`Breakdown.total` of each row as a float; NaN where a score is missing."""
    totals, exact = _add_up(weighted, columns, rows)
    add_exactly = _RowTotal(weighted, columns)
    for row in np.flatnonzero(~exact & ~np.isnan(totals)).tolist():
        totals[row] = float(add_exactly(row))
    return totals


def find_shown_scores(
    weighted: Sequence[WeightedDimension], columns: Mapping[str, Column], rows: int
) -> NDArray[np.float64]:
    """`Breakdown.score` of each row; NaN where a score is missing."""
    totals, exact = _add_up(weighted, columns, rows)
    with np.errstate(invalid="ignore"):
        doubtful = ~exact & (np.abs(totals - np.rint(totals)) < _DOUBTFUL)
    shown = np.floor(totals)
    add_exactly = _RowTotal(weighted, columns)
    for row in np.flatnonzero(doubtful).tolist():
        shown[row] = math.floor(add_exactly(row))
    return shown


def _add_up(
    weighted: Sequence[WeightedDimension], columns: Mapping[str, Column], rows: int
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Totals, and which of them are exact; the others are off by less than a billionth."""
    whole = math.lcm(*(each.weight.denominator for each in weighted))
    scores = [np.clip(columns[each.key], 0.0, float(MAX_SCORE)) for each in weighted]
    for decimals in _DECIMALS:
        scale = 10.0**decimals
        largest = MAX_SCORE * scale * whole * float(sum(each.weight for each in weighted))
        if largest >= _LARGEST or whole * scale > _FINEST:
            break
        total, exact = np.zeros(rows), np.ones(rows, dtype=np.bool_)
        for each, score in zip(weighted, scores, strict=True):
            scaled = np.rint(score * scale)
            exact &= (scaled / scale == score) | np.isnan(score)
            total += scaled * float(each.weight * whole)
        if exact.all() or decimals == _DECIMALS[-1]:
            total /= whole * scale
            if not exact.all():
                rough = sum(s * float(e.weight) for s, e in zip(scores, weighted, strict=True))
                total = np.where(exact, total, rough)
            return np.minimum(total, float(MAX_SCORE)), exact
    rough = sum(score * float(each.weight) for score, each in zip(scores, weighted, strict=True))
    total = np.minimum(np.broadcast_to(rough, rows), float(MAX_SCORE))
    return total, np.zeros(rows, dtype=np.bool_)


class _RowTotal:
    """The exact total of single rows. Decimals are several times as quick as fractions."""

    def __init__(
        self, weighted: Sequence[WeightedDimension], columns: Mapping[str, Column]
    ) -> None:
        self._columns = [columns[each.key] for each in weighted]
        self._weights = [each.weight for each in weighted]
        made = [_EXACT.divide(Decimal(w.numerator), Decimal(w.denominator)) for w in self._weights]
        # A weight of a third is no decimal.
        self._decimals = made if list(map(Fraction, made)) == self._weights else None

    def __call__(self, row: int) -> Fraction | Decimal:
        scores = [repr(_read_cell(column, row)) for column in self._columns]
        if self._decimals is None:
            parts = (Fraction(text) * w for text, w in zip(scores, self._weights, strict=True))
            return clamp_score(sum(parts, Fraction(0)))
        total = Decimal(0)
        for text, weight in zip(scores, self._decimals, strict=True):
            total = _EXACT.add(total, _EXACT.multiply(Decimal(text), weight))
        return min(total, Decimal(MAX_SCORE))


def _read_cell(column: Column, row: int) -> float:
    value = column if isinstance(column, float) else float(column[row])
    return min(max(value, 0.0), float(MAX_SCORE))


def rank_by_score(
    scores: NDArray[np.float64],
    agent: NDArray[np.int32],
    agents: int,
    *,
    absent: Rows,
    left_out: NDArray[np.bool_] | None = None,
) -> Rows:
    """The rows that stand on a board ordered by these scores, the best one first.

    Rows come in the order in which ties are broken; a score that is NaN is missing, and so last.
    `agent` is a number below `agents`; the `absent` stand nowhere, nor do rows `left_out`.
    """
    best, first = np.full(agents, np.inf), [np.empty(0, dtype=np.intp)]
    blocks = [slice(start, start + _BLOCK) for start in range(0, len(scores), _BLOCK)]
    for block in blocks:
        places = _find_places(scores[block])
        if left_out is not None:
            places[left_out[block]] = np.inf
        np.minimum.at(best, agent[block], places)
    for block in blocks:
        are_best = _find_places(scores[block]) == best.take(agent[block])
        if left_out is not None:
            are_best &= ~left_out[block]
        first.append(block.start + np.flatnonzero(are_best))
    winners = _find_first_of_each(np.concatenate(first), agent, agents, absent)
    return winners[_sort_places(_find_places(scores[winners]))]


def _find_places(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Numbers of which the least is the first place, and none is NaN or -0.0."""
    places = np.subtract(0.0, scores)
    np.copyto(places, np.inf, where=np.isnan(places))
    return places


def _find_first_of_each(rows: Rows, agent: NDArray[np.int32], agents: int, absent: Rows) -> Rows:
    """The first of these rows of each agent, in order."""
    found = np.full(agents, -1, dtype=np.intp)
    whose = agent[rows]
    found[whose[::-1]] = rows[::-1]  # of several, the last that is assigned stays
    found[absent] = -1
    return np.asarray(rows[found[whose] == rows], dtype=np.intp)


def _sort_places(places: NDArray[np.float64]) -> Rows:
    """The order of `_find_places`, of equal ones the earlier first.

    By 16 bits at a time, from the lowest: numpy counts those, which for 100,000 agents takes a
    quarter of the time of comparing.
    """
    bits = places.view(np.uint64)
    # As unsigned numbers in the same order: those below zero turned around, the others above them.
    bits = np.where(bits >> 63, ~bits, bits | (1 << 63))
    order = np.arange(len(bits))
    for shift in (0, 16, 32, 48):
        digits = (bits >> shift).astype(np.uint16)
        order = order[np.argsort(digits[order], kind="stable")]
    return order


def find_first_of_owners(agents_in_order: NDArray[np.int32], owner: Rows) -> Rows:
    """The places in an order of agents that show the first of each owner, and all without one.

    `owner` is a number for each agent, from 0 on; one without an owner has less.
    """
    owners = owner[agents_in_order]
    places = np.arange(len(owners))
    first = np.full(int(owners.max(initial=-1)) + 1, -1, dtype=np.intp)
    owned = places[owners >= 0][::-1]
    first[owners[owned]] = owned  # of several, the last that is assigned stays
    shown = owners < 0
    shown[first[first >= 0]] = True
    return np.flatnonzero(shown)
