"""The numerical part of the joint fit: Newton's method, errors, and lower bounds of strengths.

The fit is Newton's method on the penalised log likelihood: H step = g (Boyd and Vandenberghe 2004,
9.5). With agents as rows and challenges as columns the Hessian is [[R, -W], [-W', C]], R and C
diagonal, and W has a value only where the two met. The longer side is eliminated (its Schur
complement is S = C - W' R^-1 W), so a hundred thousand agents at fifty challenges cost fifty
unknowns a step.

n matches of one pair count as n / (1 + (n - 1) r), because they are alike by a correlation r (Kish
1965): a pair never counts for more than 1 / r matches. r is estimated by moments over the pairs
that were played again: how far their shares of wins lie from what is expected, less what their own
results vary.

The lower bound (floor) of a strength is the least one that its results bear out: s with won - E(s)
= z sqrt(V(s)) (Wilson 1927). Tables are ordered by it, so it must not reward losing, nor meeting
only the weak or only the strong. The low end of value - z error does: ten wins of ten have a wide
interval, and one loss on purpose narrows it. This bound moves up with every win worth having, and
with no loss. A loss also makes the opponent look stronger, which would give some of it back, so
each opponent is taken by its results against others, with their doubt: P(win) = logistic(gap /
sqrt(1 + pi v / 8)) for a variance v (MacKay 1992). Results against opponents that no other agent
met bear nothing out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from tallymark.errors import WorkFailed
from tallymark.ratings.joint_fit import Z95
from tallymark.ratings.matches import CountColumns
from tallymark.ratings.sparse_cells import Array, Places, SparseCells

STEPS = 100
CLOSE = 1e-9
"""A step so small, in logistic units, ends the search; the error left is about its square."""
FARTHEST = 5.0
"""Limit, in logistic units, of an opponent's move when one pair's results are left out."""
ALIKE_IN_FLOORS = 0.3
"""Correlation of repeated matches for floors, unless the caller gives one."""
KNOWN_FROM = 4.0
"""Against an opponent that others met this often, results count half for a floor; against one that
no other agent met, not at all.
"""


@dataclass(frozen=True, slots=True)
class MatchTable:
    """Wins, draws and losses of rows (agents) at columns (challenges), where they met."""

    cells: SparseCells
    wins: Array
    draws: Array
    losses: Array

    @classmethod
    def of(cls, counts: CountColumns) -> Self:
        """The counts with names in alphabetical order, so that no other order matters."""
        rows = _rank_names(counts.agents)[np.array(counts.rows, dtype=np.intp)]
        columns = _rank_names(counts.challenges)[np.array(counts.columns, dtype=np.intp)]
        shape = len(counts.agents), len(counts.challenges)
        results = (np.array(each, dtype=np.float64) for each in counts.results)
        return cls._sort_cells(rows, columns, shape, *results)

    @classmethod
    def _sort_cells(
        cls, rows: Places, columns: Places, shape: tuple[int, int], *results: Array
    ) -> Self:
        order = np.argsort(rows * shape[1] + columns)
        cells = SparseCells(rows[order], columns[order], shape)
        return cls(cells, *(each[order] for each in results))

    def turn(self) -> MatchTable:
        """Matches from the challenges' side: an agent's win is the challenge's loss."""
        cells = self.cells
        results = self.losses, self.draws, self.wins
        return self._sort_cells(cells.columns, cells.rows, cells.shape[::-1], *results)

    @property
    def matches(self) -> Array:
        """Number of matches in each cell."""
        return self.wins + self.draws + self.losses

    @property
    def won(self) -> Array:
        """Points that the row won; a draw is half a win."""
        return self.wins + self.draws / 2

    def weigh(self, weights: Array) -> MatchTable:
        """Results with each cell multiplied by its weight."""
        return MatchTable(
            self.cells, self.wins * weights, self.draws * weights, self.losses * weights
        )


def _rank_names(names: list[str]) -> Places:
    ranks = np.empty(len(names), dtype=np.intp)
    ranks[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names))
    return ranks


