"""A suite whose tests pass when the agent says yes, and agents that do."""

from __future__ import annotations

import asyncio
from typing import Any

from tallymark.runs.record import CaseResult
from tallymark.runs.run import Run
from tallymark.scoring import EvalContext, scorer
from tallymark.suites import Suite, Test
from tallymark.traces import Trace

SECONDS = 30.0
"""Longer than anything here takes; for waiting on what must come."""


@scorer(blocking=False)
def has_yes(ctx: EvalContext) -> bool:
    return "yes" in ctx.output


def suite(*inputs: Any, **facts: Any) -> Suite:
    """A test for each input."""
    tests = [Test(f"t{number}", given) for number, given in enumerate(inputs)]
    return Suite("s", tests, **{"scorers": {"has_yes": has_yes}, **facts})


def trace_of(result: CaseResult) -> Trace:
    assert result.trace is not None
    return result.trace


def statuses(report: Run) -> list[str]:
    return [result.status for result in report.results]


def plain(given: str) -> str:
    return f"yes {given}"


async def coroutine(given: str) -> str:
    await asyncio.sleep(0)
    return f"yes {given}"
