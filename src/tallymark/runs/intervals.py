"""How sure a score is: intervals by resampling cases, and differences between two runs.

Bootstrap (Efron and Tibshirani 1993, chapter 13): cases are drawn with replacement, each with all
its epochs, and the formula is evaluated on every draw. The interval is the expanded percentile one
(Hesterberg 2015, "What Teachers Should Know About the Bootstrap"), which is wide enough for small
suites too. An eval that the formula names is a question of its own and not one of many: its cases
are drawn among themselves, and of one that has a single case the epochs are drawn, so that an eval
with a single result stays as it is.

The p-value of a difference is that of a permutation test: under the hypothesis that the two runs
are alike, the results of a case could as well have been swapped between them.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import msgspec
import numpy as np

from tallymark.formula import RUN_METRICS, Formula
from tallymark.runs.statistics import student_t
from tallymark.runs.tally import MEASURES, Amounts, Counts, Tally, eval_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

Array: TypeAlias = "NDArray[np.float64]"
Rows: TypeAlias = "NDArray[np.intp]"
DRAWS = 2000
_CELLS = 1_000_000
"""Draws times cases held in memory at once; all in all four times that, or 200 draws."""
_ROUNDING = 1e-9
"""Sums in another order differ by less than this, relative to the scores."""


class Interval(msgspec.Struct, frozen=True):
    """Between which values something lies with 95 % confidence."""

    low: float
    high: float


class Difference(msgspec.Struct, frozen=True):
    """One score less another, over the cases that both runs have."""

    value: float | None = None
    interval: Interval | None = None
    p_value: float | None = None


class _CaseTable:
    """The counts of some cases as columns; those of two runs stand one below the other."""

    def __init__(self, cases: Sequence[Counts], scorers: Iterable[str]) -> None:
        self._columns = {
            "results": _make_column([c.results for c in cases]),
            "judge_cost": _make_column([c.judges.total for c in cases]),
            "judge_cost known": _make_column([c.judges.known for c in cases]),
            "ran": _make_column([c.ran for c in cases]),
            "passed": _make_column([c.passed for c in cases]),
        }
        for measure in MEASURES:
            amounts: list[Amounts] = [getattr(c, measure) for c in cases]
            self._columns[measure] = _make_column([each.total for each in amounts])
            self._columns[f"{measure} known"] = _make_column([each.known for each in amounts])
            self._columns[f"max_{measure}"] = _make_column([each.high for each in amounts])
            self._columns[f"min_{measure}"] = _make_column([each.low for each in amounts])
        for name in scorers:
            scores = [c.scores.get(name) for c in cases]
            self._columns[f"{name} total"] = _make_column([s.total if s else 0.0 for s in scores])
            self._columns[f"{name} scored"] = _make_column([s.known if s else 0 for s in scores])
        self._unknown = np.full(len(cases), np.nan)

    def __getitem__(self, key: str) -> Array:
        """A column; one of NaN for a name that nothing is known of."""
        return self._columns.get(key, self._unknown)


def _make_column(values: list[Any]) -> Array:
    return np.array(values, dtype=np.float64)


class _Strata:
    """The groups that cases are drawn in: each eval that the formula names, and all the others."""

    def __init__(self, names: Sequence[str], cases: Sequence[str]) -> None:
        evals = [eval_of(case) for case in cases]
        self.size = len(cases)
        known = set(evals)
        named = {_find_eval(name, known) for name in names}
        groups: dict[str | None, list[int]] = {}
        for row, each in enumerate(evals):
            groups.setdefault(each if each in named else None, []).append(row)
        self.rows: dict[str | None, Rows] = {
            name: np.array(rows, dtype=np.intp) for name, rows in groups.items()
        }
        self.lone = [rows[0] for rows in groups.values() if len(rows) == 1]
        """Cases that no other could be drawn for."""
        self.matters = [rows for name, rows in groups.items() if name in named]
        """The groups that the formula depends on; None among the names is a run-wide one."""

    def units(self, table: _CaseTable) -> int:
        """How many things are drawn: cases, and epochs of a case that stands alone."""
        count = 0
        for rows in self.matters:
            epochs = int(table["ran"][rows[0] :: self.size].max())
            count += len(rows) if len(rows) > 1 else epochs if epochs > 1 else 0
        return count

    def draw(self, rng: np.random.Generator, draws: int) -> Rows:
        """Which case stands in the place of which, in each draw."""
        if len(self.rows) == 1:
            return rng.integers(0, self.size, size=(draws, self.size), dtype=np.intp)
        picked = np.empty((draws, self.size), dtype=np.intp)
        for rows in self.rows.values():
            picked[:, rows] = rows[rng.integers(0, len(rows), size=(draws, len(rows)))]
        return picked


def _find_eval(name: str, evals: Collection[str | None]) -> str | None:
    """The eval that a formula's name speaks of: itself, its latency or its cost."""
    if name in RUN_METRICS:
        return None
    bare = (name.removesuffix(f"_{measure}") for measure in MEASURES)
    return next((each for each in (name, *bare) if each in evals), None)


