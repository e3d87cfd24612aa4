"""Weighted totals of many attempts at once, to the bit what `dimensions.breakdown` gives for each.

Scores and weights count as they are written, so floats are not enough: 0.1 and 0.2 are 0.3. Numbers
of few decimals, as most scores have, are added as whole numbers, which floats hold exactly; only
rows with more are added one by one, and only where it matters.
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
_DECIMALS = (0, 3, 6)
_LARGEST = 2.0**53
_FINEST = 1e11
"""Totals in steps finer than this many parts could be rounded to the next whole number."""
_DOUBTFUL = 1e-6
"""Maximum distance of a float sum from the whole number it stands for."""
_EXACT = Context(prec=60)


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
