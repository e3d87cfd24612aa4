"""95 % confidence intervals of a run's score, and of the difference of two.

If the agent answered many new cases like these, with the same named evals, its long-run score would
be inside the interval in 95 of 100 repetitions. The metrics are drawn (`monte_carlo`), the
formula is evaluated on every draw, and the middle 95 % of the values is the interval.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.random import default_rng

from tallymark.formula import Formula, Names, Variable
from tallymark.runs.case_columns import (
    AMOUNTS,
    ERRORS,
    EXTREMES,
    Array,
    CaseColumns,
    CaseTable,
    mean_of_scorer,
)
from tallymark.runs.monte_carlo import MetricDraws, draw_joint_normals, draw_normals, find_quantile
from tallymark.runs.statistics import Interval, NoInterval
from tallymark.runs.tally import Tally

DRAWS = 2000
_MEAN = Formula.parse("mean", Names([Variable("mean")]))
_ROUNDING = 1e-9
"""Sums in another order differ by less than this, relative to the scores."""


def score_interval(
    formula: Formula, tally: Tally, *, seed: int = 0, draws: int = DRAWS
) -> Interval | NoInterval:
    """The 95 % interval of a run's score, or the reason why there is none."""
    return _draw_interval(formula, CaseColumns(_list_ran(tally), formula.names), seed, draws)


def scorer_intervals(
    tally: Tally, *, seed: int = 0, draws: int = DRAWS
) -> dict[str, Interval | NoInterval]:
    """The interval of each scorer's mean, as a formula of it alone has it."""
    table = _list_ran(tally)
    seen = {
        name: CaseColumns(table, ["mean"], {"mean": mean_of_scorer(name)}) for name in tally.scorers
    }
    return {name: _draw_interval(_MEAN, columns, seed, draws) for name, columns in seen.items()}


def _list_ran(tally: Tally) -> CaseTable:
    # Sorted: the same results in another order of arrival have the same interval.
    counted = tally.cases
    return CaseTable((case, counted[case]) for case in sorted(counted) if counted[case].ran)


def _draw_interval(
    formula: Formula, columns: CaseColumns, seed: int, draws: int
) -> Interval | NoInterval:
    if (refused := _refuse(columns)) is not None:
        return refused
    rng = default_rng(seed)
    drawn = MetricDraws(columns, draw_normals(columns, draws, rng), rng)
    return _find_ends(partial(drawn.evaluate, formula), drawn.find_pulls(formula), draws)


def difference_interval(
    formula: Formula,
    first: CaseTable,
    second: CaseTable,
    *,
    seed: int = 0,
    draws: int = DRAWS,
) -> Interval | NoInterval:
    """The 95 % interval of the second score less the first, over the same cases."""
    one, two = (CaseColumns(cases, formula.names) for cases in (first, second))
    for columns in (one, two):
        if (refused := _refuse(columns)) is not None:
            return refused
    rng = default_rng(seed)
    normals = draw_joint_normals(one, two, draws, rng)
    sides = [MetricDraws(each, z, rng) for each, z in zip((one, two), normals, strict=True)]

    def evaluate(at_edge: Collection[Any], most: int) -> Array:
        before, now = (
            drawn.evaluate(formula, {edge for side, edge in at_edge if side == at}, most)
            for at, drawn in enumerate(sides)
        )
        return np.asarray(now - before)

    first_pulls, second_pulls = (drawn.find_pulls(formula) for drawn in sides)
    pulls = {(0, edge): -pull for edge, pull in first_pulls.items()}
    pulls |= {(1, edge): pull for edge, pull in second_pulls.items()}
    scale = max(float(np.max(np.abs(each.evaluate(formula, (), 1)))) for each in sides)
    return _find_ends(evaluate, pulls, draws, scale)


def _refuse(columns: CaseColumns) -> NoInterval | None:
    """Intervals that need no draws."""
    if not len(columns):
        return NoInterval("no case ran")
    if not columns.metrics:
        return NoInterval("the formula does not depend on the results")
    for name, metric in columns.metrics.items():
        if metric.statistic in ("max", "min"):
            return NoInterval(f"{name} is an extreme, which depends on how many cases there are")
        if metric.statistic in EXTREMES:
            return NoInterval(f"{name} is a percentile, and none is known for those")
        if metric.statistic == "reached":
            return NoInterval(f"{name} counts what reaches a threshold, and none is known for that")
        if metric.quantity == ERRORS:
            return NoInterval(f"{name} describes the run, not the quality of the agent")
        if metric.quantity in AMOUNTS and columns[metric.quantity].weights.sum() < 2:
            what = metric.quantity.replace("_", " ")
            return NoInterval(f"one result cannot show how much the {what} varies")
    return None


def _find_ends(
    evaluate: Callable[[Collection[Any], int], Array],
    pulls: Mapping[Any, float],
    draws: int,
    scale: float = 0.0,
) -> Interval | NoInterval:
    """The middle of the scores, each end with the unseen results that reach furthest that way.

    A share of which all results are alike is drawn for the end to which that pulls the score, and
    stays at its edge for the other: a share of 1 cannot be higher. `scale` is how large the scores
    are, where only their difference is known.
    """
    low = {edge for edge, pull in pulls.items() if not pull < 0}
    high = {edge for edge, pull in pulls.items() if not pull > 0}
    ends = [evaluate(at_edge, draws) for at_edge in (low, high)]
    known = [scores[~np.isnan(scores)] for scores in ends]
    if min(map(len, known)) < 0.95 * draws:
        return NoInterval("the formula is undefined for much of what these results allow")
    found = Interval(find_quantile(known[0], 0.025), find_quantile(known[1], 0.975))
    if found.high - found.low <= _ROUNDING * max(abs(found.low), abs(found.high), scale):
        return NoInterval("the score does not change with the results")
    return found
