"""Monte Carlo draws of a run's long-run metrics, on which every interval is based.

Metrics are drawn, not cases, because a case that always passed may still fail, and a single result
of an eval is subject to chance too. The parts are from the literature:

- A share has the quantiles of Beta distributions, which are the exact binomial limits: mid-p
  where results differ, Clopper and Pearson's where all are alike. Cases with epochs count as their
  effective number of results (Korn and Graubard 1998).
- A mean cost or latency is its value times the exponential of Student's t: skewed, never negative.
  A few cases of a skewed cost show too little of its spread, so their error is at least that of a
  lognormal sample. Spread that a single case cannot show is taken from all cases.
- Shares and amounts of one run are correlated as they are over its cases (Iman and Conover 1982).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.random import Generator

from tallymark.runs.case_columns import (
    AMOUNTS,
    PASSED,
    Array,
    CaseColumns,
    Column,
    Rows,
    evaluate_metrics,
)
from tallymark.runs.statistics import student_t

if TYPE_CHECKING:
    from tallymark.formula import Formula

Z95 = 1.959963984540054
_FADE = 20
"""Up to this number of cases, the error of an amount is at least that of a lognormal sample."""
_MOST_SPREAD = 4.0
"""Upper limit of the variance of logarithms; above it, a mean is meaningless anyway."""
_FURTHEST = 30.0
_GRID = 2001
"""Points at which the density of a share is added up."""
_STEPS = np.append(np.geomspace(1e-7, 1400.0, 400), np.inf)
"""Distance from the middle at which to look for values that no draw reaches."""

Edge = tuple[str | None, str]
"""A stratum and a share of it, of which all results are 0, or all 1."""


class MetricDraws:
    """One run in many draws."""

    def __init__(self, columns: CaseColumns, normals: Sequence[Array], rng: Generator) -> None:
        self.edges: dict[Edge, float] = {}
        self._columns = columns
        self._means: dict[Edge, Array] = {}
        for (name, rows), z in zip(columns.strata.items(), normals, strict=True):
            for at, quantity in enumerate(columns.quantities):
                column, here = columns[quantity], (name, quantity)
                if quantity in AMOUNTS:
                    self._means[here] = _draw_mean(column, rows, z[:, at], rng)
                    continue
                binary = quantity == PASSED
                drawn, edge = _draw_share(column, rows, z[:, at], binary=binary)
                self._means[here] = drawn
                if edge is not None:
                    self.edges[here] = edge

    def evaluate(self, formula: Formula, at_edge: Collection[Edge], most: int) -> Array:
        """The formula in the first draws; shares that are `at_edge` keep the value they have."""
        sums = _DrawnSums(self._columns, self._means, self.edges, at_edge, most)
        return formula.evaluate_many(evaluate_metrics(self._columns.metrics, sums)).values

    def find_pulls(self, formula: Formula) -> dict[Edge, float]:
        """By how much the score moves when a share leaves its edge for what was drawn of it."""
        rows = len(self.edges) + 1
        means = {here: np.full(rows, find_quantile(z, 0.5)) for here, z in self._means.items()}
        for at, (here, edge) in enumerate(self.edges.items()):
            moved = means[here][0]
            means[here][:] = edge
            means[here][at + 1] = moved
        sums = _DrawnSums(self._columns, means, self.edges, (), rows)
        scores = formula.evaluate_many(evaluate_metrics(self._columns.metrics, sums)).values
        return dict(zip(self.edges, (scores[1:] - scores[0]).tolist(), strict=True))


class _DrawnSums(NamedTuple):
    columns: CaseColumns
    means: Mapping[Edge, Array]
    edges: Mapping[Edge, float]
    at_edge: Collection[Edge]
    most: int

    def add_up(self, quantity: str, named: str | None) -> tuple[Array, Array]:
        """The long-run totals of as many results as the run has."""
        column, strata = self.columns[quantity], self.columns.strata
        totals, weight = np.zeros(self.most), 0.0
        for name in strata if named is None else (named,):
            rows, here = strata[name], (name, quantity)
            size = column.weights[rows].sum()
            if size:
                kept = here in self.at_edge
                totals += size * (self.edges[here] if kept else self.means[here][: self.most])
                weight += size
            if (column.known[rows] != column.weights[rows]).any():
                totals += math.nan
        return _round_totals(totals), np.full(self.most, weight)

    def find_extreme(self, quantity: str, statistic: str) -> Array:
        raise AssertionError(f"the {statistic} of {quantity} has no interval")


def _draw_share(
    column: Column, rows: Rows, z: Array, *, binary: bool
) -> tuple[Array, float | None]:
    """Possible values of a share in the order of `z`, and its edge (0 or 1) if all results agree.

    One unseen result is added: a fair coin if there are passes and failures, otherwise the
    opposite of the others.
    """
    totals, weights = _keep_measured(column, rows)
    if not len(totals):
        return np.full(len(z), math.nan), None
    share = totals.sum() / weights.sum()
    edge = float(share) if share in (0.0, 1.0) else None
    worth = effective_size(totals, weights, binary=binary)
    places = (np.arange(len(z)) + 0.5) / len(z)
    if edge is None:
        found = _find_share_quantiles(worth * share, worth * (1 - share), places)
    else:
        found = places ** (1 / worth) if edge else 1 - (1 - places) ** (1 / worth)
    out = np.empty_like(found)
    out[np.argsort(z)] = found
    return out, edge


def _find_share_quantiles(yes: float, no: float, places: Array) -> Array:
    """Quantiles of Beta(yes + 1, no) and Beta(yes, no + 1) in equal parts: the mid-p limits.

    Evenly placed, not drawn at random: of 2,000 random ones the ends scatter by a point and more.
    The density is added up over the log odds, where it is smooth and falls off by `yes` and `no`.
    """

    def find_log_density(odds: Array) -> Array:
        inside, outside = -np.logaddexp(0.0, -odds), -np.logaddexp(0.0, odds)
        either = np.logaddexp(inside - math.log(yes), outside - math.log(no))
        return np.asarray(yes * inside + no * outside + either)

    centre = math.log(yes / no)
    top = find_log_density(np.array([centre]))[0]
    low, high = (
        float(np.clip(away[np.argmax(find_log_density(away) < top - 16)], -700, 700))
        for away in (centre - _STEPS, centre + _STEPS)
    )
    odds = np.linspace(low, high, _GRID)
    density = np.exp(find_log_density(odds) - top)
    between = (density[1:] + density[:-1]) / 2 * (odds[1] - odds[0])
    mass = np.concatenate([[0.0], np.cumsum(between)]) + density[0] / yes
    found = np.interp(places * (mass[-1] + density[-1] / no), mass, odds)
    return np.asarray(1 / (1 + np.exp(-found)))


def effective_size(totals: Array, weights: Array, *, binary: bool = True) -> float:
    """Effective number of independent results (Korn and Graubard 1998)."""
    cases, results = len(totals), float(weights.sum())
    share = totals.sum() / results
    if cases == 1:
        return results
    if share in (0.0, 1.0):
        return float(cases)
    # A scorer's values may be closer together than any coin's. Still, one more may be anything.
    most = results if binary else max(results, (cases + 1.0) ** 2)
    square = _square_error(totals, weights)
    if square == 0:
        return most
    worth = share * (1 - share) / square * (Z95 / student_t(cases - 1)) ** 2
    return float(np.clip(worth, cases, most))


def _square_error(totals: Array, weights: Array) -> float:
    """The squared standard error of a mean over cases that each have several results."""
    cases, results = len(totals), weights.sum()
    residues = totals - totals.sum() / results * weights
    return float(cases / (cases - 1) * (residues**2).sum() / results**2)


def _draw_mean(column: Column, rows: Rows, z: Array, rng: Generator) -> Array:
    """Draws of a mean amount."""
    totals, weights = _keep_measured(column, rows)
    if not len(totals):
        return np.full(len(z), math.nan)
    mean = totals.sum() / weights.sum()
    if mean == 0:
        return np.zeros(len(z))
    if len(totals) == 1:
        spread, degrees = _pool_spread(column)
        square = spread / weights[0]
    else:
        square, degrees = _relative_square(totals, weights), len(totals) - 1
    if not degrees:
        return np.full(len(z), math.nan)
    stretch = np.sqrt(degrees / rng.chisquare(degrees, len(z)))  # from the normal to Student's t
    reach = np.clip(math.sqrt(square) * z * stretch, -_FURTHEST, _FURTHEST)
    return np.asarray(mean * np.exp(reach))


def _relative_square(totals: Array, weights: Array) -> float:
    """The squared standard error of a mean over its square."""
    cases, mean = len(totals), totals.sum() / weights.sum()
    square = _square_error(totals, weights) / mean**2
    if (totals > 0).all():
        lognormal = _spread_over(totals / weights) / cases
        square += max(0.0, lognormal - square) * min(1.0, _FADE / cases)
    return float(square)


def _spread_over(values: Array) -> float:
    """The squared coefficient of variation of a lognormal that scatters like these."""
    return math.expm1(min(float(np.log(values).var(ddof=1)), _MOST_SPREAD))


def _pool_spread(column: Column) -> tuple[float, int]:
    """Relative scatter of the results of one case, and the number of cases it is known from.

    Without epochs, it is the scatter between cases, which is larger.
    """
    totals, weights, _, squares, *_ = column
    several = (weights > 1) & (totals > 0)
    if several.any():
        count, total = weights[several], totals[several]
        degrees = count - 1
        scatter = np.maximum(squares[several] - total**2 / count, 0.0) / degrees
        relative = scatter / (total / count) ** 2
        spread = float((degrees * relative).sum() / degrees.sum())
        return min(spread, math.expm1(_MOST_SPREAD)), int(degrees.sum())
    positive = totals[totals > 0]
    if len(positive) < 2:
        return math.nan, 0
    return _spread_over(positive), len(positive) - 1


def find_quantile(values: Array, share: float) -> float:
    """`np.quantile` by Hazen's method, which preserves evenly placed quantiles.

    numpy's own loads masked arrays first, which takes longer than all the draws.
    """
    ordered = np.sort(values)
    place = min(max(share * len(ordered) - 0.5, 0.0), len(ordered) - 1.0)
    below = int(place)
    low, high = float(ordered[below]), float(ordered[min(below + 1, len(ordered) - 1)])
    rest = place - below
    return high - (high - low) * (1 - rest) if rest >= 0.5 else low + (high - low) * rest


def _round_totals(totals: Array) -> Array:
    """To the 15 digits that a run's own totals have, so that three times 0.1 is 0.3 here too."""
    sizes = np.abs(totals)
    plain = (sizes > 1e-100) & (sizes < 1e100)
    scales = 10.0 ** (14 - np.floor(np.log10(np.where(plain, sizes, 1.0))))
    return np.where(plain, np.rint(totals * scales) / scales, totals)


