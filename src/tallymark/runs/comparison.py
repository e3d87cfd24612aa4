"""Two runs side by side, paired by case: what changed, by how much, and whether it is a regression.

Numbers are compared over the cases that both runs ran, so that the differences add up. What counts
as a regression, and why, is in `docs/comparing-runs.md`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from tallymark.errors import InvalidInput
from tallymark.runs.differences import Difference, SharedCases
from tallymark.runs.gates import read_tolerance
from tallymark.runs.paired_cases import list_prompts, pair_unnamed
from tallymark.runs.problems import describe_check, name_case
from tallymark.runs.record import CaseResult, RunRecord
from tallymark.runs.run import Run, outcome, pick_cases
from tallymark.runs.tally import CaseCounts, Tally
from tallymark.scoring.score import make_json_safe
from tallymark.text import (
    format_beside,
    format_count,
    format_p_value,
    format_score,
)

if TYPE_CHECKING:
    from tallymark.formula import Formula

ChangeKind = Literal[
    "broken", "worse", "fixed", "better", "error_now", "recovered", "only_first", "only_second"
]
CHANGE_KINDS: dict[ChangeKind, str] = {
    "broken": "Broken (passed before)",
    "worse": "Worse (passes less often)",
    "error_now": "Errors now (ran before)",
    "fixed": "Fixed (passes now)",
    "better": "Better (passes more often)",
    "recovered": "Recovered (an error before)",
    "only_first": "Only in the first run",
    "only_second": "Only in the second run",
}
"""Kinds of change of a case, worst first."""
VerdictOutcome = Literal["better", "worse", "not_worse", "inconclusive"]
VERDICT_TITLES: dict[VerdictOutcome, str] = {
    "better": "Better",
    "worse": "Regression",
    "not_worse": "No regression",
    "inconclusive": "Inconclusive",
}
_ROUNDING = 1e-9
_ENOUGH = 30
"""Results that usually show a difference of medium size."""
FEW_CASES = 10
"""With fewer shared cases than this, chance decides more than the runs do."""


class RegressionRule(msgspec.Struct, frozen=True):
    """Settings of the regression test."""

    alpha: float = 0.05
    """Probability of calling an equally good run worse."""
    tolerance: float | str = "1%"
    """Tolerated loss: points, or a share of the first run's score."""
    strict: bool = False
    """Report any drop of the score or of a case, regardless of tolerance and test."""

    def allowed_loss(self, score: float) -> float:
        """The tolerance in points, for a first run with this score."""
        return 0.0 if self.strict else read_tolerance(self.tolerance, score)


class ComparedRun(msgspec.Struct, frozen=True, kw_only=True):
    """One of the two runs, over all its cases."""

    id: str
    suite: str
    model: str
    prompt: str | None
    score: float | None
    """By the formula of the comparison."""
    score_error: str | None
    own_formula: str
    passed: int
    failed: int
    errors: int
    missing: int
    """Results that it should have and has not."""
    left_out: list[str]
    """Evals of its formula that were not chosen: it has no score, and did not lose one."""

    @property
    def title(self) -> str:
        """The model, and the prompt where the suite has several."""
        return self.model if self.prompt is None else f"{self.model} · {self.prompt}"


class ComparedMeasure(msgspec.Struct, frozen=True):
    """One number of both runs, over the cases that both ran."""

    first: float | None
    second: float | None
    difference: Difference
    """The second less the first."""


