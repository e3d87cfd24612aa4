"""The least strength that results bear out: s with won - E(s) = z sqrt(V(s)) (Wilson 1927).

What a table is ordered by must not reward losing, nor meeting only the weak or only the strong. The
low end of value - z error does: who wins ten of ten has a wide interval, and one loss on purpose
narrows it. This end moves up with every win worth having, and with no loss. A loss also makes the
opponent look stronger, which would give some of it back, so each opponent is taken as the results
of the others tell it, with the doubt that they leave: P(win) = logistic(gap / sqrt(1 + pi v / 8))
for a variance v (MacKay 1992). Against opponents that nobody else met nothing is borne out.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tallymark.ratings.sparse_cells import Array, Places

_ROUNDS = 80
_CLOSE = 1e-9
_FAR = 60.0
"""Logistic units; no result can tell strengths that far apart."""


class Meetings(NamedTuple):
    """Cells seen from one side: whose they are, what was won, and whom they met."""

    of: Places
    against: Places
    won: Array
    matches: Array
    opponents: Array
    doubt: Array
    """The variance of each opponent."""


class FloorTerm(NamedTuple):
    """One opponent in the sum of a floor: what was won there, and what the floor lets expect."""

    against: int
    opponent: float
    """How strong it is by the results of the others."""
    counts: float
    won: float
    expected: float
    variance: float


def list_floor_terms(met: Meetings, which: int, floor: float) -> list[FloorTerm]:
    """What `find_floors` adds up for one of a side, at its floor."""
    mine = np.flatnonzero(met.of == which)
    scale = _find_scale(met.doubt[mine])
    counts = met.matches[mine] * scale
    p = 0.5 * (1 + np.tanh((floor - met.opponents[mine]) * scale / 2))
    columns = (
        met.against[mine],
        met.opponents[mine],
        counts,
        met.won[mine] * scale,
        counts * p,
        counts * scale * p * (1 - p),
    )
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return [FloorTerm(*row) for row in rows]


def _find_scale(doubt: Array) -> Array:
    """What doubt of an opponent leaves of a gap."""
    return np.asarray(1 / np.sqrt(1 + np.pi / 8 * doubt), dtype=np.float64)


def find_floors(met: Meetings, start: Array, *, precision: float, z: float) -> Array:
    """For each one of a side, the least value that its results bear out."""

    def add(values: Array) -> Array:
        return np.asarray(np.bincount(met.of, values, len(start)), dtype=np.float64)

    scale = _find_scale(met.doubt)
    won = add(met.won * scale)
    low, high = start - _FAR, start + _FAR
    at = start.copy()
    for _ in range(_ROUNDS):
        p = 0.5 * (1 + np.tanh((at[met.of] - met.opponents) * scale / 2))
        weights = met.matches * p * (1 - p) * scale**2
        known = add(weights) + precision
        error = np.sqrt(known)
        left = won - add(met.matches * p * scale) - precision * at - z * error
        slope = known + z * add(weights * (1 - 2 * p) * scale) / (2 * error)
        low, high = np.where(left > 0, at, low), np.where(left > 0, high, at)
        # Newton's step where it stays between what is known to be too low and too high.
        step = at + left / np.where(slope > 0, slope, 1)
        new = np.where((slope > 0) & (step > low) & (step < high), step, (low + high) / 2)
        moved = float(np.abs(new - at).max())
        at = new
        if moved <= _CLOSE:
            break
    return at
