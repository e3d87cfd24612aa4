"""`recovery`: after something failed, did the agent get it right?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallymark.scoring import Score, configurable
from tallymark.scoring.scorer_options import demand
from tallymark.text import list_some

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallymark.scoring import EvalContext
    from tallymark.traces import Span

_CALLS = ("tool", "generation", "retrieval")


@configurable(blocking=False)
def recovery(no_errors: float | None = None) -> Callable[[EvalContext], Score]:
    """Failed calls that a later call of the same kind made good / failed calls.

    Calls are tool calls, of the same kind when they call the same tool, model calls and
    retrievals. Where none failed there is nothing to measure: a failed score, or `no_errors` if
    there was a call.
    """
    if no_errors is not None:
        demand(0 <= no_errors <= 1, "recovery", "no_errors", no_errors, "from 0 to 1")

    def score(ctx: EvalContext) -> Score:
        succeeded: set[tuple[str, str]] = set()
        failed = 0
        lost: list[str] = []
        for span in reversed(ctx.trace.spans):
            if span.span_type not in _CALLS:
                continue
            kind = _kind(span)
            if not span.failed:
                succeeded.add(kind)
                continue
            failed += 1
            if kind not in succeeded:
                lost.append(kind[1])
        if failed:
            left = f" (not: {list_some(lost[::-1])})" if lost else ""
            recovered = failed - len(lost)
            return Score(recovered / failed, f"Recovered from {recovered} of {failed} errors{left}")
        if no_errors is None or not succeeded:
            hint = " (recovery(no_errors=1) gives such a trace 1)" if succeeded else ""
            return Score.failed(
                f"recovery has nothing to measure: no call of the trace failed{hint}"
            )
        return Score(no_errors, "No errors")

    return score


def _kind(span: Span) -> tuple[str, str]:
    if span.span_type == "tool":
        return "tool", span.tool_name or span.name
    return span.span_type, span.span_type