class CaseChange(msgspec.Struct, frozen=True):
    """A case that is not the same in both runs."""

    case: str
    kind: ChangeKind
    first: str
    """Passed epochs as `2/3`; empty if it did not run."""
    second: str
    reason: str = ""
    """Reason for a worse case."""
    name: str = ""
    """Display name of the case."""


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """The comparison of two runs."""

    first: ComparedRun
    second: ComparedRun
    formula: str
    shared: int
    """Cases that both ran."""
    unchanged: int
    score: ComparedMeasure
    success_pct: ComparedMeasure
    total_cost: ComparedMeasure
    avg_latency: ComparedMeasure
    changes: list[CaseChange]
    """The worst first."""
    warnings: list[str]
    p_value: float | None
    """p-value of the score, adjusted for the number of comparisons (Holm 1979)."""
    compared: int = 1
    """Number of comparisons made together."""
    rule: RegressionRule = RegressionRule()

    def of_kind(self, kind: ChangeKind) -> list[CaseChange]:
        """The cases that changed in one way."""
        return [change for change in self.changes if change.kind == kind]

    def to_dict(self) -> dict[str, Any]:
        """Plain values that any JSON writer takes."""
        plain: dict[str, Any] = make_json_safe(self)
        return plain | {"verdict": make_json_safe(verdict(self))}


class RegressionVerdict(msgspec.Struct, frozen=True):
    """One sentence: is the second run worse, and by what."""

    outcome: VerdictOutcome
    passes: bool
    """Gate result: inconclusive passes only if no more than the tolerance was lost."""
    reason: str

    @property
    def title(self) -> str:
        """Text for readers."""
        return VERDICT_TITLES[self.outcome]


def compare(
    first: Run,
    second: Run,
    *,
    formula: str | None = None,
    rule: RegressionRule | None = None,
    seed: int = 0,
) -> Comparison:
    """The second run against the first, by one formula for both: the first run's unless given."""
    second = _pair_unnamed(first, second)
    tallies, records = (first.tally, second.tally), (first.record, second.record)
    if not tallies[0].cases.keys() & tallies[1].cases.keys():
        message = f"the runs {records[0].id!r} and {records[1].id!r} have no case in common"
        raise InvalidInput(message, hint="compare runs of the same suite")
    text = formula or records[0].score_formula
    names = (*tallies[1].evals, *tallies[1].scorers, *records[0].metrics, *records[1].metrics)
    parsed = tallies[0].formula(text, also=names)
    order = list(CHANGE_KINDS)
    changes = sorted(_find_changes(first, second), key=lambda each: order.index(each.kind))
    # Formulas of errors use all cases; others use the cases that ran in both.
    by_errors = "error_pct" in parsed.names and "error_pct" not in tallies[0].scorers
    whole = all(len(run.results) == run.tally.finished for run in (first, second))
    shared = SharedCases(
        first.results, second.results, tallies if whole else None, with_errors=by_errors
    )
    score, success, cost, latency = _compare_measures(parsed, shared, seed)
    count = len(shared.names)
    return Comparison(
        first=_describe_run(records[0], tallies[0], parsed),
        second=_describe_run(records[1], tallies[1], parsed),
        formula=text,
        shared=count,
        unchanged=count - sum(each.first != "" != each.second for each in changes),
        score=score,
        success_pct=success,
        total_cost=cost,
        avg_latency=latency,
        changes=changes,
        warnings=list(_list_warnings(records, tallies, text, count)),
        p_value=score.difference.p_value,
        rule=rule or RegressionRule(),
    )


def _pair_unnamed(first: Run, second: Run) -> Run:
    """The second run, its unnamed cases under the keys that the first has for the same prompts."""
    if first.record.definition_hash == second.record.definition_hash:
        return second
    pairs = pair_unnamed(list_prompts(first), list_prompts(second))
    if all(case == key for case, key in pairs.items()):
        return second
    keys = {case: f"{case} (new)" if key is None else key for case, key in pairs.items()}
    moved = [msgspec.structs.replace(r, case=keys.get(r.case, r.case)) for r in second.results]
    return Run(second.record, moved)


