"""The numbers of a run, counted case by case: what formulas, intervals and comparisons start from.

Success is counted over the cases that ran; a case that could not run (an error) is counted apart.
When the cost or the latency of one case is not known, no metric of cost or latency is known: a
total that leaves cases out would look cheap.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import msgspec

from tallymark.formula import RUN_METRICS, Formula, Names, Variable
from tallymark.runs.metrics import FormulaScore, MetricValues
from tallymark.runs.record import CaseResult, CheckResult

MEASURES = ("latency", "cost")


class Amounts(msgspec.Struct, gc=False):
    """How many values there were, what they sum up to, and the lowest and highest of them."""

    known: int = 0
    total: float = 0.0
    low: float = math.inf
    high: float = -math.inf

    def add(self, value: float) -> None:
        """Takes one more value into account."""
        self.known += 1
        self.total += value
        # Quicker than min() and max(), which matters where it is done three times a case.
        if value < self.low:  # noqa: PLR1730
            self.low = value
        if value > self.high:  # noqa: PLR1730
            self.high = value


class Counts(msgspec.Struct, gc=False):
    """What was counted for one case over its epochs, or for one eval over its cases."""

    ran: int = 0
    passed: int = 0
    latency: Amounts = msgspec.field(default_factory=Amounts)
    cost: Amounts = msgspec.field(default_factory=Amounts)
    scores: dict[str, Amounts] | None = None
    """What each scorer measured, by its name; None where no scorer was asked."""

    def add(self, result: CaseResult) -> None:
        """Takes one more result into account, which must not be an error."""
        self.ran += 1
        self.passed += result.status == "passed"
        if result.latency is not None:
            self.latency.add(result.latency)
        if result.cost is not None:
            self.cost.add(result.cost)
        for name, value in _list_measured(result.checks):
            if self.scores is None:
                self.scores = {}
            self.scores.setdefault(name, Amounts()).add(value)

    def of(self, measure: str) -> Amounts:
        """The latencies, or the costs."""
        return self.cost if measure == "cost" else self.latency

    def mean(self, measure: str) -> float | None:
        """Of the cases that ran; None when one is not known, or none ran."""
        amounts = self.of(measure)
        return amounts.total / self.ran if self.ran and amounts.known == self.ran else None

    @property
    def success(self) -> float | None:
        """The share that passed, of those that ran."""
        return self.passed / self.ran if self.ran else None


def _list_measured(checks: Iterable[CheckResult]) -> Iterator[tuple[str, float]]:
    """The values of scorers, those among the alternatives of an `or` included."""
    for check in checks:
        if check.name is not None and check.value is not None:
            yield check.name, check.value
        if check.parts:
            yield from _list_measured(check.parts)


class Tally:
    """All counts of one run."""

    def __init__(self, results: Iterable[CaseResult] = ()) -> None:
        self.all = Counts()
        self.cases: dict[str, Counts] = {}
        self.evals: dict[str, Counts] = {}
        self.errors = 0
        for result in results:
            self.add(result)

    def add(self, result: CaseResult) -> None:
        """Takes one more result into account."""
        case = result.case
        counts = self.cases.get(case)
        if counts is None:
            counts = self.cases[case] = Counts()
        name = eval_of(case)
        if name is not None and name not in self.evals:
            # Of an eval with a single case, the case's counts are the eval's.
            self.evals[name] = counts if name == case else Counts()
        if result.status == "error":
            self.errors += 1
            return
        counts.add(result)
        self.all.add(result)
        if name is not None and name != case:
            self.evals[name].add(result)

    @property
    def finished(self) -> int:
        """How many results there are, errors included."""
        return self.all.ran + self.errors

    @property
    def scorers(self) -> list[str]:
        """The names of the scorers that measured something."""
        return list(self.all.scores or ())

    def formula(self, text: str, also: Iterable[str] = ()) -> Formula:
        """A formula over all that was counted here, and over `also`, names known from elsewhere."""
        names = [end for name in self.evals for end in (name, f"{name}_latency", f"{name}_cost")]
        known = dict.fromkeys((*names, *self.scorers, *also))
        more = [Variable(name) for name in known if name not in RUN_METRICS]
        return Formula.parse(text, Names([*RUN_METRICS.values(), *more]))

    def metrics(
        self, evals: Iterable[str] | None = None, scorers: Iterable[str] | None = None
    ) -> MetricValues:
        """Every name that a formula may use, with its value; None where it is not known.

        Without names given, those of all evals and scorers that were counted.
        """
        success = self.all.success
        found: MetricValues = {"success_pct": None if success is None else 100.0 * success}
        for measure in MEASURES:
            amounts = self.all.of(measure)
            known = self.all.ran > 0 and amounts.known == self.all.ran
            found |= {
                f"max_{measure}": amounts.high if known else None,
                f"min_{measure}": amounts.low if known else None,
                f"avg_{measure}": self.all.mean(measure),
                f"total_{measure}": amounts.total if known else None,
            }
        for name in self.evals if evals is None else evals:
            counts = self.evals.get(name, _NO_COUNTS)
            found[name] = counts.success
            found |= {f"{name}_{measure}": counts.mean(measure) for measure in MEASURES}
        scores = self.all.scores or {}
        for name in scores if scorers is None else scorers:
            found[name] = scores[name].total / scores[name].known if name in scores else None
        return found

    def score(self, formula: Formula) -> FormulaScore:
        """What a formula makes of these counts: a score, or the reason why there is none."""
        values = self.metrics()
        if (score := formula.evaluate(values)) is not None:
            return FormulaScore(formula.text, score)
        why = [formula.reason(values) or "undefined"]
        why += [said for name in formula.names if (said := self.unknown(name)) is not None]
        return FormulaScore(formula.text, None, "; ".join(dict.fromkeys(why)))

    def unknown(self, metric: str) -> str | None:
        """Why a metric has no value, in words; None when nothing is known to be missing."""
        measure = next((m for m in MEASURES if metric.endswith(f"_{m}")), None)
        name = metric if metric in self.evals else metric.removesuffix(f"_{measure}")
        counts, whose = self.all, "cases"
        if name in self.evals:
            counts, whose = self.evals[name], f"results of {name!r}"
            measure = None if name == metric else measure
        if not counts.ran:
            return "no case ran" if counts is self.all else f"no result of {name!r}: it never ran"
        if measure is None or counts.of(measure).known == counts.ran:
            return None
        missing = counts.ran - counts.of(measure).known
        mend = "; set metadata.pricing in the suite" if measure == "cost" else ""
        return f"the {measure} of {missing} of {counts.ran} {whose} is not known{mend}"


_NO_COUNTS = Counts()


def eval_of(case: str) -> str | None:
    """The name of the eval that a case belongs to: `qa[7]` is a row of `qa`, `#3` has none."""
    return None if case.startswith("#") else case.partition("[")[0]