@dataclass(frozen=True, slots=True)
class FitSolution:
    """Values and errors in logistic units, rows first, then columns; groups as labels."""

    values: Array
    errors: Array
    robust_errors: Array
    floors: Array
    met: tuple[Meetings, Meetings]
    """Inputs of the floors, of rows and of columns."""
    matches: Array
    groups: Places
    correlation: float

    def rows(self) -> Iterator[tuple[float, float, float, float, float]]:
        """Value, error, robust error, floor and matches, one after another."""
        columns = (self.values, self.errors, self.robust_errors, self.floors, self.matches)
        return zip(*(column.tolist() for column in columns), strict=True)

    def turn(self, rows: int) -> FitSolution:
        """The same with the columns first, which now come after this number of rows."""
        return FitSolution(
            np.roll(self.values, -rows),
            np.roll(self.errors, -rows),
            np.roll(self.robust_errors, -rows),
            np.roll(self.floors, -rows),
            self.met[::-1],
            np.roll(self.matches, -rows),
            np.roll(self.groups, -rows),
            self.correlation,
        )


@dataclass(frozen=True, slots=True)
class _Curvature:
    """The Hessian by its blocks, and what eliminating the rows needs."""

    cells: SparseCells
    rows: Array
    columns: Array
    shares: Array  # R^-1 W
    schur: Array

    @classmethod
    def of(cls, cells: SparseCells, weights: Array, precision: float) -> Self:
        rows = cells.over_rows(weights) + precision
        columns = cells.over_columns(weights) + precision
        # W' R^-1 W as a matrix times itself, so that one dense block serves both sides.
        halves = weights / np.sqrt(rows)[cells.rows]
        schur = np.diag(columns) - cells.gram(halves, halves)
        return cls(cells, rows, columns, weights / rows[cells.rows], schur)

    def solve(self, rows: Array, columns: Array) -> Array:
        cells = self.cells
        moved = cells.over_columns(self.shares * rows[cells.rows])
        second = np.linalg.solve(self.schur, columns + moved)
        first = rows / self.rows + cells.over_rows(self.shares * second[cells.columns])
        return np.concatenate((first, second))


def solve(table: MatchTable, *, precision: float, correlation: float | None = None) -> FitSolution:
    """The optimum and its errors, for a prior of this precision around 0.

    `correlation` is that of repeated matches of a pair; None estimates it.
    """
    cells = table.cells
    rows, columns = cells.shape
    if rows < columns:  # the rows are eliminated, and the longer side should be
        turned = solve(table.turn(), precision=precision, correlation=correlation)
        return turned.turn(columns)
    groups = label_groups(cells)
    matches = table.matches
    # What repeats count for in floors is not read off the log: a loss among them would change it.
    given = ALIKE_IN_FLOORS if correlation is None else correlation
    weighed = table.weigh(weigh_repeats(matches, given))
    landscape = usual = _Landscape(weighed, precision)
    best = start = _find_optimum(landscape, groups, np.zeros(rows + columns))
    if correlation is None:
        correlation = estimate_correlation(
            matches, table.won, table.wins + table.draws / 4, best.win, _leverage(usual, best)
        )
        weighed = table.weigh(weigh_repeats(matches, correlation))
        landscape = _Landscape(weighed, precision)
        best = _find_optimum(landscape, groups, start.values)
    curvature = landscape.curvature(best)
    inverse = np.asarray(np.linalg.inv(curvature.schur), dtype=np.float64)
    # Squared surprises: a win gives 1 where P(win) was expected, a draw 1/2, a loss 0.
    spread = weighed.wins * best.lose**2 + weighed.losses * best.win**2
    spread += weighed.draws * (0.5 - best.win) ** 2
    met = _list_meetings(usual, start)
    first, second = np.split(start.values, [rows])
    floors = [
        find_floors(each, own, precision=precision, z=Z95)
        for each, own in zip(met, (first, second), strict=True)
    ]
    return FitSolution(
        best.values,
        _compute_errors(curvature, inverse, groups, precision),
        _compute_robust_errors(curvature, inverse, spread),
        np.concatenate(floors),
        met,
        np.concatenate((cells.over_rows(matches), cells.over_columns(matches))),
        groups,
        correlation,
    )


