"""Newton's method on penalised log likelihood: H step = g (Boyd and Vandenberghe 2004, 9.5).

With agents as rows and challenges as columns the Hessian is [[R, -W], [-W', C]], R and C diagonal.
The longer side is eliminated (its Schur complement is S = C - W' R^-1 W), so a hundred thousand
agents at fifty challenges cost a system of fifty unknowns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self, TypeAlias

import numpy as np

from tallymark.errors import WorkFailed

if TYPE_CHECKING:
    from numpy.typing import NDArray

Array: TypeAlias = "NDArray[np.float64]"
Labels: TypeAlias = "NDArray[np.intp]"
STEPS = 100
CLOSE = 1e-9
"""A step so small, in logistic units, ends the search; the error left is about its square."""


@dataclass(frozen=True, slots=True)
class Table:
    """Wins, draws and losses of every row (agent) at every column (challenge)."""

    wins: Array
    draws: Array
    losses: Array

    @classmethod
    def of(
        cls,
        cells: Sequence[tuple[tuple[str, str], list[int]]],
        agents: Sequence[str],
        challenges: Sequence[str],
    ) -> Self:
        """The counts laid out by place in the two lists of names."""
        row = {name: at for at, name in enumerate(agents)}
        column = {name: at for at, name in enumerate(challenges)}
        rows = [row[agent] for (agent, _), _ in cells]
        columns = [column[challenge] for (_, challenge), _ in cells]
        layers = np.zeros((3, len(agents), len(challenges)))
        layers[:, rows, columns] = np.array([counts for _, counts in cells], dtype=float).T
        return cls(*layers)

    def turned(self) -> Table:
        """The same matches seen by the challenges: what an agent wins, a challenge loses."""
        return Table(self.losses.T.copy(), self.draws.T.copy(), self.wins.T.copy())

    @property
    def matches(self) -> Array:
        """How many matches each cell holds."""
        return self.wins + self.draws + self.losses


@dataclass(frozen=True, slots=True)
class Solution:
    """Values and errors in logistic units, rows first, then columns; groups as labels."""

    values: Array
    errors: Array
    robust_errors: Array
    matches: Array
    groups: Labels

    def rows(self) -> Iterator[tuple[float, float, float, float]]:
        """Value, error, robust error and matches, one after another."""
        columns = (self.values, self.errors, self.robust_errors, self.matches)
        return zip(*(column.tolist() for column in columns), strict=True)

    def turned(self, rows: int) -> Solution:
        """With the columns, which come after so many rows, first."""
        return Solution(
            np.roll(self.values, -rows),
            np.roll(self.errors, -rows),
            np.roll(self.robust_errors, -rows),
            np.roll(self.matches, -rows),
            np.roll(self.groups, -rows),
        )


@dataclass(frozen=True, slots=True)
class _Curvature:
    """The Hessian by its blocks, and what eliminating the rows needs."""

    rows: Array
    columns: Array
    shares: Array  # R^-1 W
    schur: Array

    @classmethod
    def of(cls, weights: Array, precision: float) -> Self:
        rows, columns = weights.sum(1) + precision, weights.sum(0) + precision
        shares = weights / rows[:, None]
        return cls(rows, columns, shares, np.diag(columns) - weights.T @ shares)

    def solve(self, rows: Array, columns: Array) -> Array:
        second = np.linalg.solve(self.schur, columns + self.shares.T @ rows)
        return np.concatenate((rows / self.rows + self.shares @ second, second))


def solve(table: Table, *, precision: float) -> Solution:
    """The optimum and its errors, for a prior of this precision around 0."""
    rows, columns = table.wins.shape
    if rows < columns:
        return solve(table.turned(), precision=precision).turned(columns)
    matches = table.matches
    groups = connected(matches)
    landscape = _Landscape(table, precision)
    best = _optimum(landscape, groups)
    curvature = landscape.curvature(best)
    errors = _errors(curvature, groups, precision)
    spread = table.wins * best.lose**2 + table.losses * best.win**2
    spread += table.draws * (0.5 - best.win) ** 2
    robust = _robust_errors(curvature, spread)
    played = np.concatenate((matches.sum(1), matches.sum(0)))
    return Solution(best.values, errors, robust, played, groups)


def connected(matches: Array) -> Labels:
    """A label for every row and then every column: equal where matches join them."""
    rows, columns = np.nonzero(matches)
    columns = columns + len(matches)
    labels = np.arange(sum(matches.shape))
    while True:
        lowest = np.minimum(labels[rows], labels[columns])
        new = labels.copy()
        np.minimum.at(new, rows, lowest)
        np.minimum.at(new, columns, lowest)
        new = new[new]
        if np.array_equal(new, labels):
            return np.unique(labels, return_inverse=True)[1]
        labels = new


@dataclass(frozen=True, slots=True)
class _Point:
    """Where the search stands: how high, and P(win) and P(loss), each exact where it is tiny."""

    values: Array
    height: float
    win: Array
    lose: Array


class _Landscape:
    """The penalised log likelihood over all values."""

    def __init__(self, table: Table, precision: float) -> None:
        self.won = table.wins + table.draws / 2
        self.lost = table.losses + table.draws / 2
        self.matches = self.won + self.lost
        self.precision = precision

    def at(self, values: Array) -> _Point:
        rows = len(self.won)
        gaps = values[:rows, None] - values[rows:]
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
        return _Curvature.of(self.matches * point.win * point.lose, self.precision)

    def step(self, point: _Point) -> Array:
        rows = len(self.won)
        left = self.won * point.lose - self.lost * point.win
        pull = self.precision * point.values
        curvature = self.curvature(point)
        return curvature.solve(left.sum(1) - pull[:rows], -left.sum(0) - pull[rows:])


def _optimum(landscape: _Landscape, groups: Labels) -> _Point:
    sizes = np.bincount(groups)
    point = landscape.at(np.zeros(len(groups)))
    for _ in range(STEPS):
        step = landscape.step(point)
        # The optimum of every group has mean 0; rounding is not allowed to move it.
        step -= (np.bincount(groups, step) / sizes)[groups]
        size = float(np.abs(step).max())
        least = point.height - 1e-12 * (1 + abs(point.height))
        new = landscape.at(point.values + step)
        while new.height < least and size > CLOSE:
            step, size = step / 2, size / 2
            new = landscape.at(point.values + step)
        point = new
        if size <= CLOSE:
            return point
    raise WorkFailed("the joint fit did not settle", hint="give a smaller prior_sd")


def _errors(curvature: _Curvature, groups: Labels, precision: float) -> Array:
    """Errors from the Hessian, relative to the means of groups."""
    rows, shares = curvature.rows, curvature.shares
    inverse = np.linalg.inv(curvature.schur)
    cross = shares @ inverse
    plain = np.concatenate((1 / rows + (cross * shares).sum(1), np.diag(inverse)))
    # A group's mean is an eigenvector of H, so its variance is known: it is taken out. What is
    # left is at least the bound by Cauchy and Schwarz, whatever rounding does.
    part = 1 / np.bincount(groups)[groups]
    diagonal = np.concatenate((rows, curvature.columns))
    bound = (1 - part) ** 2 / (diagonal - precision * part)
    return np.asarray(np.sqrt(np.maximum(plain - part / precision, bound)))


def _robust_errors(curvature: _Curvature, spread: Array) -> Array:
    """Errors from the sandwich H^-1 J H^-1; `spread` holds the squared surprises that make J.

    J says nothing of a group's mean, so these are relative to it by themselves.
    """
    rows, shares = curvature.rows, curvature.shares
    inverse = np.linalg.inv(curvature.schur)
    cross = shares @ inverse
    ahead = spread.sum(1)
    mixed = shares.T @ spread
    middle = (shares.T * ahead) @ shares - mixed - mixed.T + np.diag(spread.sum(0))
    above = (
        ahead / rows**2
        + 2 * (cross * (ahead[:, None] * shares - spread)).sum(1) / rows
        + ((cross @ middle) * cross).sum(1)
    )
    robust = np.concatenate((above, ((inverse @ middle) * inverse).sum(1)))
    return np.asarray(np.sqrt(np.maximum(robust, 0)))
