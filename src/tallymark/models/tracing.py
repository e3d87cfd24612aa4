"""An answer as a trace, which is what scorers see."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallymark.traces import Span, Trace

if TYPE_CHECKING:
    from tallymark.models.model import Answer, Request


def trace_of(request: Request, answer: Answer) -> Trace:
    """The trace of one answer. Where no model call was reported, the whole answer is one.

    Made when a scorer needs it: most answers need no trace, and their spans would only repeat them.
    """
    spans = list(answer.spans)
    if not any(span.span_type == "generation" for span in spans):
        spans.append(_make_generation(request, answer))
    return Trace(name=answer.model or "", duration_ms=answer.latency * 1000, spans=spans)


def _make_generation(request: Request, answer: Answer) -> Span:
    return Span(
        span_id="answer",
        name="answer",
        span_type="generation",
        input=request.prompt,
        output=answer.output,
        model=answer.model,
        duration_ms=answer.latency * 1000,
        input_tokens=answer.input_tokens,
        output_tokens=answer.output_tokens,
        cost=answer.cost,
    )
