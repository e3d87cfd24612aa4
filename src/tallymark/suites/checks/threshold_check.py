"""A check by a scorer: it passes when the value reaches a threshold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallymark.runs.case_verdict import find_error, judge_case, judge_score, judge_several
from tallymark.runs.record import CheckResult
from tallymark.suites.checks.check_definition import QuickCheck, WaitingCheck

if TYPE_CHECKING:
    from tallymark.scoring import Score, Scorer
    from tallymark.suites.checks.answer_under_check import Subject


def build_threshold_check(
    kind: str, scorer: Scorer, threshold: float, *, name: str | None = None
) -> QuickCheck | WaitingCheck:
    """The check of a scorer; `name` is how formulas call its value."""
    threshold = float(threshold)  # a file may contain 0; a single number is stored

    def result(score: Score) -> CheckResult:
        if not score.parts:
            return judge_score(score, threshold, kind=kind, name=name)
        parts = judge_several(score, threshold)
        passed = sum(part.passed for part in parts)
        reason = f"{passed} of {len(parts)} scores passed"
        error = find_error(parts) if judge_case(parts) == "error" else None
        return CheckResult(
            kind=kind, passed=passed == len(parts), reason=reason, error=error, parts=tuple(parts)
        )

    if scorer.inline:
        return lambda subject: result(scorer.score(subject.context))

    async def evaluate(subject: Subject) -> CheckResult:
        limit = subject.config.timeout
        return result(await scorer.evaluate(subject.context, timeout=limit))

    return evaluate