class _Draws:
    """One run in many draws: every name of a formula becomes a column of values."""

    def __init__(self, table: _CaseTable, strata: _Strata, picked: Rows) -> None:
        self.table = table
        self.strata = strata
        self.picked = picked
        """The row of the table that stands in the place of each case: draws by cases."""
        self.luck: dict[int, Array] = {}
        self.totals: dict[tuple[str, str | None], Array] = {}

    def draw_epochs(self, rng: np.random.Generator) -> Self:
        """Lets more or fewer epochs pass of the cases that stand alone."""
        for row in self.strata.lone:
            at = self.picked[0, row]
            ran, passed = self.table["ran"][at], self.table["passed"][at]
            if ran > 1:
                again = rng.binomial(int(ran), passed / ran, len(self.picked))
                self.luck[row] = again - passed
        return self

    def scores(self, formula: Formula) -> Array:
        """The formula's value in each draw, NaN where it is undefined."""
        with np.errstate(all="ignore"):
            columns = {name: self.column(name) for name in formula.names}
        return formula.evaluate_many(columns or {"none": self.total("ran")}).values

    def column(self, name: str) -> Array:
        """The values of one name that a formula may use; NaN where it is not known."""
        if name == "success_pct":
            return 100.0 * self.total("passed") / self.total("ran")
        if name == "judge_cost":
            known = self.total("judge_cost known") == self.total("results")
            return np.where(known, self.total("judge_cost"), np.nan)
        statistic, _, measure = name.partition("_")
        if name in RUN_METRICS:
            return self.hide_unknown(measure, self.statistic(statistic, measure))
        named = _find_eval(name, self.strata.rows)
        if named is None:
            return self.total(f"{name} total") / self.total(f"{name} scored")
        if named == name:
            return self.total("passed", name) / self.total("ran", name)
        measure = name.removeprefix(f"{named}_")
        mean = self.total(measure, named) / self.total("ran", named)
        return self.hide_unknown(measure, mean, named)

    def statistic(self, statistic: str, measure: str) -> Array:
        match statistic:
            case "max":
                return np.asarray(self.table[f"max_{measure}"][self.picked].max(axis=1))
            case "min":
                return np.asarray(self.table[f"min_{measure}"][self.picked].min(axis=1))
            case "avg":
                return self.total(measure) / self.total("ran")
            case _:
                return self.total(measure)

    def hide_unknown(self, measure: str, values: Array, named: str | None = None) -> Array:
        known = self.total(f"{measure} known", named) == self.total("ran", named)
        return np.where(known, values, np.nan)

    def total(self, key: str, named: str | None = None) -> Array:
        """A column's sum over the cases of one eval, or over all."""
        if (key, named) not in self.totals:
            found = self.sum(self.table[key], named)
            if key == "passed":
                rows = self.strata.lone if named is None else self.strata.rows[named]
                found = found + sum(self.luck.get(row, 0.0) for row in rows)
            self.totals[key, named] = found
        return self.totals[key, named]

    def sum(self, column: Array, named: str | None) -> Array:
        picked = self.picked if named is None else self.picked[:, self.strata.rows[named]]
        if (column == column[0]).all():  # such as: each case ran once
            return np.full(len(picked), column[0] * picked.shape[1])
        return np.asarray(column[picked].sum(axis=1))


def score_interval(formula: Formula, tally: Tally, *, seed: int = 0) -> Interval | None:
    """The 95 % interval of a run's score; None when the cases cannot tell."""
    counted = tally.cases
    # Sorted: the same results in another order of arrival have the same interval.
    cases = sorted(case for case, counts in counted.items() if counts.ran)
    table = _CaseTable([counted[case] for case in cases], tally.scorers)
    strata = _Strata(formula.names, cases)
    units = strata.units(table)
    if units < 2:
        return None
    rng = np.random.default_rng(seed)
    found = [
        _Draws(table, strata, strata.draw(rng, draws)).draw_epochs(rng).scores(formula)
        for draws in _plan_blocks(len(cases))
    ]
    interval = _find_interval(np.concatenate(found), units)
    return None if interval is None or _is_point(interval) else interval


