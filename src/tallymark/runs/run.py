"""`Run`: one run with its results by case, its metrics and its explained score."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from textwrap import wrap
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from msgspec.structs import replace

from tallymark.errors import FormulaError
from tallymark.formula.tree import Name
from tallymark.runs.problems import describe_unrun
from tallymark.runs.record import NOTES_TAG, CaseResult, CaseStatus, RunRecord, RunStatus
from tallymark.runs.repeats import Repeats, mean_repeats, summarise_repeats
from tallymark.runs.scorer_summary import ScorerSummary, summarise_scorers
from tallymark.runs.statistics import Interval, NoInterval
from tallymark.runs.tally import FormulaScore, Tally
from tallymark.text import (
    add_known,
    align_numbers,
    clean_line,
    format_count,
    format_money,
    format_percent,
    format_score,
)

if TYPE_CHECKING:
    from tallymark.formula import Formula
    from tallymark.formula.explanation import ContributedTerm, Explanation


class CaseOutcome(NamedTuple):
    """Number of results of a case by outcome."""

    passed: int
    failed: int
    errors: int

    @property
    def status(self) -> CaseStatus:
        """Failed if one epoch failed, else an error if one could not run."""
        return "failed" if self.failed else "error" if self.errors else "passed"

    @property
    def statuses(self) -> set[CaseStatus]:
        """Every status that one of them has."""
        counted: dict[CaseStatus, int] = {
            "passed": self.passed, "failed": self.failed, "error": self.errors
        }  # fmt: skip
        return {status for status, count in counted.items() if count}


class KeptResults(Sequence[CaseResult]):
    """Results stored elsewhere; only a few are in memory at a time."""

    @abstractmethod
    def __iter__(self) -> Iterator[CaseResult]:
        """All of them in order."""

    @overload
    def __getitem__(self, place: int) -> CaseResult: ...
    @overload
    def __getitem__(self, place: slice) -> list[CaseResult]: ...
    def __getitem__(self, place: int | slice) -> CaseResult | list[CaseResult]:
        """One, or some in memory."""
        if isinstance(place, slice):
            return list(self)[place]
        return self.read_one(range(len(self))[place])

    @abstractmethod
    def read_one(self, place: int) -> CaseResult:
        """The one at a place, from 0 on."""

    @abstractmethod
    def read_cases(self, names: Collection[str]) -> Iterator[CaseResult]:
        """Results of these cases, in order."""

    @abstractmethod
    def read_counted(self) -> Iterator[CaseResult]:
        """All in order, with nothing but what counts: no prompts, answers, reasons or traces."""

    @abstractmethod
    def scan(self) -> Iterator[CaseResult]:
        """All results, in any order."""

    @abstractmethod
    def scan_whole(self) -> Iterator[CaseResult]:
        """All that is known of each, in no order."""

    @property
    @abstractmethod
    def keys(self) -> Iterable[tuple[str, int]]:
        """The case and the epoch of each, in order."""

    @property
    def names(self) -> Iterable[str]:
        """Every case once, in order."""
        return dict.fromkeys(case for case, _ in self.keys)


def read_counted(results: Sequence[CaseResult]) -> Iterable[CaseResult]:
    """Results of which the numbers are wanted and no texts."""
    return results.read_counted() if isinstance(results, KeptResults) else results


def scan_results(results: Sequence[CaseResult]) -> Iterable[CaseResult]:
    """All results in any order, without sorting them in memory."""
    return results.scan() if isinstance(results, KeptResults) else results


def scan_whole(results: Sequence[CaseResult]) -> Iterable[CaseResult]:
    """All that is known of each, in no order."""
    return results.scan_whole() if isinstance(results, KeptResults) else results


def pick_cases(results: Sequence[CaseResult], names: Collection[str]) -> Iterator[CaseResult]:
    """The results of some cases, in order."""
    if isinstance(results, KeptResults):
        return results.read_cases(names)
    return (result for result in results if result.case in names)


def list_cases(results: Sequence[CaseResult]) -> Iterable[str]:
    """Every case once, in order."""
    if isinstance(results, KeptResults):
        return results.names
    return dict.fromkeys(result.case for result in results)


@dataclass(slots=True)
class CaseView:
    """One case with its results, one for each epoch."""

    name: str
    results: list[CaseResult] = field(default_factory=list)

    @property
    def status(self) -> CaseStatus:
        """Failed if one epoch failed, else an error if one could not run."""
        found = {result.status for result in self.results}
        return "failed" if "failed" in found else "error" if "error" in found else "passed"

    @property
    def statuses(self) -> set[CaseStatus]:
        """Every status that one of them has."""
        return {result.status for result in self.results}

    @property
    def passed(self) -> int:
        """Number of passed epochs."""
        return sum(result.status == "passed" for result in self.results)

    @property
    def failed(self) -> int:
        """Number of failed epochs."""
        return sum(result.status == "failed" for result in self.results)

    @property
    def latency(self) -> float | None:
        """The mean over the epochs that know it."""
        known = [r.latency for r in self.results if r.latency is not None]
        return math.fsum(known) / len(known) if known else None

    @property
    def cost(self) -> float | None:
        """The mean over the epochs, as of the latency; None when one that ran does not know.

        An error that was paid for counts; one of which no cost is known was mostly not answered.
        """
        paid = [r.cost for r in self.results if r.status != "error" or r.cost is not None]
        total = (paid[0] if len(paid) == 1 else add_known(paid)) if paid else None
        return None if total is None else total / len(paid)


class Run:
    """A run's record and its results, and what follows from them."""

    gates: Sequence[str] | None = None
    """Why gates refuse the run, none where they let it pass; None where there is no gate."""

    def __init__(
        self,
        record: RunRecord,
        results: Sequence[CaseResult],
        tally: Tally | None = None,
        *,
        formula: Formula | None = None,
        kept: bool = True,
    ) -> None:
        """`tally` may have counted more results than are held.

        `formula` is the record's formula, if the caller has parsed it.
        """
        self.kept = kept
        self.record = record
        self.results = results
        if tally is not None:
            self.tally = self.tell_origin(tally)
        self._formula = formula

    def __repr__(self) -> str:
        return f"Run({self.record.id}, {self.record.suite!r}: {self.describe_counts()})"

    @cached_property
    def tally(self) -> Tally:
        """All counts; counted from the results when first used if none are given."""
        tally = Tally(scan_results(self.results))
        if isinstance(self.results, KeptResults):
            tally.arrange(self.results.names)
        return self.tell_origin(tally)

    def tell_origin(self, tally: Tally) -> Tally:
        """The tally, which knows now where its results come from and what they leave out."""
        tally.door = self.record.tags.get("door")
        chosen = self.record.tags.get("chosen")
        if isinstance(chosen, dict):  # else a tag of the suite's own
            tally.left_out = chosen.get("left_out", {})
        return tally

    @property
    def score(self) -> float | None:
        """Value of the run's formula; `record.score_error` has the reason if there is none."""
        return self.record.score

    @property
    def passed(self) -> bool:
        """True when everything ran and passed."""
        return self.record.passed == self.record.total > 0

    @property
    def interrupted(self) -> bool:
        """True when the run was stopped before its end."""
        return self.record.status in ("cancelled", "interrupted")

    @property
    def counts(self) -> dict[CaseStatus, int]:
        """Number of results that passed, failed, or could not run."""
        record = self.record
        return {"passed": record.passed, "failed": record.failed, "error": record.errors}

    @cached_property
    def cases(self) -> dict[str, CaseView]:
        """The results by case, all in memory."""
        found: dict[str, CaseView] = {}
        for result in self.results:
            found.setdefault(result.case, CaseView(result.case)).results.append(result)
        return found

    def read_cases(self, names: Sequence[str]) -> dict[str, CaseView]:
        """Some cases with their results; of a stored run, only these are loaded."""
        if isinstance(self.results, KeptResults):
            found = Run(self.record, [*self.results.read_cases(names)], self.tally).cases
        else:
            found = self.cases
        return {name: found[name] for name in names if name in found}

    @cached_property
    def outcomes(self) -> Mapping[str, CaseView | CaseOutcome]:
        """Outcome of every case, in order."""
        if not isinstance(self.results, KeptResults):
            return self.cases
        counted = ((name, self.tally.cases[name]) for name in self.results.names)
        return {
            name: CaseOutcome(each.passed, each.ran - each.passed, each.results - each.ran)
            for name, each in counted
        }

    def of_status(self, status: CaseStatus, most: int | None = None) -> list[CaseView]:
        """The first cases of one status."""
        if not isinstance(self.results, KeptResults):
            return [case for case in self.cases.values() if case.status == status][:most]
        named = (name for name, each in self.outcomes.items() if each.status == status)
        return list(self.read_cases([*islice(named, most)]).values())

    def count_cases(self, status: CaseStatus) -> int:
        """Number of cases with a status, including those whose results are not held."""
        if isinstance(self.results, KeptResults):
            return sum(each.status == status for each in self.outcomes.values())
        if len(self.results) == self.tally.finished:
            return len(self.of_status(status))
        total = self.tally.all
        ran = {"passed": total.passed, "failed": total.ran - total.passed}
        return ran.get(status, self.tally.errors)

    @property
    def part(self) -> str | None:
        """Number of selected cases and the selection, or None if all were run."""
        chosen = self.record.tags.get("chosen")
        if not isinstance(chosen, dict):  # a tag of the suite's own
            return None
        of = f"{chosen['cases']:,} of {chosen['of']:,}, " if chosen.get("of") else ""
        return f"{of}chosen by {chosen.get('by')}"

    @property
    def unscored_cost(self) -> str | None:
        """Cost of results that could not be scored, which no other cost includes."""
        paid = self.tally.unscored_cost
        if not paid.total:
            return None
        return f"{format_money(paid.total)} for {paid.known:,} that could not be scored"

    @property
    def rescore_notes(self) -> Sequence[str]:
        """Differences of the suite it was rescored with, a sentence each."""
        return read_notes(self.record)

    @property
    def missing(self) -> int:
        """Results that the run should have and has not."""
        return max(0, self.record.total - self.tally.finished)

    @property
    def unrun(self) -> str | None:
        """Number of missing results and the reason; None if none is missing."""
        return describe_unrun(self.record, self.tally.finished)

    @cached_property
    def metrics(self) -> dict[str, float | None]:
        """Every name that the formula could use, with its value."""
        return self.tally.metrics() | self.record.metrics

    @cached_property
    def scorers(self) -> dict[str, ScorerSummary]:
        """Summary of each scorer."""
        return summarise_scorers(self.tally)

    def score_by(self, formula: str) -> FormulaScore:
        """Value of another formula over the run's metrics."""
        return self.tally.score(self.tally.formula(formula, also=self.metrics))

    @cached_property
    def explanation(self) -> Explanation | None:
        """The formula with the run's values; None for one that these results do not fit."""
        metrics, formula = self.metrics, self._formula
        if formula is None:
            try:
                formula = self.tally.formula(self.record.score_formula, also=metrics)
            except FormulaError:
                return None
        # An eval that never ran has no metrics at all.
        return formula.explain(metrics) if metrics.keys() >= set(formula.names) else None

    def explain_score(self, width: int, *, tree: bool = True) -> Iterator[str]:
        """The tree with values, and what each term contributes; nothing for a single name.

        Without the tree, the formula with numbers stands in its place.
        """
        found = self.explanation
        if found is None or isinstance(found.steps.node, Name):
            return
        lines = found.lines() if tree else []
        if not lines or max(map(len, lines)) > width:  # too wide for a tree
            lines = wrap(f"{found.formula} = {found.shown}", width)
        yield from lines
        if len(found.terms) > 1:
            yield from ("", "What each term contributes:")
            rows = align_numbers([_make_term_row(term, width - 24) for term in found.terms])
            yield from (f"  {row}" for row in rows)

    @cached_property
    def repeated(self) -> bool:
        """True if cases ran more than once."""
        at_hand = not isinstance(self.results, KeptResults)
        return len(self.results) > len(self.cases if at_hand else self.outcomes)

    @cached_property
    def repeats(self) -> dict[str, Repeats]:
        """Repeat statistics of each case that ran."""
        counted = self.tally.cases
        found = ((name, summarise_repeats(counted[name])) for name in self.outcomes)
        return {name: each for name, each in found if each is not None}

    @property
    def mean_repeats(self) -> Repeats | None:
        """Repeat statistics over all cases."""
        return mean_repeats(self.repeats.values())

    def describe_counts(self) -> str:
        """Number of passed, failed and unrun results as text."""
        tally, total = self.tally, self.tally.all
        words = [f"{total.passed:,} passed", f"{total.ran - total.passed:,} failed"]
        words += [format_count(tally.errors, "error")] if tally.errors else []
        missing = self.missing
        words += [f"{missing:,} not run"] if missing else []
        return ", ".join(words)

    @cached_property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval of the score, if there is one.

        A stored run has it; otherwise it is computed when first used.
        """
        record = self.record
        if record.score_low is not None and record.score_high is not None:
            return (record.score_low, record.score_high)
        found = self._found_interval
        return (found.low, found.high) if isinstance(found, Interval) else None

    @cached_property
    def _found_interval(self) -> Interval | NoInterval | None:
        record = self.record
        if record.score is None or not self.tally.finished:
            return None
        if record.score_error is not None:
            return NoInterval("the suite set the score")
        try:
            formula = self.tally.formula(record.score_formula, also=record.metrics)
        except FormulaError:
            return NoInterval("the formula does not fit these results")
        return find_interval(formula, self.tally)

    def describe_interval(self) -> str | None:
        """The interval in words, or why there is none; None without a score."""
        if self.interval is not None:
            return " to ".join(map(format_score, self.interval))
        return None if self.no_interval is None else f"none: {self.no_interval}"

    @property
    def no_interval(self) -> str | None:
        """Why a score has no interval."""
        if self.interval is not None or self._found_interval is None:
            return None
        return getattr(self._found_interval, "reason", None)

    def explain_no_score(self) -> str:
        """Why there is no score, in words."""
        passed = self.record.passed or self.tally.finished
        return replace(self.record, passed=passed).explain_no_score()

    def render(self) -> str:
        """The summary for people, at most 80 columns where names allow."""
        from tallymark.runs.reports.summary_report import summary  # noqa: PLC0415 (it reads runs)

        return summary(self)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values that any JSON writer takes."""
        from tallymark.runs.reports.json_report import run_document  # noqa: PLC0415 (it reads runs)

        return run_document(self)


