"""`no_errors`: how many of the agent's steps went without an error?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallymark.scoring import Score, configurable
from tallymark.traces import SpanType

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallymark.scoring import EvalContext


@configurable(blocking=False)
def no_errors(span_type: SpanType | None = None) -> Callable[[EvalContext], Score]:
    """Spans that did not fail / spans, of one `span_type` or of all: 1 when none failed.

    A trace without such spans cannot be scored.
    """
    kind = "spans" if span_type is None else f"{span_type} spans"

    def score(ctx: EvalContext) -> Score:
        spans = ctx.trace.spans if span_type is None else ctx.trace.of_type(span_type)
        if not spans:
            return Score.failed(f"the trace has no {kind}")
        failed = len([span for span in spans if span.status == "error" or span.error is not None])
        return Score(1 - failed / len(spans), f"{failed} of {len(spans)} {kind} failed")

    return score