def score_difference(formula: Formula, first: Tally, second: Tally, *, seed: int = 0) -> Difference:
    """The second run's score less the first one's, over the cases that both have run."""
    one, two = first.cases, second.cases
    shared = sorted(case for case in one if one[case].ran and case in two and two[case].ran)
    if not shared:
        return Difference()
    pair = _RunPair(formula, first, second, shared)
    before, now = (float(scores[0]) for scores in pair.scores(pair.itself))
    if math.isnan(before) or math.isnan(now):
        return Difference()
    rng = np.random.default_rng(seed)
    drawn, swapped = list[Array](), list[Array]()
    for draws in _plan_blocks(len(shared)):
        drawn.append(pair.draw_differences(rng, draws))
        swapped.append(pair.swap_differences(rng, draws))
    units = pair.strata.units(pair.table)
    interval = _find_interval(np.concatenate(drawn), units) if units > 1 else None
    least = abs(now - before) - _ROUNDING * max(abs(before), abs(now))
    return Difference(now - before, interval, _p_value(np.concatenate(swapped), least))


class _RunPair:
    """Two runs over the cases that both ran, the second below the first in one table."""

    def __init__(self, formula: Formula, first: Tally, second: Tally, shared: list[str]) -> None:
        counts = [cases[case] for cases in (first.cases, second.cases) for case in shared]
        self.formula = formula
        self.table = _CaseTable(counts, {*first.scorers, *second.scorers})
        self.strata = _Strata(formula.names, shared)
        self.size = len(shared)
        self.itself = np.arange(self.size)[None, :]

    def scores(self, rows: Rows, rng: np.random.Generator | None = None) -> tuple[Array, Array]:
        """Both runs' scores when these rows stand for the first, and their twins for the second."""
        sides = (rows, (rows + self.size) % (2 * self.size))
        first, second = (_Draws(self.table, self.strata, side) for side in sides)
        if rng is not None:
            first.draw_epochs(rng)
            second.draw_epochs(rng)
        return first.scores(self.formula), second.scores(self.formula)

    def draw_differences(self, rng: np.random.Generator, draws: int) -> Array:
        """Differences over cases drawn with replacement, the same in both runs."""
        first, second = self.scores(self.strata.draw(rng, draws), rng)
        return second - first

    def swap_differences(self, rng: np.random.Generator, draws: int) -> Array:
        """Differences when the results of about half the cases change sides."""
        # Drawn as bytes, which need an eighth of the memory; made rows by a number that is wide
        # enough, since bytes times a plain int would stay bytes and overflow.
        side = rng.integers(0, 2, (draws, self.size), dtype=np.uint8)
        first, second = self.scores(self.itself + side * np.intp(self.size))
        return second - first


def _plan_blocks(cases: int) -> list[int]:
    """How many draws to make at a time; fewer in all where there are very many cases."""
    wanted = max(200, min(DRAWS, 4 * _CELLS // cases))
    at_once = max(1, min(wanted, _CELLS // cases))
    return [min(at_once, wanted - done) for done in range(0, wanted, at_once)]


def _find_interval(scores: Array, units: int) -> Interval | None:
    """The middle of the scores that are defined, if nearly all of them are."""
    defined = scores[~np.isnan(scores)]
    if len(defined) < 0.95 * len(scores):
        return None
    # Plain percentiles are too narrow for few units: the bootstrap divides by n, not n - 1, and
    # takes the normal's tails for Student's. So both are made good before the tail is read off.
    reach = student_t(units - 1) * math.sqrt(units / (units - 1))
    tail = math.erfc(reach / math.sqrt(2)) / 2
    low, high = np.quantile(defined, [tail, 1 - tail])
    return Interval(float(low), float(high))


def _p_value(swapped: Array, least: float) -> float | None:
    """How often chance alone differs at least so much, if it nearly always gives a score."""
    defined = swapped[~np.isnan(swapped)]
    if len(defined) < 0.95 * len(swapped):
        return None
    # The runs as they are count as one of the swaps: chance alone never has a p-value of zero.
    return float(np.sum(np.abs(defined) >= least) + 1) / (len(defined) + 1)


def _is_point(ends: Interval) -> bool:
    return ends.high - ends.low <= _ROUNDING * max(abs(ends.low), abs(ends.high))