def _keep_measured(column: Column, rows: Rows) -> tuple[Array, Array]:
    """The cases of a stratum that were measured at all."""
    totals, weights = column.totals[rows], column.weights[rows]
    measured = weights > 0
    return totals[measured], weights[measured]


def draw_normals(columns: CaseColumns, draws: int, rng: Generator) -> list[Array]:
    """For each stratum, normals that go together as its quantities do."""
    return [_correlate(_case_means(columns, rows), draws, rng) for rows in columns.strata.values()]


def draw_joint_normals(
    first: CaseColumns, second: CaseColumns, draws: int, rng: Generator
) -> tuple[list[Array], list[Array]]:
    """Draws for two runs over the same cases, whose difficulty is shared."""
    width = len(first.quantities)
    passed = first.quantities.index(PASSED) if PASSED in first.quantities else None
    sides: tuple[list[Array], list[Array]] = ([], [])
    for rows in first.strata.values():
        means = np.hstack([_case_means(first, rows), _case_means(second, rows)])
        both = _correlate(means, draws, rng, None if passed is None else (passed, passed + width))
        sides[0].append(both[:, :width])
        sides[1].append(both[:, width:])
    return sides


def _case_means(columns: CaseColumns, rows: Rows) -> Array:
    """Each quantity by case; the mean where it was not measured, which adds no information."""
    found = []
    for quantity in columns.quantities:
        column = columns[quantity]
        totals, weights = column.totals[rows], column.weights[rows]
        mean = totals.sum() / max(weights.sum(), 1.0)
        found.append(np.where(weights > 0, totals / np.maximum(weights, 1.0), mean))
    return np.column_stack(found)


def _correlate(
    means: Array, draws: int, rng: Generator, twins: tuple[int, int] | None = None
) -> Array:
    """Normals with the correlations of some columns. `twins` are the passes of two runs."""
    centred = means - means.mean(axis=0)
    norms = np.sqrt((centred**2).sum(axis=0))
    norms[norms <= 1e-12 * np.abs(means).max(axis=0, initial=1e-300)] = np.inf
    matrix = (centred / norms).T @ (centred / norms)
    np.fill_diagonal(matrix, 1.0)
    if twins is not None:
        # As if one more case had passed in one run only: runs that agree on all are no certainty.
        one, two = twins
        product = max(means[:, one].std() * means[:, two].std(), 1e-9)
        alike = matrix[one, two]
        less = max(min(alike, 0.0), alike - 0.5 / product / (len(means) + 1))
        matrix[one, two] = matrix[two, one] = less
    values, vectors = np.linalg.eigh(matrix)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    return np.asarray(rng.standard_normal((draws, len(matrix))) @ root.T)
