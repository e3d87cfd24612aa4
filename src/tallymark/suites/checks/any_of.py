"""`or`: does at least one of several checks pass? And `all`, for alternatives of several checks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallymark.runs.case_verdict import find_error, judge_case
from tallymark.runs.record import CheckResult
from tallymark.suites.checks.check_definition import Check, Checks, QuickCheck, WaitingCheck

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tallymark.suites.checks.answer_under_check import Subject


def any_of(parts: Sequence[Check]) -> Check:
    """Passes when a part passes; when none does and one could not be done, neither can this."""

    def result(results: list[CheckResult]) -> CheckResult:
        passed = sum(each.passed for each in results)
        return CheckResult(
            kind="or",
            passed=passed > 0,
            reason=f"{passed} of {len(results)} alternatives passed",
            error=None if passed else find_error(results),
            parts=results,
        )

    return _combine("or", parts, result)


def all_of(parts: Sequence[Check]) -> Check:
    """Passes when every part passes: an alternative with several checks in it."""

    def result(results: list[CheckResult]) -> CheckResult:
        status = judge_case(results)
        passed = sum(each.passed for each in results)
        return CheckResult(
            kind="all",
            passed=status == "passed",
            reason=f"{passed} of {len(results)} checks passed",
            error=find_error(results) if status == "error" else None,
            parts=results,
        )

    return _combine("all", parts, result)


def _combine(
    kind: str, parts: Sequence[Check], result: Callable[[list[CheckResult]], CheckResult]
) -> Check:
    checks = Checks.of(parts)

    async def waiting(subject: Subject) -> CheckResult:
        return result(await checks.evaluate(subject))

    function: QuickCheck | WaitingCheck = lambda subject: result(checks.run(subject))  # noqa: E731
    return Check.of(kind, waiting if checks.waits else function)
