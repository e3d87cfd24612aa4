"""A check by a scorer: it passes when the value reaches a threshold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallymark.runs.record import CheckResult
from tallymark.suites.checks.check_definition import QuickCheck, WaitingCheck
from tallymark.suites.python_suites.suite_report import THRESHOLD_ROUNDING

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallymark.scoring import EvalContext, Score, Scorer
    from tallymark.suites.checks.answer_under_check import Subject


def build_threshold_check(
    kind: str,
    scorer: Scorer,
    threshold: float,
    *,
    name: str | None = None,
    context: Callable[[Subject], EvalContext] = lambda subject: subject.context,
) -> QuickCheck | WaitingCheck:
    """The check of a scorer; `name` is how formulas call its value."""

    def result(score: Score) -> CheckResult:
        if score.value is None:
            said = score.error or f"the label {score.label!r} has no number"
            return CheckResult(kind=kind, passed=False, name=name, error=said)
        passed = score.value + THRESHOLD_ROUNDING >= threshold
        reason = f"{score.value:.3g}; at least {threshold:g} asked"
        if score.reason:
            reason = f"{reason}: {score.reason}"
        return CheckResult(kind=kind, passed=passed, reason=reason, name=name, value=score.value)

    if scorer.inline:
        return lambda subject: result(scorer.score(context(subject)))

    async def evaluate(subject: Subject) -> CheckResult:
        limit = subject.config.timeout
        return result(await scorer.evaluate(context(subject), timeout=limit))

    return evaluate