def read_notes(record: RunRecord) -> list[str]:
    """Note on the suite that a run was rescored with."""
    found = record.tags.get(NOTES_TAG)
    return [str(each) for each in found] if isinstance(found, list | tuple) else []


def _make_term_row(term: ContributedTerm, room: int) -> tuple[str, str, str]:
    from tallymark.formula.explanation import format_contribution  # noqa: PLC0415 (loaded by now)

    share = "" if term.share is None else format_percent(100 * term.share)
    return clean_line(term.text, min(40, room)), format_contribution(term.contribution), share


def outcome(
    formula: Formula, tally: Tally, *, undefined: float | None = None, interval: bool = True
) -> dict[str, Any]:
    """The fields of a `RunRecord` that sum it up. `undefined` stands in for a missing score."""
    metrics = tally.metrics(formula.names)
    # A name that never ran has no value; readers of the formula see why.
    metrics |= {name: None for name in formula.names if name not in metrics}
    scored = tally.score(formula, metrics)
    if tally.left_out:  # the formula is defined for the whole suite only
        undefined = None
    found = find_interval(formula, tally) if interval and scored.score is not None else None
    low, high = getattr(found, "low", None), getattr(found, "high", None)
    total = tally.all
    return {
        "score_formula": str(formula),
        "metrics": metrics,
        "score": undefined if scored.score is None else scored.score,
        "score_error": scored.error,
        "score_low": low,
        "score_high": high,
        "passed": total.passed,
        "failed": total.ran - total.passed,
        "errors": tally.errors,
    }


def find_interval(formula: Formula, tally: Tally) -> Interval | NoInterval:
    """The 95 % interval of a score, or the reason why there is none."""
    from tallymark.runs.intervals import score_interval  # noqa: PLC0415 (numpy is heavy)

    return score_interval(formula, tally)


def final_status(record: RunRecord, *, stopped: bool) -> RunStatus:
    """Final status of a run without a worker."""
    finished = record.passed + record.failed + record.errors
    if stopped and (finished < record.total or not record.total):
        return "cancelled"
    if record.passed + record.failed == 0:
        return "failed"
    return "partial_failure" if record.errors or finished < record.total else "completed"
