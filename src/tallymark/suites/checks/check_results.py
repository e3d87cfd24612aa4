"""Running the checks of one answer."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tallymark.runs.record import CheckResult
    from tallymark.suites.checks.answer_under_check import Subject
    from tallymark.suites.checks.check_definition import Check, Checks


def run_checks(checks: Checks, subject: Subject) -> list[CheckResult]:
    """The result of every check, for checks that do not wait."""
    results = []
    for check in checks.items:
        try:
            results.append(check.function(subject))
        except Exception as error:  # noqa: BLE001 (a check that breaks is a result, not a crash)
            results.append(check.failure(error))
    return results


async def evaluate_checks(checks: Checks, subject: Subject) -> list[CheckResult]:
    """The result of every check, in order; those that wait run at the same time."""
    if not checks.waits:
        return run_checks(checks, subject)
    # None of them raises: the first that did would leave the others running.
    return await asyncio.gather(*(_settle(check, subject) for check in checks.items))


async def _settle(check: Check, subject: Subject) -> CheckResult:
    try:
        result = check.function(subject)
        settled: CheckResult = await result if check.waits else result
    except Exception as error:  # noqa: BLE001 (a check that breaks is a result, not a crash)
        return check.failure(error)
    return settled
