"""`or`: does at least one of several checks pass? And `all`, for alternatives of several checks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallymark.runs.case_verdict import find_error, judge_case
from tallymark.runs.record import CheckResult
from tallymark.suites.checks.check_definition import Check, Checks, QuickCheck, WaitingCheck

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tallymark.suites.checks.answer_under_check import Subject


def any_of(parts: Sequence[Check]) -> Check:
    """Passes when a part passes; when none does and one could not be done, neither can this."""
    return _combine("or", parts, "alternatives")


def all_of(parts: Sequence[Check]) -> Check:
    """Passes when every part passes: an alternative with several checks in it."""
    return _combine("all", parts, "checks")


def _combine(kind: str, parts: Sequence[Check], what: str) -> Check:
    checks = Checks.of(parts)

    def result(results: list[CheckResult]) -> CheckResult:
        count = sum(each.passed for each in results)
        passed = count > 0 if kind == "or" else judge_case(results) == "passed"
        undone = not passed and (kind == "or" or judge_case(results) == "error")
        return CheckResult(
            kind=kind,
            passed=passed,
            reason=f"{count} of {len(results)} {what} passed",
            error=find_error(results) if undone else None,
            parts=tuple(results),
        )

    async def waiting(subject: Subject) -> CheckResult:
        return result(await checks.evaluate(subject))

    function: QuickCheck | WaitingCheck = lambda subject: result(checks.run(subject))  # noqa: E731
    return Check(kind, waiting if checks.waits else function, checks.waits)
