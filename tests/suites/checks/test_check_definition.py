"""Running checks: order, accidents, waiting, what counts as a verdict."""

from __future__ import annotations

import asyncio

import pytest
from tests.suites.checks.built_checks import built, subject

from tallymark.runs.case_verdict import judge_case
from tallymark.runs.record import CheckResult
from tallymark.suites.checks.answer_under_check import Subject
from tallymark.suites.checks.check_definition import Check, Checks


def breaks(_: Subject) -> CheckResult:
    raise ZeroDivisionError("oops")


async def breaks_late(_: Subject) -> CheckResult:
    await asyncio.sleep(0)
    raise ZeroDivisionError("oops")


def test_results_come_in_the_order_of_the_checks() -> None:
    checks = Checks.of([built("match", "a"), Check("x", breaks), built("match", "*b*")])
    results = checks.run(subject("b"))
    assert [result.passed for result in results] == [False, False, True]
    assert results[1].error == "x failed: ZeroDivisionError: oops"


def test_waiting_checks_wait_together_and_keep_their_order() -> None:
    async def until(event: asyncio.Event) -> CheckResult:
        await event.wait()
        return CheckResult(kind="waits", passed=True)

    async def main() -> list[CheckResult]:
        event = asyncio.Event()

        async def first(_: Subject) -> CheckResult:
            return await until(event)

        async def second(_: Subject) -> CheckResult:
            event.set()
            return CheckResult(kind="sets", passed=True)

        checks = Checks.of(
            [
                Check("a", first, True),
                Check("b", second, True),
                Check("c", breaks_late, True),
                built("match", "*"),
            ]
        )
        return await asyncio.wait_for(checks.evaluate(subject("x")), 5)

    results = asyncio.run(main())
    assert [result.kind for result in results] == ["waits", "sets", "c", "match"]
    assert results[2].error == "c failed: ZeroDivisionError: oops"


def test_plain_checks_never_wait() -> None:
    kinds = {
        "match": "a",
        "regex": "a",
        "max_tokens": 1,
        "max_cost": 1,
        "tool_called": "a",
        "json_schema": {},
        "scorer": "word_count",
        "max_latency": 1,
    }
    assert not Checks.of(built(kind, config) for kind, config in kinds.items()).waits


PASSED = CheckResult(kind="a", passed=True)
FAILED = CheckResult(kind="a", passed=False)
BROKEN = CheckResult(kind="a", passed=False, error="e")


@pytest.mark.parametrize(
    ("results", "status"),
    [
        ([], "passed"),
        ([PASSED], "passed"),
        ([PASSED, FAILED], "failed"),
        ([PASSED, BROKEN], "error"),
        ([BROKEN, FAILED], "failed"),
        ([FAILED, BROKEN], "failed"),
    ],
)
def test_the_verdict(results: list[CheckResult], status: str) -> None:
    assert judge_case(results) == status