def compare_all(
    runs: Sequence[Run],
    *,
    formula: str | None = None,
    rule: RegressionRule | None = None,
    seed: int = 0,
) -> list[Comparison]:
    """Every run but the first against the first."""
    if len(runs) < 2:
        raise InvalidInput(
            f"{format_count(len(runs), 'run')} cannot be compared", hint="name two or more"
        )
    found = [compare(runs[0], run, formula=formula, rule=rule, seed=seed) for run in runs[1:]]
    adjusted = adjust_p_values([each.p_value for each in found])
    return [
        msgspec.structs.replace(each, p_value=p_value, compared=len(found))
        for each, p_value in zip(found, adjusted, strict=True)
    ]


def score_alike(runs: Sequence[Run], formula: str) -> list[Run]:
    """The runs as one formula for all of them sees them."""
    names = {name for run in runs for name in (*run.tally.evals, *run.tally.scorers, *run.metrics)}
    return [
        run if run.record.score_formula == formula else _score(run, formula, names) for run in runs
    ]


def _score(run: Run, formula: str, names: Collection[str]) -> Run:
    parsed = run.tally.formula(formula, also=names)
    record = msgspec.structs.replace(run.record, **outcome(parsed, run.tally))
    return Run(record, run.results, run.tally, formula=parsed, kept=run.kept)


