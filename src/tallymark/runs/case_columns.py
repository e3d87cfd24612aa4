"""The counts of a run's cases as columns, and the names of a formula as sums over them.

An eval that the formula names is a question of its own and not one of many: its cases are a stratum
apart, and all cases that it does not name are another.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias

import numpy as np

from tallymark.formula import MORE_METRICS, RUN_METRICS
from tallymark.runs.tally import (
    MEASURES,
    Amounts,
    CaseCounts,
    Counts,
    Epochs,
    Seen,
    add_up,
    eval_of,
    split_scorer_name,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

Array: TypeAlias = "NDArray[np.float64]"
Rows: TypeAlias = "NDArray[np.intp]"
PASSED = "passed"
ERRORS = "errors"
"""Over all results, including those that did not run."""
TOKENS = ("input_tokens", "output_tokens")
AMOUNTS = (*MEASURES, "judge_cost", *TOKENS, "total_tokens")
"""Quantities that have no upper end; the others are shares between 0 and 1."""
EXTREMES = {"max": 100.0, "min": 0.0, "p50": 50.0, "p90": 90.0, "p95": 95.0, "p99": 99.0}
"""Statistics that sums cannot give, such as percentiles."""


_SCORED = "scored "
"""Before the name of a scorer that a quantity has too, such as `latency`."""
_OF_SCORERS: dict[str, Any] = {"median": "p50", "p90": "p90", "passed": "reached"}


class Column(NamedTuple):
    """One quantity of every case, added up over its results."""

    totals: Array
    weights: Array
    """Number of results."""
    known: Array
    """Number of results with a value; None where all have one."""
    squares: Array
    """The sum of squares."""
    highest: Array
    lowest: Array


_FIELDS = ("total", "known", "known", "squares", "high", "low")
"""The case of each added amount."""


class Metric(NamedTuple):
    """A name that a formula may use, as a statistic of a quantity."""

    statistic: Literal["mean", "total", "max", "min", "p50", "p90", "p95", "p99", "reached"]
    quantity: str
    named: str | None = None
    """The eval that it is of; None for the whole run."""
    factor: float = 1.0


class Sums(Protocol):
    """Values of a quantity in each draw or swap of a run."""

    def add_up(self, quantity: str, named: str | None) -> tuple[Array, Array]:
        """The totals and the weights, of an eval or of the whole run; NaN where not known."""
        ...

    def find_extreme(self, quantity: str, statistic: str) -> Array:
        """The highest or the lowest result, or a percentile."""
        ...


class CaseTable:
    """Cases as rows. A column is built once for all formulas that use it."""

    def __init__(self, cases: Iterable[tuple[str, CaseCounts]]) -> None:
        self._names: list[str] = []
        self._counts: list[CaseCounts] = []
        for name, counts in cases:
            self._names.append(name)
            self._counts.append(counts)
        self._columns: dict[str, Column] = {}

    def __len__(self) -> int:
        return len(self._names)

    @cached_property
    def evals(self) -> list[str | None]:
        """The eval of each row."""
        known: dict[str | None, str | None] = {}  # a name once, however many rows it has
        names = map(eval_of, self._names)
        return [known.setdefault(name, name) for name in names]

    @cached_property
    def scorers(self) -> set[str]:
        """All that measured something."""
        return {
            name
            for counts in self._counts
            for name in (counts.scorers if isinstance(counts, Seen) else _list_scorers(counts))
        }

    def pick(self, rows: Rows) -> CaseTable:
        """Some of the rows."""
        if len(rows) == len(self):
            return self
        return CaseTable((self._names[row], self._counts[row]) for row in rows)

    def group_rows(self, named: Collection[str | None]) -> dict[str | None, Rows]:
        """The rows of each eval that is named, and those of all others."""
        if not named:
            return {None: np.arange(len(self))} if len(self) else {}
        groups: dict[str | None, list[int]] = {}
        for row, each in enumerate(self.evals):
            groups.setdefault(each if each in named else None, []).append(row)
        return {name: np.array(found, dtype=np.intp) for name, found in groups.items()}

    def __getitem__(self, quantity: str) -> Column:
        if quantity not in self._columns:
            self._columns[quantity] = self._make_column(quantity)
        return self._columns[quantity]

    @cached_property
    def _ran(self) -> Array:
        return _make_array([each.ran for each in self._counts])

    def _make_column(self, quantity: str) -> Column:
        counts, ran = self._counts, self._ran
        if quantity == PASSED:
            passed = _make_array([each.passed for each in counts])
            return Column(passed, ran, ran, passed, passed, passed)
        if quantity == ERRORS:
            results = _make_array([each.results for each in counts])
            return Column(results - ran, results, results, results - ran, ran, ran)
        if quantity == "total_tokens":
            sent, answered = (self[kind] for kind in TOKENS)
            # Of a sum only this much is known of its squares: they are at most these.
            squares = (np.sqrt(sent.squares) + np.sqrt(answered.squares)) ** 2
            known = np.minimum(sent.known, answered.known)
            return Column(sent.totals + answered.totals, ran, known, squares, ran, ran)
        if quantity not in AMOUNTS:
            scorer = quantity.removeprefix(_SCORED)
            return _stack_amounts([_find_measured(each, scorer) for each in counts])
        attribute = "judges" if quantity == "judge_cost" else quantity
        amounts = _stack_amounts([_find_amount(each, attribute) for each in counts])
        asked = _make_array([each.results for each in counts]) if attribute == "judges" else ran
        return amounts._replace(weights=asked)


class CaseColumns:
    """A table as one formula sees it: the strata that its rows fall into."""

    def __init__(
        self, table: CaseTable, names: Iterable[str], known: Mapping[str, Metric] | None = None
    ) -> None:
        """Names are looked up among the evals and scorers of the table, unless they are `known`."""
        self.table = table
        evals, known = set(table.evals), known or {}
        self.metrics = {
            name: known.get(name) or find_metric(name, evals, table.scorers) for name in names
        }
        named = {metric.named for metric in self.metrics.values()}
        self.strata = table.group_rows(named - {None})
        self.run_wide = None in named

    def __len__(self) -> int:
        return len(self.table)

    def __getitem__(self, quantity: str) -> Column:
        return self.table[quantity]

    @property
    def quantities(self) -> list[str]:
        """All that the formula depends on, sorted."""
        return sorted({metric.quantity for metric in self.metrics.values()})

    @property
    def relevant(self) -> Rows:
        """The rows that the formula depends on."""
        picked = [rows for name, rows in self.strata.items() if name is not None or self.run_wide]
        return np.sort(np.concatenate(picked)) if picked else np.array([], dtype=np.intp)


def _list_scorers(counts: Counts | Epochs) -> Iterable[str]:
    if isinstance(counts, Counts):
        return counts.scores
    return chain.from_iterable(seen.scorers for seen in counts.seen)


def _find_amount(counts: CaseCounts, attribute: str) -> Amounts | float | None:
    if not isinstance(counts, Epochs):
        found: Amounts | float | None = getattr(counts, attribute)
        return found
    known = [getattr(seen, attribute) for seen in counts.seen]
    return add_up([value for value in known if value is not None])


def _find_measured(counts: CaseCounts, scorer: str) -> Amounts | float | None:
    if isinstance(counts, Counts):
        return counts.scores.get(scorer)
    if isinstance(counts, Seen) and counts.scorers.count(scorer) == 1:  # as nearly always
        return counts.values[counts.scorers.index(scorer)]
    values = [
        value
        for seen in (counts.seen if isinstance(counts, Epochs) else (counts,))
        for name, value in zip(seen.scorers, seen.values, strict=True)
        if name == scorer
    ]
    # One result may have several: an alternative of an `or` may have the name of another check.
    return add_up(values) if len(values) > 1 else values[0] if values else None


def _stack_amounts(amounts: Sequence[Amounts | float | None]) -> Column:
    """Sums or single values of each case, weighted by the number of known ones."""
    if set(map(type, amounts)) <= {float, int}:  # one value each: its own highest and lowest
        totals, known = _make_array(amounts), np.ones(len(amounts))
        return Column(totals, known, known, totals * totals, totals, totals)
    sums = [row for row, each in enumerate(amounts) if isinstance(each, Amounts)]
    known = _make_array([each is not None for each in amounts])
    values = list(amounts)
    for row in sums:
        values[row] = None
    totals = _make_array([0.0 if each is None else each for each in values])
    highest, lowest = (np.where(known, totals, end) for end in (-np.inf, np.inf))
    found = Column(totals, known, known, totals * totals, highest, lowest)
    for column, field in zip(found, _FIELDS, strict=True):
        column[sums] = [getattr(amounts[row], field) for row in sums]
    return found


def _make_array(values: Sequence[Any]) -> Array:
    return np.array(values, dtype=np.float64)


def find_metric(name: str, evals: Collection[str | None], scorers: Collection[str] = ()) -> Metric:
    """The meaning of a name in a formula."""
    if name == "success_pct":
        return Metric("mean", PASSED, factor=100.0)
    if name in RUN_METRICS:
        statistic, _, measure = name.partition("_")
        known: Any = "mean" if statistic == "avg" else statistic
        return Metric(known, measure)
    if name in evals:
        return Metric("mean", PASSED, name)
    for measure in MEASURES:
        named = name.removesuffix(f"_{measure}")
        if named != name and named in evals:
            return Metric("mean", measure, named)
    scorer, end = split_scorer_name(name, scorers)
    if end:
        return Metric(_OF_SCORERS[end], _name_measured(scorer))
    if name not in MORE_METRICS or name in scorers:
        return mean_of_scorer(name)
    statistic, _, measure = name.partition("_")
    if measure == "latency":
        percentile: Any = statistic
        return Metric(percentile, measure)
    return Metric("mean", ERRORS, factor=100.0) if name == "error_pct" else Metric("total", name)


def mean_of_scorer(scorer: str) -> Metric:
    """The mean of what a scorer measured."""
    return Metric("mean", _name_measured(scorer))


def _name_measured(scorer: str) -> str:
    """The quantity that a scorer measures; several have names that a run's own have too."""
    return f"{_SCORED}{scorer}" if scorer in (PASSED, ERRORS, *AMOUNTS) else scorer


def evaluate_metrics(metrics: Mapping[str, Metric], sums: Sums) -> dict[str, Array]:
    """Every name of a formula as a column of values; NaN where it is not known."""
    found = {}
    with np.errstate(all="ignore"):
        for name, (statistic, quantity, named, factor) in metrics.items():
            totals, weights = sums.add_up(quantity, named)
            if statistic in EXTREMES:
                totals = np.where(np.isnan(totals), totals, sums.find_extreme(quantity, statistic))
            elif statistic == "mean":
                totals = factor * totals / weights
            elif statistic == "reached":  # of which case by case nothing is known
                totals = np.full_like(totals, np.nan)
            found[name] = totals
    return found