def label_groups(cells: SparseCells) -> Places:
    """A label for every row and then every column: equal where matches join them."""
    rows, columns = cells.rows, cells.columns + cells.shape[0]
    labels = np.arange(sum(cells.shape))
    while True:
        lowest = np.minimum(labels[rows], labels[columns])
        new = labels.copy()
        np.minimum.at(new, rows, lowest)
        np.minimum.at(new, columns, lowest)
        # A label's label, too: long chains of matches then settle in few rounds.
        new = new[new]
        if np.array_equal(new, labels):
            return np.unique(labels, return_inverse=True)[1]
        labels = new


@dataclass(frozen=True, slots=True)
class _Point:
    """A point of the search: its height, and P(win) and P(loss), each exact where it is tiny."""

    values: Array
    height: float
    win: Array
    lose: Array


class _Landscape:
    """The penalised log likelihood over all values."""

    def __init__(self, table: MatchTable, precision: float) -> None:
        self.cells = table.cells
        self.won = table.won
        self.lost = table.losses + table.draws / 2
        self.matches = self.won + self.lost
        self.precision = precision

    def at(self, values: Array) -> _Point:
        rows, columns = np.split(values, [self.cells.shape[0]])
        gaps = rows[self.cells.rows] - columns[self.cells.columns]
        small = np.exp(-np.abs(gaps))
        # Every term has the same sign, so that nothing cancels where one side won it all.
        surprise = np.where(gaps < 0, self.won, self.lost) * np.abs(gaps)
        surprise += self.matches * np.log1p(small)
        height = -surprise.sum() - self.precision / 2 * (values @ values)
        likely = 1 / (1 + small)
        unlikely = small * likely
        ahead = gaps >= 0
        win, lose = np.where(ahead, likely, unlikely), np.where(ahead, unlikely, likely)
        return _Point(values, float(height), win, lose)

    def curvature(self, point: _Point) -> _Curvature:
        return _Curvature.of(self.cells, self.matches * point.win * point.lose, self.precision)

    def step(self, point: _Point) -> Array:
        left = self.won * point.lose - self.lost * point.win
        rows, columns = np.split(self.precision * point.values, [self.cells.shape[0]])
        return self.curvature(point).solve(
            self.cells.over_rows(left) - rows, -self.cells.over_columns(left) - columns
        )


def _find_optimum(landscape: _Landscape, groups: Places, start: Array) -> _Point:
    sizes = np.bincount(groups)
    point = landscape.at(start)
    for _ in range(STEPS):
        step = landscape.step(point)
        # The optimum of every group has mean 0; rounding is not allowed to move it.
        step -= (np.bincount(groups, step) / sizes)[groups]
        size = float(np.abs(step).max())
        # At the top all heights are equal but for rounding, which must not look like a fall.
        least = point.height - 1e-12 * (1 + abs(point.height))
        new = landscape.at(point.values + step)
        # Far from the top a whole Newton step can overshoot; half of it, or less, does climb.
        while new.height < least and size > CLOSE:
            step, size = step / 2, size / 2
            new = landscape.at(point.values + step)
        point = new
        if size <= CLOSE:
            return point
    raise WorkFailed("the joint fit did not settle", hint="give a smaller prior_sd")


def _compute_errors(
    curvature: _Curvature, inverse: Array, groups: Places, precision: float
) -> Array:
    """Errors from the Hessian, relative to the means of groups."""
    rows, shares = curvature.rows, curvature.shares
    above = 1 / rows + curvature.cells.forms(shares, inverse, shares)
    plain = np.concatenate((above, np.diag(inverse)))
    # A group's mean is an eigenvector of H, so its variance is known: it is taken out. What is
    # left is at least the bound by Cauchy and Schwarz, even after rounding.
    part = 1 / np.bincount(groups)[groups]
    diagonal = np.concatenate((rows, curvature.columns))
    bound = (1 - part) ** 2 / (diagonal - precision * part)
    return np.asarray(np.sqrt(np.maximum(plain - part / precision, bound)))


