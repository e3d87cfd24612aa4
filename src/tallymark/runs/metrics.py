"""The run-wide metrics that formulas speak of, and the formula's score.

Latency is in seconds, cost in US dollars, `success_pct` from 0 to 100. When the cost (or the
duration) of one case is not known, no metric of cost (or latency) is: a total that leaves cases
out would look cheap.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import msgspec

from tallymark.errors import FormulaError
from tallymark.formula import RUN_METRICS, Formula, Names, Variable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tallymark.traces import Trace

MetricValues = dict[str, float | None]


def sum_spending(trace: Trace) -> tuple[float | None, int | None]:
    """A trace's cost and tokens in one pass over its spans; None where no span knows."""
    cost: float | None = None
    tokens: int | None = None
    for span in trace.spans:
        if span.cost is not None:
            cost = span.cost if cost is None else cost + span.cost
        if span.input_tokens is not None:
            tokens = span.input_tokens + (tokens or 0)
        if span.output_tokens is not None:
            tokens = span.output_tokens + (tokens or 0)
    return cost, tokens


class RunMetrics:
    """The metrics of the cases that were added."""

    def __init__(self) -> None:
        self.cases = 0
        self.judged = 0
        self.passed = 0
        self._latency = _MetricAmounts()
        self._cost = _MetricAmounts()
        self._measures = {"latency": self._latency, "cost": self._cost}

    def add(self, *, passed: bool | None, duration_ms: float, cost: float | None) -> None:
        """Take one case into account; a duration of 0 is one that nobody measured.

        `passed` is None for an error: it is neither a success nor a failure.
        """
        self.cases += 1
        if passed is not None:
            self.judged += 1
            self.passed += passed
        self._latency.add(duration_ms / 1000 if duration_ms > 0 else None)
        self._cost.add(cost)

    def values(self) -> MetricValues:
        """Every metric by its name; None where it is not known."""
        found: MetricValues = {
            "success_pct": 100 * self.passed / self.judged if self.judged else None,
        }
        for name, measure in self._measures.items():
            known = measure.count and not measure.unknown
            found |= {
                f"max_{name}": measure.high if known else None,
                f"min_{name}": measure.low if known else None,
                f"avg_{name}": measure.total / measure.count if known else None,
                f"total_{name}": measure.total if known else None,
            }
        return found

    def unknown(self, metric: str) -> str | None:
        """Why a metric has no value, in words; None when it has one."""
        measure = self._measures.get(metric.partition("_")[2])
        if measure is None or not measure.unknown:
            return None
        what = metric.partition("_")[2]
        return f"the {what} is not known for {measure.unknown:,} of {self.cases:,}"


class _MetricAmounts:
    __slots__ = ("count", "high", "low", "total", "unknown")

    def __init__(self) -> None:
        self.count = self.unknown = 0
        self.total = 0.0
        self.high = -math.inf
        self.low = math.inf

    def add(self, value: float | None) -> None:
        if value is None:
            self.unknown += 1
            return
        self.count += 1
        self.total += value
        self.high = max(self.high, value)
        self.low = min(self.low, value)


class FormulaScore(msgspec.Struct, frozen=True):
    """What a formula made of a run: a score, or the reason why there is none."""

    formula: str
    score: float | None
    error: str | None = None


def formula_facts(found: FormulaScore | None) -> dict[str, Any]:
    """For JSON documents; all null without a formula."""
    if found is None:
        return {"formula": None, "score": None, "score_error": None}
    return {"formula": found.formula, "score": found.score, "score_error": found.error}


def parse_formula(text: str, scorers: Iterable[str]) -> Formula:
    """A formula over the run-wide metrics and the scorers' names, which stand for their means."""
    names = list(scorers)
    Names.of(names)  # refuses names that formulas cannot use
    for name in names:
        if name in RUN_METRICS:
            hint = f'give it another name: {name}(name="...")'
            raise FormulaError(f"the scorer {name!r} has the name of a run-wide metric", hint=hint)
    means = [Variable(name, "eval", 0.0, 1.0) for name in names]
    return Formula.parse(text, Names([*RUN_METRICS.values(), *means]))


def apply_formula(
    formula: Formula, metrics: RunMetrics, means: Mapping[str, float | None]
) -> FormulaScore:
    """The formula's value for one run."""
    values = {**metrics.values(), **means}
    score = formula.evaluate(values)
    if score is not None:
        return FormulaScore(formula.text, score)
    why = [formula.reason(values) or "undefined"]
    why += [said for name in formula.names if (said := metrics.unknown(name)) is not None]
    return FormulaScore(formula.text, None, "; ".join(dict.fromkeys(why)))
