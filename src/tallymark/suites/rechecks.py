"""Checking stored answers again, by another suite's checks; no model is asked."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tallymark.models.model import Answer, Request
from tallymark.runs.case_verdict import find_error, judge_case
from tallymark.runs.record import CaseResult
from tallymark.runs.tally import eval_of
from tallymark.traces import Trace

if TYPE_CHECKING:
    from tallymark.suites.filled_suite import FilledSuite


async def recheck(suite: FilledSuite, results: Iterable[CaseResult]) -> list[CaseResult]:
    """The results of the cases that the suite still has, checked by it. Errors stay errors.

    Checks of earlier turns of a conversation are left as they were: only the last answer is kept.
    """
    cases = {case.key: case for case in suite.definition.cases}
    checked = []
    for result in results:
        # Of scored traces, each is a row of the eval that it has the name of.
        asked = cases.get(result.case) or cases.get(eval_of(result.case) or "")
        if asked is None:
            continue
        if result.status == "error" and not result.checks:
            checked.append(result)
            continue
        case = suite.case(asked)
        # Earlier answers of a conversation are not kept, so they are empty here.
        messages = case.messages([""] * (len(case.asked) - 1)) or ()
        subject = case.subject(_restore_answer(result), Request(messages=messages), result.trace)
        checks = await case.checks.evaluate(subject)
        status = judge_case(checks)
        error = find_error(checks) if status == "error" else None
        checked.append(
            suite.redact(replace(result, checks=tuple(checks), status=status, error=error))
        )
    return checked


def _restore_answer(result: CaseResult) -> Answer:
    """The last answer; of a conversation, with the tokens of its last turn."""
    spans = result.trace.spans if result.trace is not None else []
    turns = [span.metadata.get("turn") for span in spans]
    last = [span for span, turn in zip(spans, turns, strict=True) if turn == turns[-1]]
    spoke = Trace(spans=last if last and turns[-1] is not None else [])
    return Answer(
        output=result.output,
        latency=result.latency or 0.0,
        input_tokens=spoke.input_tokens if spoke.spans else result.input_tokens,
        output_tokens=spoke.output_tokens if spoke.spans else result.output_tokens,
        tokens_counted_by=result.tokens_counted_by,
        cost=result.cost,
        spans=tuple(spans),
    )
