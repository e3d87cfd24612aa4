"""Thresholds of scores and verdicts of cases, the same for every kind of run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallymark.judging.spending import find_spending
from tallymark.runs.record import CaseResult, CaseStatus, CheckResult

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from tallymark.scoring import Score
    from tallymark.traces import Trace

DEFAULT_THRESHOLD = 0.7
"""Default threshold, unless caller, case, scorer or suite sets one."""
THRESHOLD_ROUNDING = 1e-9
"""A value this little below its threshold reaches it: weighted sums round."""


def judge_score(
    score: Score, threshold: float, *, name: str | None, kind: str = "scorer"
) -> CheckResult:
    """A score as a check. A label without a number has nothing to reach, so it passes."""
    value = score.value
    passed = score.error is None if value is None else value + THRESHOLD_ROUNDING >= threshold
    return CheckResult(
        kind=kind,
        passed=passed,
        reason=score.reason,
        name=name,
        value=value,
        label=score.label,
        threshold=threshold,
        metadata=score.metadata,
        version=None if score.origin is None else score.origin.version,
        error=score.error,
        judge=find_spending(score) if score.metadata else None,
    )


def judge_several(
    score: Score, threshold: float, taken: Collection[str | None] = (), kind: str = "scorer"
) -> list[CheckResult]:
    """The scores of one call as checks; one with the name of another scorer could not be done."""
    checks = []
    for part in score.parts:
        if part.name in taken:
            made_by = "a scorer" if score.origin is None else score.origin.scorer
            why = f"{made_by} gave a score named {part.name!r}, as another scorer is"
            checks.append(CheckResult(kind=kind, passed=False, error=why))
        else:
            checks.append(judge_score(part, threshold, name=part.name, kind=kind))
    return checks


def judge_trace(
    case: str,
    epoch: int,
    thresholds: Mapping[str, float],
    trace: Trace,
    scores: Iterable[Score],
    asked: str | None = None,
) -> CaseResult:
    """The result of a scored trace, its scores in the order of the thresholds.

    Without a given question, the trace's own is used.
    """
    checks: list[CheckResult] = []
    for (name, threshold), score in zip(thresholds.items(), scores, strict=True):
        if score.parts:
            taken = {*thresholds, *(check.name for check in checks)} - {name}
            checks += judge_several(score, threshold, taken)
        else:
            checks.append(judge_score(score, threshold, name=name))
    status = judge_case(checks)
    error = find_error(checks) if status == "error" else None
    return make_result(case, epoch, trace, checks, status, error, asked)


def make_result(  # noqa: PLR0913, PLR0917 (two callers, who know all of it)
    case: str,
    epoch: int,
    trace: Trace,
    checks: Iterable[CheckResult],
    status: CaseStatus,
    error: str | None,
    asked: str | None,
) -> CaseResult:
    """Add the numbers of the trace; a duration of 0 was not measured."""
    spent = trace.sum_spending()
    return CaseResult(
        case=case,
        epoch=epoch,
        status=status,
        input=trace.first_input if asked is None else asked,
        output=trace.last_output,
        checks=tuple(checks),
        latency=trace.duration_ms / 1000 if trace.duration_ms > 0 else None,
        cost=spent.cost,
        input_tokens=spent.input_tokens,
        output_tokens=spent.output_tokens,
        error=error,
        trace=trace,
    )


def judge_case(checks: Iterable[CheckResult]) -> CaseStatus:
    """Failed if a check failed, otherwise error if one could not be done, otherwise passed.

    A failed check decides the case, even if another one could not be done.
    """
    status: CaseStatus = "passed"
    for check in checks:
        if not check.passed:
            if check.error is None:
                return "failed"
            status = "error"
    return status


def find_error(checks: Iterable[CheckResult]) -> str | None:
    """Why the first of the checks that could not be done could not."""
    return next((check.error for check in checks if check.error is not None), None)