def _leverage(landscape: _Landscape, point: _Point) -> Array:
    """Pull of each cell's own results on its expected result: 0 none, 1 complete."""
    curvature = landscape.curvature(point)
    cells, shares = landscape.cells, curvature.shares
    inverse = np.asarray(np.linalg.inv(curvature.schur), dtype=np.float64)
    across = cells.across(shares, inverse)
    rows = 1 / curvature.rows + cells.over_rows(across * shares)
    gaps = rows[cells.rows] + np.diag(inverse)[cells.columns] - 2 * across
    return np.asarray(landscape.matches * point.win * point.lose * gaps)


def _list_meetings(landscape: _Landscape, best: _Point) -> tuple[Meetings, Meetings]:
    """The meetings of rows and of columns, each opponent by its results against others."""
    cells, precision = landscape.cells, landscape.precision
    curvature = landscape.curvature(best)
    first, second = np.split(best.values, [cells.shape[0]])
    surprise = landscape.won * best.lose - landscape.lost * best.win
    weights = landscape.matches * best.win * best.lose

    def meet(
        of: Places, won: Array, at: Places, theirs: Array, known: Array, sign: int
    ) -> Meetings:
        # The opponent without the pair's own results: one Newton step away from the optimum.
        others = np.maximum(known[at] - weights, precision)
        moved = np.clip(sign * surprise / others, -FARTHEST, FARTHEST)
        # An agent that chooses opponents can choose ones that others hardly met. Their strength
        # is unknown, and its weight depends on no result, so that no loss can raise it.
        elsewhere = np.maximum(np.bincount(at, landscape.matches)[at] - landscape.matches, 0)
        part = elsewhere / (elsewhere + KNOWN_FROM)
        counts = landscape.matches * part
        return Meetings(of, at, won * part, counts, theirs[at] + moved, 1 / others)

    return (
        meet(cells.rows, landscape.won, cells.columns, second, curvature.columns, 1),
        meet(cells.columns, landscape.lost, cells.rows, first, curvature.rows, -1),
    )


def _compute_robust_errors(curvature: _Curvature, inverse: Array, spread: Array) -> Array:
    """Errors from the sandwich H^-1 J H^-1; `spread` holds the squared surprises that make J.

    J has no information on a group's mean, so these are relative to it without further work.
    """
    cells, rows, shares = curvature.cells, curvature.rows, curvature.shares
    ahead = cells.over_rows(spread)
    # What the rows' surprises leave, once the rows are eliminated, between columns.
    left = ahead[cells.rows] * shares - spread
    middle = cells.gram(shares, left) - cells.gram(spread, shares)
    middle += np.diag(cells.over_columns(spread))
    sandwich = inverse @ middle @ inverse
    above = (
        ahead / rows**2
        + 2 * cells.forms(shares, inverse, left) / rows
        + cells.forms(shares, sandwich, shares)
    )
    robust = np.concatenate((above, np.diag(sandwich)))
    return np.asarray(np.sqrt(np.maximum(robust, 0)))


_ROUNDS = 80
_CLOSE = 1e-9
_FAR = 60.0
"""Logistic units; no result can separate strengths that far apart."""


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
    """The opponent's strength by its results against others."""
    counts: float
    won: float
    expected: float
    variance: float


def list_floor_terms(met: Meetings, which: int, floor: float) -> list[FloorTerm]:
    """The terms that `find_floors` adds up for one member of a side, at its floor."""
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
    """Factor by which doubt about an opponent shrinks a gap."""
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


USUAL = 0.5
"""The value of r where no pair was played again."""
_USUAL_WEIGHT = 5.0
"""Weight of the usual value against the evidence."""
_MOST_LEVERAGE = 0.9


def weigh_repeats(matches: Array, correlation: float) -> Array:
    """Weight of each match of a pair that was played this many times."""
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
