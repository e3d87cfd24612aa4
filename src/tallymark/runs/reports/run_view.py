"""`RunView`: a run as every report sees it, its results grouped by case, its score explained."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from textwrap import wrap
from typing import TYPE_CHECKING

from tallymark.errors import FormulaError
from tallymark.formula.tree import Name
from tallymark.runs.record import CaseResult, CaseStatus, CheckResult, RunRecord
from tallymark.runs.repeats import Repeats, mean_repeats, summarise_repeats
from tallymark.runs.tally import Tally
from tallymark.text import align_numbers, clean_line, format_count, format_percent, format_score

if TYPE_CHECKING:
    from tallymark.formula.explanation import Explanation, Term


class CaseView:
    """One case with its results, one for each epoch."""

    __slots__ = ("name", "results")

    def __init__(self, name: str) -> None:
        self.name = name
        self.results: list[CaseResult] = []

    @property
    def status(self) -> CaseStatus:
        """Failed if one epoch failed, else an error if one could not run."""
        found = {result.status for result in self.results}
        return "failed" if "failed" in found else "error" if "error" in found else "passed"

    @property
    def passed(self) -> int:
        """How many epochs passed."""
        return sum(result.status == "passed" for result in self.results)

    @property
    def latency(self) -> float | None:
        """The mean over the epochs that know it."""
        known = [r.latency for r in self.results if r.latency is not None]
        return sum(known) / len(known) if known else None

    @property
    def cost(self) -> float | None:
        """The sum over all epochs; None when one that ran does not know."""
        ran = [result.cost for result in self.results if result.status != "error"]
        known = [cost for cost in ran if cost is not None]
        return sum(known) if ran and len(known) == len(ran) else None


class RunView:
    """One run: its record, its results, and the counts that follow from them."""

    def __init__(self, record: RunRecord, results: Iterable[CaseResult]) -> None:
        self.record = record
        self.cases: dict[str, CaseView] = {}
        self.tally = Tally()
        for result in results:
            self.tally.add(result)
            if result.case not in self.cases:
                self.cases[result.case] = CaseView(result.case)
            self.cases[result.case].results.append(result)

    @property
    def results(self) -> Iterator[CaseResult]:
        """All results, case by case."""
        return (result for case in self.cases.values() for result in case.results)

    def of_status(self, status: CaseStatus) -> list[CaseView]:
        """The cases of one status."""
        return [case for case in self.cases.values() if case.status == status]

    @property
    def missing(self) -> int:
        """Results that the run should have and has not."""
        return max(0, self.record.total - self.tally.finished)

    @cached_property
    def metrics(self) -> dict[str, float | None]:
        """Every name that the formula could use, with its value."""
        return self.tally.metrics() | self.record.metrics

    @cached_property
    def explanation(self) -> Explanation | None:
        """The formula with the run's values; None for one that these results do not fit."""
        try:
            formula = self.tally.formula(self.record.formula, also=self.metrics)
        except FormulaError:
            return None
        return formula.explain(self.metrics)

    @cached_property
    def repeated(self) -> bool:
        """True when cases were asked more than once."""
        return any(len(case.results) > 1 for case in self.cases.values())

    @cached_property
    def repeats(self) -> dict[str, Repeats]:
        """What the epochs of each case that ran tell."""
        found = ((name, summarise_repeats(counts)) for name, counts in self.tally.cases.items())
        return {name: each for name, each in found if each is not None}

    @property
    def mean_repeats(self) -> Repeats | None:
        """The same over all cases."""
        return mean_repeats(self.repeats.values())

    def counts(self) -> str:
        """How many passed, failed, and could not run, in words."""
        tally = self.tally
        words = [f"{tally.all.passed:,} passed", f"{tally.all.ran - tally.all.passed:,} failed"]
        words += [format_count(tally.errors, "error")] if tally.errors else []
        words += [f"{self.missing:,} not run"] if self.missing else []
        return ", ".join(words)

    def interval(self) -> str | None:
        """The 95 % interval of the score in words, if there is one."""
        low, high = self.record.score_low, self.record.score_high
        if low is None or high is None:
            return None
        return f"{format_score(low)} to {format_score(high)}"

    def no_score(self) -> str:
        """Why there is no score, in words."""
        empty = not (self.tally.finished or self.record.passed or self.record.failed)
        unscored = "the run has no result yet" if empty else "it was not scored"
        return self.record.score_error or self.record.error or unscored


def check_title(check: CheckResult) -> str:
    """What a check is: `match`, or `tone 0.42` for a scorer."""
    value = "" if check.value is None else f" {check.value:.3g}"
    return f"{check.name or check.kind}{value}"


def list_failures(checks: Iterable[CheckResult]) -> Iterator[tuple[str, str]]:
    """The checks that failed or could not be done, each with why; those of an `or` follow it."""
    for check in checks:
        if check.error is not None:
            yield check_title(check), f"could not be done: {check.error}"
        elif not check.passed:
            yield check_title(check), check.reason or "failed"
            for title, why in list_failures(check.parts):
                yield f"{check_title(check)} / {title}", why


def list_problems(result: CaseResult) -> list[tuple[str, str]]:
    """Why a result is not a pass: an error of the case itself, and its checks."""
    found = list(list_failures(result.checks))
    if result.error is not None and not any(result.error in why for _, why in found):
        found.insert(0, ("error", result.error))
    return found if found or result.status == "passed" else [(result.status, "no reason was given")]


def explain_score(found: Explanation | None, width: int) -> Iterator[str]:
    """The tree with values, and what each term contributes; nothing for a single name."""
    if found is None or isinstance(found.steps.node, Name):
        return
    tree = found.lines()
    if max(map(len, tree)) > width:  # too wide for a tree: the formula with numbers
        tree = wrap(f"{found.formula} = {found.substituted}", width)
    yield from tree
    if len(found.terms) > 1:
        yield from ("", "What each term contributes:")
        yield from (
            f"  {row}" for row in align_numbers([_make_term_row(term) for term in found.terms])
        )


def _make_term_row(term: Term) -> tuple[str, str, str]:
    share = "" if term.share is None else format_percent(100 * term.share)
    return clean_line(term.text, 40), format_score(term.contribution), share