def adjust_p_values(p_values: Sequence[float | None]) -> list[float | None]:
    """By Holm's method: the chance that any of the true hypotheses is refused stays what it is."""
    known = sorted((p, at) for at, p in enumerate(p_values) if p is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    highest = 0.0
    for rank, (p, at) in enumerate(known):
        highest = max(highest, min(1.0, p * (len(known) - rank)))
        adjusted[at] = highest
    return adjusted


def is_regression(comparison: Comparison, rule: RegressionRule | None = None) -> bool:
    """True if the second run is shown to be worse than the first; `verdict` gives the reason."""
    return verdict(comparison, rule).outcome == "worse"


def verdict(comparison: Comparison, rule: RegressionRule | None = None) -> RegressionVerdict:
    """Better, worse, not worse or inconclusive; see `docs/comparing-runs.md`.

    A score that was lost is worse; where neither run has one, a case that passed and fails now.
    The rule is the comparison's own unless another is given.
    """
    rule = rule or comparison.rule
    lost = [change.name for change in (*comparison.of_kind("broken"), *comparison.of_kind("worse"))]
    score = comparison.score
    if rule.strict and lost:
        return _say_worse(f"cases that passed fail now: {_list_cases(lost)}")
    if score.difference.value is not None:
        return _judge_by_score(comparison, rule, lost)
    part = list(dict.fromkeys([*comparison.first.left_out, *comparison.second.left_out]))
    known = comparison.first.score is not None and not part
    if score.first is not None or (score.second is None and known):
        why = comparison.second.score_error or "no case that both ran gives one"
        return _say_worse(f"the second run has no score to compare, the first has one: {why}")
    if score.second is None and lost:
        return _say_worse(f"there is no score, and cases that passed fail now: {_list_cases(lost)}")
    if score.second is not None:
        failing = f", and cases that passed fail now: {_list_cases(lost)}" if lost else ""
        return RegressionVerdict(
            "inconclusive", not lost, f"the first run has no score to compare with{failing}"
        )
    why = f"the score needs cases that were not chosen ({_list_cases(part)})" if part else ""
    none = "neither run has a score"
    reason = f"{why or none}, and no case that passed fails now"
    ran = not comparison.second.missing and not comparison.second.errors
    return RegressionVerdict("inconclusive", ran, reason)


def _say_worse(reason: str) -> RegressionVerdict:
    return RegressionVerdict("worse", False, reason)


def _judge_by_score(
    comparison: Comparison, rule: RegressionRule, lost: Sequence[str]
) -> RegressionVerdict:
    difference, p_value = comparison.score.difference, comparison.p_value
    change = difference.value or 0.0
    before = comparison.score.first or 0.0
    # Adding up in another order alone may change the last digits; that is no loss.
    size = max(abs(before), abs(comparison.score.second or 0.0))
    rounding = _ROUNDING * size
    allowed = rule.allowed_loss(before)
    fell = f"the score fell by {format_score(-change)}" if change < -rounding else ""
    if change >= -allowed - rounding:
        return _judge_small_loss(comparison, rule, allowed, fell, lost)
    if rule.strict:
        return _say_worse(f"{fell}, and --strict allows no drop")
    over = f"{fell}, more than the tolerance of {format_score(allowed)}" if allowed else fell
    if p_value is None:
        return RegressionVerdict("inconclusive", False, f"{over}, and no test fits this formula")
    if 0.5**difference.units > rule.alpha:
        results, least = format_count(difference.units, "result"), -math.log2(rule.alpha)
        epochs = math.ceil(_ENOUGH / max(1, difference.units))
        why = f"{results} are too few to tell a drop from chance (needs {math.ceil(least)})"
        return RegressionVerdict(
            "inconclusive", False, f"{over}; {why}: add cases, or try --epochs {epochs}"
        )
    how = f"p {format_beside(format_p_value, p_value, rule.alpha)}"
    if comparison.compared > 1:
        how += f", adjusted for {comparison.compared} comparisons"
    if p_value <= rule.alpha:
        return _say_worse(f"{over}, which is hardly chance ({how})")
    reason = f"{over}, which may be chance ({how}); run more cases or epochs"
    return RegressionVerdict("inconclusive", False, reason)


def _judge_small_loss(
    comparison: Comparison, rule: RegressionRule, allowed: float, fell: str, lost: Sequence[str]
) -> RegressionVerdict:
    """The verdict on a loss within the tolerance: can a larger one be ruled out?"""
    ends = comparison.score.difference.interval
    errors, missing = comparison.second.errors, comparison.second.missing
    within = f", within the tolerance of {format_score(allowed)}" if fell else ""
    told = f"{fell or 'the score did not fall'}{within}"
    if missing or errors:
        how = "did not run" if missing else "could not run"
        why = f"{format_count(missing or errors, 'result')} of the second run {how}"
        return RegressionVerdict("inconclusive", True, f"{told}, but {why}")
    if ends is not None and ends.low > 0 and not fell:
        rose = format_score(comparison.score.difference.value)
        sure = f"95 % interval {format_score(ends.low)} to {format_score(ends.high)}"
        return RegressionVerdict("better", True, f"the score rose by {rose} ({sure})")
    # --strict asks whether anything got lower, which needs no test.
    if rule.strict or (ends is not None and ends.low >= -allowed):
        return RegressionVerdict("not_worse", True, told)
    results = format_count(comparison.score.difference.units, "result")
    larger = f" of more than {format_score(allowed)}" if allowed else ""
    why = f"{results} cannot rule out a loss{larger}"
    if lost:
        why = f"cases that passed fail now: {_list_cases(lost)}"
    return RegressionVerdict("inconclusive", True, f"{told}, but {why}")


def _list_cases(names: Sequence[str], most: int = 3) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _describe_run(record: RunRecord, tally: Tally, formula: Formula) -> ComparedRun:
    scored = tally.score(formula)
    # What is stored may be the suite's stand-in for an undefined score; the tally has none.
    own = record.score_formula == formula.text and record.score is not None
    total = tally.all
    return ComparedRun(
        id=record.id,
        suite=record.suite,
        model=record.model,
        prompt=record.tags.get("prompt"),
        score=record.score if own else scored.score,
        score_error=record.score_error if own else scored.error,
        own_formula=record.score_formula,
        passed=total.passed,
        failed=total.ran - total.passed,
        errors=tally.errors,
        missing=max(0, record.total - tally.finished),
        left_out=list(tally.left_out),
    )


def _compare_measures(
    formula: Formula, shared: SharedCases, seed: int
) -> Iterator[ComparedMeasure]:
    """The score, and the measures that every run has."""
    dear = {"success_pct": False, "total_cost": True, "avg_latency": True}
    formulas = [
        (formula, dear.get(formula.text, False)),
        *((Tally().formula(name), worse) for name, worse in dear.items()),
    ]
    differences = shared.differences(formulas, seed=seed)
    for (each, _), difference in zip(formulas, differences, strict=True):
        yield ComparedMeasure(*shared.scores(each), difference)


def _find_changes(first: Run, second: Run) -> Iterator[CaseChange]:
    """The cases that differ, in the order of the first run, then those that only the second has."""
    before, now = first.tally.cases, second.tally.cases
    kinds = {
        case: kind
        for case in dict.fromkeys((*before, *now))
        if (kind := _classify_change(before.get(case), now.get(case))) is not None
    }
    worse = {case for case, kind in kinds.items() if kind in ("broken", "worse", "error_now")}
    unnamed = {case for case in kinds if case.startswith("#")}
    reasons: dict[str, str] = {}
    names: dict[str, str] = {}
    for result in pick_cases(second.results, worse | unnamed):
        names.setdefault(result.case, name_case(result))
        if result.case in worse and result.status != "passed" and result.case not in reasons:
            reasons[result.case] = _find_reason(result)
    for result in pick_cases(first.results, unnamed - names.keys()):
        names.setdefault(result.case, name_case(result))
    for case, kind in kinds.items():
        one, two = (_format_passes(each.get(case)) for each in (before, now))
        yield CaseChange(case, kind, one, two, reasons.get(case, ""), names.get(case, case))


def _classify_change(one: CaseCounts | None, two: CaseCounts | None) -> ChangeKind | None:
    if one is None or two is None:
        return "only_first" if two is None else "only_second"
    before, now = one.success, two.success
    if before is None or now is None:
        return None if before is now else "recovered" if before is None else "error_now"
    if before == now:
        return None
    if now < before:
        return "broken" if before == 1.0 else "worse"
    return "fixed" if now == 1.0 else "better"


def _format_passes(counts: CaseCounts | None) -> str:
    return f"{counts.passed}/{counts.ran}" if counts is not None and counts.ran else ""


def _find_reason(result: CaseResult) -> str:
    """The first thing that went wrong with a result."""
    wrong = next((check for check in result.checks if not check.passed), None)
    if result.error is not None or wrong is None:
        return result.error or ""
    return f"{wrong.name or wrong.kind}: {wrong.error or describe_check(wrong)[1] or 'failed'}"


def _list_warnings(
    records: tuple[RunRecord, RunRecord], tallies: tuple[Tally, Tally], formula: str, shared: int
) -> Iterator[str]:
    """Reasons why the comparison may be unfair."""
    first, second = records
    if first.definition_hash != second.definition_hash:
        yield "the suites differ: a case of the same name may not ask the same"
    formulas = dict.fromkeys(each.score_formula for each in records)
    for own in (each for each in formulas if each != formula):
        runs = " and ".join(each.id for each in records if each.score_formula == own)
        yield f"{runs} had the formula {own}; here both are scored by {formula}"
    if first.epochs != second.epochs:
        epochs = f"{first.epochs} and {second.epochs}"
        yield f"the runs have {epochs} epochs: totals of cost and latency are not alike"
    for record, tally in zip(records, tallies, strict=True):
        if tally.errors:
            yield (
                f"{tally.errors:,} of {tally.finished:,} results of {record.id} are errors and "
                "left out: if the hard cases fail to run, the run looks better than it is"
            )
        if record.total > tally.finished:
            yield f"{record.id} has {tally.finished:,} of its {record.total:,} results"
    most = max(len(tally.cases) for tally in tallies)
    if shared < FEW_CASES:
        yield f"only {format_count(shared, 'shared case')}: chance decides much"
    elif shared < most / 2:
        yield f"only {shared:,} of {most:,} cases are shared"
