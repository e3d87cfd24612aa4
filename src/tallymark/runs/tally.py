"""The numbers of a run, counted case by case: what formulas, intervals and comparisons start from.

Success is counted over the cases that ran; a case that could not run (an error) is counted apart.
When the cost or the latency of one case is not known, no metric of cost or latency is known: a
total that leaves cases out would look cheap. A scorer's mean is over all that it measured.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any
from zlib import crc32

import msgspec

from tallymark.formula import (
    RUN_METRICS,
    Formula,
    Names,
    Variable,
    eval_name_problems,
)
from tallymark.formula.formula_names import WELL_FORMED
from tallymark.runs.record import CaseResult, CheckResult
from tallymark.text import UNDEFINED, add_known

MetricValues = dict[str, float | None]
Measured = Sequence[tuple[str, Sequence[float]]]
"""Scorer values; a name may occur several times."""
MEASURES = ("latency", "cost")
TOKEN_METRICS = ("input_tokens", "output_tokens", "total_tokens")
SCORER_ENDS = ("median", "p90", "passed")
"""Statistics of a scorer in formulas besides its mean, as NAME_STATISTIC."""
_AT_ONCE = 5_000
"""Results that are added up together."""
_FEW = 8
"""Results of one eval that may wait."""


class FormulaScore(msgspec.Struct, frozen=True):
    """Result of a formula: a score, or the reason why there is none."""

    formula: str
    score: float | None
    error: str | None = None


class Amounts(msgspec.Struct, gc=False):
    """Count, sum, minimum and maximum of values."""

    known: int = 0
    low: float = math.inf
    high: float = -math.inf
    sum_parts: tuple[float, ...] = ()
    """The exact sum as floats of falling size, so that it does not depend on how values arrived."""
    square_parts: tuple[float, ...] = ()
    """Partial sums of the squares."""

    @property
    def sum(self) -> float:
        """The exact sum, rounded once."""
        return self.sum_parts[0] if self.sum_parts else 0.0

    @property
    def squares(self) -> float:
        """The sum of the squares, rounded once."""
        return self.square_parts[0] if self.square_parts else 0.0

    @property
    def total(self) -> float:
        """The sum to the 15 digits of a decimal that a float preserves: 3 times 0.1 is 0.3."""
        return self.sum if self.known < 2 else float(f"{self.sum:.15g}")

    def add(self, values: Sequence[float]) -> None:
        """Takes more values into account."""
        if values:
            self.known += len(values)
            self.sum_parts = _add_exactly(self.sum_parts, values)
            self.low = min(self.low, *values)
            self.high = max(self.high, *values)
            squares = [value * value for value in values]
            self.square_parts = _add_exactly(self.square_parts, squares)


def _add_exactly(parts: Sequence[float], values: Sequence[float]) -> tuple[float, ...]:
    """The exact sum as few floats: first the rounded sum, then what it lacks, and so on."""
    terms = [*parts, *values]
    found: list[float] = []
    try:
        while rounded := math.fsum(terms):
            if not math.isfinite(rounded):
                return (rounded,)
            found.append(rounded)
            terms.append(-rounded)
    except (OverflowError, ValueError):  # too large for a float, or infinite both ways
        return (sum(terms),)
    return tuple(found)


def add_up(values: Sequence[float]) -> Amounts:
    """All of them."""
    amounts = Amounts()
    amounts.add(values)
    return amounts


class Counts(msgspec.Struct, gc=False):
    """Counts of one case over its epochs, of one eval, or of a run."""

    ran: int = 0
    passed: int = 0
    latency: Amounts = msgspec.field(default_factory=Amounts)
    cost: Amounts = msgspec.field(default_factory=Amounts)
    scores: dict[str, Amounts] = msgspec.field(default_factory=dict)
    """Values of each scorer, by name."""
    results: int = 0
    """With those that did not run."""
    judges: Amounts = msgspec.field(default_factory=Amounts)
    """Cost of judges where known; 0 if none was called."""
    input_tokens: Amounts = msgspec.field(default_factory=Amounts)
    output_tokens: Amounts = msgspec.field(default_factory=Amounts)

    def add(self, results: Sequence[Seen], measured: Measured | None = None) -> None:
        """Takes more results into account; what scorers `measured`, if a caller knows already."""
        self.add_measures(results)
        self.judges.add([each for seen in results if (each := seen.judges) is not None])
        self.input_tokens.add([each for seen in results if (each := seen.input_tokens) is not None])
        self.output_tokens.add(
            [each for seen in results if (each := seen.output_tokens) is not None]
        )
        _add_scores(self.scores, _measure_by_scorer(results) if measured is None else measured)

    def add_measures(self, results: Sequence[Seen]) -> None:
        """Counts without tokens, judges and scorers, which single evals do not need."""
        self.results += len(results)
        self.ran += sum([seen.ran for seen in results])
        self.passed += sum([seen.passed for seen in results])
        self.latency.add([each for seen in results if (each := seen.latency) is not None])
        self.cost.add([each for seen in results if (each := seen.cost) is not None])

    def mean(self, measure: str) -> float | None:
        """Value over the cases that ran; None if one is unknown or none ran."""
        amounts: Amounts = getattr(self, measure)
        return amounts.total / self.ran if self.ran and amounts.known == self.ran else None

    @property
    def success(self) -> float | None:
        """The share that passed, of those that ran."""
        return self.passed / self.ran if self.ran else None


class Seen(msgspec.Struct, frozen=True, gc=False):
    """The counted part of one result. A run may have a million, so it is small."""

    ran: int
    """0 or 1, as is the next."""
    passed: int
    latency: float | None
    cost: float | None
    input_tokens: int | None
    output_tokens: int | None
    """Tokens."""
    judges: float | None
    scorers: tuple[str, ...]
    values: tuple[float, ...]
    """Scorer values."""

    @property
    def results(self) -> int:
        """It is one."""
        return 1

    @property
    def success(self) -> float | None:
        """True if it passed; None if it did not run."""
        return float(self.passed) if self.ran else None


class Epochs(msgspec.Struct, gc=False):
    """The results of a repeated case, added up when first used."""

    seen: list[Seen]

    @property
    def results(self) -> int:
        """With those that did not run."""
        return len(self.seen)

    @property
    def ran(self) -> int:
        """Number of results that ran."""
        return sum([seen.ran for seen in self.seen])

    @property
    def passed(self) -> int:
        """Number of results that passed."""
        return sum([seen.passed for seen in self.seen])

    @property
    def success(self) -> float | None:
        """The share that passed, of those that ran."""
        return self.passed / ran if (ran := self.ran) else None

    @property
    def scores(self) -> dict[str, Amounts]:
        """What each scorer measured, by its name."""
        scores: dict[str, Amounts] = {}
        _add_scores(scores, _measure_by_scorer(self.seen))
        return scores


CaseCounts = Counts | Epochs | Seen
"""Counts of a case. Most have one result; sums exist only for cases that share a place."""


def _measure_by_scorer(results: Sequence[Seen]) -> Measured:
    """Values of each scorer, once for each group of results with the same scorers."""
    rows: dict[tuple[str, ...], list[tuple[float, ...]]] = {}
    for seen in results:
        if seen.scorers:
            rows.setdefault(seen.scorers, []).append(seen.values)
    return [
        (name, [row[at] for row in group])
        for names, group in rows.items()
        for at, name in enumerate(names)
    ]


def _add_scores(scores: dict[str, Amounts], measured: Measured) -> None:
    for name, values in measured:
        scores.setdefault(name, Amounts()).add(values)


class ScorerCounts(msgspec.Struct, gc=False):
    """Number of results with and without a value of a scorer."""

    scored: int = 0
    unscored: int = 0
    labels: Counter[str] = msgspec.field(default_factory=Counter)
    first_error: str | None = None
    passed: int = 0
    """Scores that have reached their threshold."""
    values: Any = msgspec.field(default_factory=lambda: array("d"))
    """All values, for statistics that sums cannot give."""
    confusion: Counter[tuple[str, str]] = msgspec.field(default_factory=Counter)
    """Counts of (expected, given) labels."""


_NOTHING_MEASURED: tuple[float | None, tuple[str, ...], tuple[float, ...]] = (0.0, (), ())


class Tally:
    """All counts of one run."""

    door: str | None = None
    """Source of the results, unless it is a YAML suite: only such a suite has prices."""
    left_out: Mapping[str, str] = {}
    """Names in the formula that the run was not meant to measure, with the reason."""

    def __init__(
        self, results: Iterable[CaseResult] = (), *, most_cases: int | None = None
    ) -> None:
        """Cases beyond `most_cases` share places, to bound the memory."""
        self.errors = 0
        self.unscored_cost = Amounts()
        """Cost of errors where known: a paid answer that was not judged."""
        self.scorers = defaultdict[str, ScorerCounts](ScorerCounts)
        self._most_cases = most_cases
        self._cases: dict[str, CaseCounts] = {}
        self._total = Counts()
        self._counted: dict[str | None, Counts] = {}
        # Results wait here, by eval and for the whole, and are added up many at a time, which is
        # Much faster; most evals have few results, and their counts are rarely used.
        self._waiting: dict[str | None, Seen | list[Seen]] = {}
        self._fresh: list[Seen] = []
        self._latencies = array("d")
        self._scorer_names: dict[tuple[str, ...], tuple[str, ...]] = {}
        for result in results:
            self.add(result)

    def add(self, result: CaseResult) -> None:
        """Takes one more result into account."""
        measured = _NOTHING_MEASURED
        for check in result.checks:  # most results only passed or failed
            if check.name is not None or check.parts or check.judge or check.kind == "llm_judge":
                measured = self._take_checks(result)
                break
        if result.status == "error":
            self.errors += 1
            if result.cost is not None:
                self.unscored_cost.add([result.cost])
            seen = Seen(0, 0, None, None, None, None, *measured)
        else:
            # What was counted here is a guess that not every door makes.
            local = result.tokens_counted_by == "local"
            seen = Seen(
                1,
                1 if result.status == "passed" else 0,
                result.latency,
                result.cost,
                None if local else result.input_tokens,
                None if local else result.output_tokens,
                *measured,
            )
        case = result.case
        name = eval_of(case)
        if (
            self._most_cases is not None
            and len(self._waiting) >= self._most_cases
            and name not in self._waiting
        ):
            name = None
        waiting = self._waiting.setdefault(name, seen)
        if isinstance(waiting, list):
            waiting.append(seen)
        elif waiting is not seen:
            self._waiting[name] = [waiting, seen]
        self._fresh.append(seen)
        if len(self._fresh) == _AT_ONCE:
            self._add_up()
        # Most cases have one result.
        if case not in self._cases and len(self._cases) < (self._most_cases or math.inf):
            self._cases[case] = seen
        else:
            self._note_again(case, name, seen)

    def _add_up(self) -> None:
        """Bounds what waits."""
        measured = _measure_by_scorer(self._fresh)
        self._total.add(self._fresh, measured)
        for scorer, values in measured:
            self.scorers[scorer].values.extend(values)
        self._latencies.extend(
            [seen.latency for seen in self._fresh if seen.ran and seen.latency is not None]
        )
        self._fresh.clear()
        for name, waiting in self._waiting.items():
            if isinstance(waiting, list) and len(waiting) > _FEW:
                self._count_eval(name)

    def _count_eval(self, name: str | None) -> Counts:
        """The counts of an eval, with all that has waited."""
        counts = self._counted.setdefault(name, Counts())
        waiting = self._waiting[name]
        counts.add_measures(waiting if isinstance(waiting, list) else [waiting])
        self._waiting[name] = []
        return counts

    def _take_checks(
        self, result: CaseResult
    ) -> tuple[float | None, tuple[str, ...], tuple[float, ...]]:
        """Judges' cost and scorers' values, including those in the alternatives of an `or`."""
        judged: list[float | None] = []
        names: list[str] = []
        values: list[float] = []
        checks, scorers = list(result.checks), self.scorers
        for check in checks:
            if check.parts:  # they go to the end of the list, and are met there
                checks += check.parts
            if check.judge is not None or check.kind == "llm_judge":
                judged.append(_find_judge_cost(check))
            name = check.name
            if name is None:
                continue
            counts = scorers[name]
            if check.error is None:
                counts.scored += 1
                if check.label is not None:
                    counts.labels[check.label] += 1
                    if isinstance(expected := check.metadata.get("expected"), str):
                        counts.confusion[expected, check.label] += 1
            else:
                counts.unscored += 1
                counts.first_error = counts.first_error or check.error
            value = check.value
            if value is not None:
                names.append(name)
                values.append(value)
                if check.passed:
                    counts.passed += 1
        judges = add_known(judged) if judged else 0.0
        scorer_names = tuple(names)
        # The same tuple for all that have the same scorers.
        return judges, self._scorer_names.setdefault(scorer_names, scorer_names), tuple(values)

    def _note_again(self, case: str, name: str | None, seen: Seen) -> None:
        """A result of a case that has one already, or for which there is no place."""
        known = self._cases.get(case)
        if known is None:
            # Cases drawn together at random are as good to draw from as single ones, and a case
            # gets the same place again.
            case = f"{name or '#'}[{crc32(case.encode()) % (self._most_cases or 1)} and others]"
            known = self._cases.setdefault(case, Counts())
        if isinstance(known, Counts):
            known.add([seen])
        elif isinstance(known, Epochs):
            known.seen.append(seen)
        else:
            self._cases[case] = Epochs([known, seen])

    @property
    def cases(self) -> dict[str, CaseCounts]:
        """The counts of each case."""
        return self._cases

    def arrange(self, cases: Iterable[str]) -> None:
        """Put all cases, their evals and their scorers in this order of cases.

        Cases that did not run may be among them.
        """
        ran = self._cases
        self._cases = {case: ran[case] for case in cases if case in ran} | ran
        self._waiting = {
            name: self._waiting[name] for name in dict.fromkeys(map(eval_of, self._cases))
        }
        first = dict.fromkeys(self._list_scorers())
        order = [*first, *(name for name in self.scorers if name not in first)]
        for name in order:
            self.scorers[name] = self.scorers.pop(name)

    def _list_scorers(self) -> Iterator[str]:
        """By case, until all were met."""
        left = len(self.scorers)
        met = set[str]()
        for known in self._cases.values():
            if len(met) == left:
                return
            seen = known.seen if isinstance(known, Epochs) else [known]
            for each in seen:
                names = each.scorers if isinstance(each, Seen) else tuple(each.scores)
                met.update(names)
                yield from names

    @property
    def evals(self) -> dict[str, Counts]:
        """The counts of each eval that has a name."""
        return {name: self._count_eval(name) for name in self._waiting if name is not None}

    @property
    def all(self) -> Counts:
        """The counts of the whole run so far."""
        self._add_up()
        return self._total

    @property
    def finished(self) -> int:
        """Number of results, including errors."""
        return self._total.results + len(self._fresh)

    def formula(self, text: str, also: Iterable[str] = ()) -> Formula:
        """A formula over all that was counted here, and over `also`, names known from elsewhere."""
        scorers = derive_scorer_names(self.scorers)
        evals = (*self._waiting, *self.left_out)
        return Formula.parse(text, name_metrics(evals, (*scorers, *also)))

    def metrics(self, used: Iterable[str] = ()) -> MetricValues:
        """Every name that a formula may use, with its value; None where it is not known.

        What can be derived of scorers, such as a median, is there when it is `used`.
        """
        total = self.all
        found = run_wide(total, self.errors, sorted(self._latencies))
        usable = name_metrics(self._waiting, self.scorers).words
        for name, waiting in self._waiting.items():
            if name is None or name not in usable or name in RUN_METRICS or name in self.scorers:
                continue
            if isinstance(waiting, Seen):
                success = float(waiting.passed) if waiting.ran else None
                latency, cost = waiting.latency, waiting.cost
            else:
                counts = self._count_eval(name)
                success, latency, cost = counts.success, counts.mean("latency"), counts.mean("cost")
            found |= {name: success, f"{name}_latency": latency, f"{name}_cost": cost}
        for name in self.scorers:
            if name in usable and name not in RUN_METRICS:
                amounts = total.scores.get(name)
                found[name] = amounts.total / amounts.known if amounts else None
        for name in used if self.scorers else ():
            scorer, end = split_scorer_name(name, self.scorers)
            if end and name not in found:
                found[name] = self._summarise_scorer(scorer, end)
        return found

    def _summarise_scorer(self, scorer: str, end: str) -> float | None:
        from tallymark.runs.scorer_summary import find_percentile  # noqa: PLC0415 (few ask for it)

        counts = self.scorers[scorer]
        if end == "passed":
            return counts.passed / len(counts.values) if counts.values else None
        return find_percentile(sorted(counts.values), 50 if end == "median" else 90)

    def score(self, formula: Formula, values: MetricValues | None = None) -> FormulaScore:
        """Evaluate a formula over these counts: a score, or the reason why there is none.

        `values` are the metrics, if the caller has them already.
        """
        values = self.metrics(formula.names) if values is None else values
        if (score := formula.evaluate(values)) is not None:
            return FormulaScore(formula.text, score)
        why = [formula.reason(values) or UNDEFINED]
        why += [said for name in formula.names if (said := self.unknown(name)) is not None]
        return FormulaScore(formula.text, None, "; ".join(dict.fromkeys(why)))

    def unknown(self, metric: str) -> str | None:
        """Why a metric has no value, in words; None when nothing is known to be missing."""
        measure = next((m for m in MEASURES if metric.endswith(f"_{m}")), None)
        evals = self._waiting
        known = metric in evals or metric in self.left_out
        name = metric if known else metric.removesuffix(f"_{measure}")
        if name in self.left_out:
            return self.left_out[name]
        counts, whose = self.all, "results"
        never = "every case ended in an error" if counts.results else "no case ran"
        if metric == "judge_cost" and counts.results > counts.judges.known:
            missing = counts.results - counts.judges.known
            return f"what the judge cost is not known for {missing} of {counts.results} results"
        if metric in TOKEN_METRICS and metric not in (*evals, *self.scorers) and counts.ran:
            return _explain_tokens(metric, counts)
        if name in evals:
            counts, whose = self._count_eval(name), f"results of {name!r}"
            never = f"no result of {name!r}: it never ran"
            measure = None if name == metric else measure
        if not counts.ran:
            return never
        missing = 0 if measure is None else counts.ran - getattr(counts, measure).known
        if not missing:
            return None
        mend = "set metadata.pricing in the suite" if self.door is None else "no span records it"
        why = f"; {mend}" if measure == "cost" else ""
        return f"the {measure} of {missing} of {counts.ran} {whose} is not known{why}"


def _explain_tokens(metric: str, counts: Counts) -> str | None:
    """Why a sum of tokens has no value."""
    known = {
        "input_tokens": counts.input_tokens.known,
        "output_tokens": counts.output_tokens.known,
    }
    missing = counts.ran - known.get(metric, min(known.values()))
    if not missing:
        return None
    why = "what is counted here is a guess, and not added up"
    return f"no provider or trace counted the tokens of {missing} of {counts.ran} results; {why}"


def _find_judge_cost(check: CheckResult) -> float | None:
    if check.judge is not None:
        return check.judge.cost
    # A result with a value but no cost is from a version that did not record judges' cost.
    return 0.0 if check.value is None else None


def run_wide(counts: Counts, errors: int, latencies: Sequence[float]) -> MetricValues:
    """The metrics that every run has. The latencies are in order."""
    # Rounded once: 29 of 50 are 58, where 100 * (29 / 50) is a little less.
    found: MetricValues = {
        "success_pct": 100.0 * counts.passed / counts.ran if counts.ran else None
    }
    for measure in MEASURES:
        amounts: Amounts = getattr(counts, measure)
        known = counts.ran > 0 and amounts.known == counts.ran
        found |= {
            f"max_{measure}": amounts.high if known else None,
            f"min_{measure}": amounts.low if known else None,
            f"avg_{measure}": amounts.total / counts.ran if known else None,
            f"total_{measure}": amounts.total if known else None,
        }
    for percent in (50, 95, 99):
        # Between two results in proportion, as numpy and spreadsheets do.
        below, rest = divmod(max(0, len(latencies) - 1) * percent, 100)
        near = latencies[below : below + 2] if found["max_latency"] is not None else ()
        value = near[0] + (near[-1] - near[0]) * rest / 100 if near else None
        found[f"p{percent}_latency"] = value
    sent, answered = counts.input_tokens, counts.output_tokens
    counted = [0 < counts.ran == each.known for each in (sent, answered)]
    judged = 0 < counts.results == counts.judges.known
    return found | {
        "input_tokens": sent.sum if counted[0] else None,
        "output_tokens": answered.sum if counted[1] else None,
        "total_tokens": sent.sum + answered.sum if all(counted) else None,
        "error_pct": 100.0 * errors / counts.results if counts.results else None,
        "judge_cost": counts.judges.total if judged else None,
    }


def name_metrics(evals: Iterable[str | None], others: Iterable[str] = ()) -> Names:
    """The names of a formula over a run: run-wide metrics, evals, and scorers or other numbers.

    A name that formulas cannot use, such as `two words`, is left out.
    """
    known = [name for name in evals if name is not None and WELL_FORMED.fullmatch(name)]
    bad = {index for index, _ in eval_name_problems(known)}
    names: Mapping[str, None] = dict.fromkeys(
        made
        for index, name in enumerate(known)
        if index not in bad
        for made in (name, *(f"{name}_{measure}" for measure in MEASURES))
    )
    more = [Variable(each) for each in dict.fromkeys((*names, *others)) if each not in RUN_METRICS]
    return Names([*RUN_METRICS.values(), *more], of_run=True)


def derive_scorer_names(scorers: Iterable[str]) -> tuple[str, ...]:
    """Names of scorers (their means) and of their other statistics."""
    known = tuple(scorers)
    return (*known, *(f"{name}_{end}" for name in known for end in SCORER_ENDS))


def split_scorer_name(name: str, scorers: Collection[str]) -> tuple[str, str]:
    """Split `polite_p90` into the scorer and the statistic; None for other names."""
    scorer, _, end = name.rpartition("_")
    return (scorer, end) if end in SCORER_ENDS and scorer in scorers else (name, "")


def eval_of(case: str) -> str | None:
    """The name of the eval that a case belongs to: `qa[7]` is a row of `qa`, `#3` has none."""
    return None if case.startswith("#") else case.partition("[")[0]
