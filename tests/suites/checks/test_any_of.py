"""`or`, and alternatives of several checks, with checks that cannot be done among them."""

from __future__ import annotations

import asyncio
from itertools import product

import pytest
from tests.suites.checks.built_checks import subject

from tallymark.runs.case_verdict import judge_case
from tallymark.runs.record import CheckResult
from tallymark.suites.checks.answer_under_check import Subject
from tallymark.suites.checks.any_of import all_of, any_of
from tallymark.suites.checks.check_definition import Check, Checks

YES = CheckResult(kind="yes", passed=True)
NO = CheckResult(kind="no", passed=False)
BROKEN = CheckResult(kind="broken", passed=False, error="it broke")


def says(result: CheckResult, *, late: bool = False) -> Check:
    async def wait(_: Subject) -> CheckResult:
        await asyncio.sleep(0)
        return result

    return Check(result.kind, wait if late else lambda _: result, late)


def outcome(check: Check) -> str:
    checks = Checks.of([check])
    if not checks.waits:
        return judge_case(checks.run(subject()))
    return judge_case(asyncio.run(checks.evaluate(subject())))


@pytest.mark.parametrize(
    ("parts", "any_", "all_"),
    [
        ([YES], "passed", "passed"),
        ([NO], "failed", "failed"),
        ([BROKEN], "error", "error"),
        ([YES, NO], "passed", "failed"),
        ([NO, NO], "failed", "failed"),
        ([YES, BROKEN], "passed", "error"),
        ([NO, BROKEN], "error", "failed"),
        ([YES, NO, BROKEN], "passed", "failed"),
    ],
)
@pytest.mark.parametrize("late", [False, True])
def test_what_the_parts_say_together(
    parts: list[CheckResult], any_: str, all_: str, late: bool
) -> None:
    assert outcome(any_of([says(part, late=late) for part in parts])) == any_
    assert outcome(all_of([says(part, late=late) for part in parts])) == all_


def test_the_parts_are_kept() -> None:
    (result,) = Checks.of([any_of([says(NO), says(YES)])]).run(subject())
    assert (result.kind, result.parts) == ("or", (NO, YES))
    assert result.reason == "1 of 2 alternatives passed"


def test_nesting() -> None:
    for outer, inner in product([any_of, all_of], repeat=2):
        nested = outer([inner([says(YES), says(YES)]), says(YES, late=True)])
        assert nested.waits
        assert outcome(nested) == "passed"
