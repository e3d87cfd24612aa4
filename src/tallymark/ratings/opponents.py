"""Each opponent as the results of all others tell it: o with won - sum P(o beats them) = prior.

A floor must not depend on one's own results through what they make of the opponent. Where many met
an opponent, one more tells little, and a Newton step away from the optimum is near enough; where
few did, the step can err more than a loss costs, and the equation is solved.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tallymark.ratings.sparse_cells import NUMBERS_AT_ONCE, Array, Places

FEW = 64
"""So many or fewer have met an opponent for which the equation is solved."""
_ROUNDS = 40
_LONGEST = 1.0
_CLOSE = 1e-7


class Opponents(NamedTuple):
    """For each cell: the opponent's value without that cell, and how much the others tell."""

    values: Array
    known: Array


def leave_out(
    at: Places, own: Array, lost: Array, matches: Array, *, start: Opponents, precision: float
) -> Opponents:
    """From one Newton step, `start`, to the solution where few have met the opponent `at`.

    `own` is who met it, cell by cell, and `lost` what they lost to it in how many matches.
    """
    values, known = start.values.copy(), start.known.copy()
    order = np.argsort(at, kind="stable")
    sizes = np.bincount(at)
    firsts = np.cumsum(sizes) - sizes
    for size in np.unique(sizes[(sizes > 1) & (sizes <= FEW)]).tolist():
        heads = firsts[sizes == size]
        many = max(1, NUMBERS_AT_ONCE // size**2)
        for begin in range(0, len(heads), many):
            cells = order[heads[begin : begin + many, None] + np.arange(size)]
            values[cells], known[cells] = _solve(
                own[cells], lost[cells], matches[cells], values[cells], precision
            )
    return Opponents(values, known)


def _solve(
    own: Array, lost: Array, matches: Array, values: Array, precision: float
) -> tuple[Array, Array]:
    """One opponent a row; each column leaves out who stands there."""
    others = 1 - np.eye(own.shape[1])
    won = (lost[:, None, :] * others).sum(2)
    counts = matches[:, None, :] * others
    known = np.empty_like(values)
    for _ in range(_ROUNDS):
        p = 0.5 * (1 + np.tanh((values[:, :, None] - own[:, None, :]) / 2))
        known = (counts * p * (1 - p)).sum(2) + precision
        step = (won - (counts * p).sum(2) - precision * values) / known
        values = values + np.clip(step, -_LONGEST, _LONGEST)
        if float(np.abs(step).max()) <= _CLOSE:
            break
    return values, known
