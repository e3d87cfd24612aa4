"""n matches of one pair count as n / (1 + (n - 1) r): they are alike, r says how far (Kish 1965).

A pair never counts for more than 1 / r matches, however often it is played. r is estimated by
moments over the pairs that were played again: how far their shares of wins lie from what is
expected, less what their own results vary.
"""

from __future__ import annotations

import numpy as np

from tallymark.ratings.sparse_cells import Array

USUAL = 0.5
"""What is taken for r where no pair was played again."""
_USUAL_WEIGHT = 5.0
"""For how much evidence the usual value stands beside what is seen."""
_MOST_LEVERAGE = 0.9


def weigh_repeats(matches: Array, correlation: float) -> Array:
    """What each match of a pair that was played so often counts for."""
    return np.asarray(1 / (1 + (matches - 1) * correlation))


def estimate_correlation(
    matches: Array, won: Array, squares: Array, expected: Array, leverage: Array
) -> float:
    """The correlation of repeated matches, from 0 to 1.

    `won` counts a draw as half, `squares` as a quarter; `expected` and `leverage` come from a fit
    that weighed repeats by some fixed correlation.
    """
    again = matches > 1
    n, won, squares, p, leverage = (
        each[again] for each in (matches, won, squares, expected, leverage)
    )
    weights = 1 / ((n - 1) * n * weigh_repeats(n, USUAL))
    between = n * (n - 1) * (won / n - p) ** 2 / (1 - np.minimum(leverage, _MOST_LEVERAGE))
    within = squares - won**2 / n
    alike = float((weights * (between - within)).sum())
    most = float((weights * n * (n - 1) * p * (1 - p)).sum())
    found = (alike + _USUAL_WEIGHT * USUAL) / (most + _USUAL_WEIGHT)
    return min(1.0, max(0.0, found))
