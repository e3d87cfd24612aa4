"""The context for pydantic-evals' evaluators, made from a trace and its test.

Imports pydantic-evals, so it is itself imported late.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from pydantic_evals.evaluators import EvaluatorContext
from pydantic_evals.otel import SpanNode, SpanTree

from tallymark.judging.trace_evidence import find_tool_name, read_tool_arguments, write_as_text
from tallymark.traces import Trace

if TYPE_CHECKING:
    from tallymark.scoring import EvalContext
    from tallymark.traces import Span

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(kw_only=True)
class TraceContext(EvaluatorContext[str, Any, dict[str, Any]]):
    """The library's own context, except that its span tree is made only when it is asked for."""

    trace: Trace

    @property
    def span_tree(self) -> SpanTree:
        """The trace's spans, named and described as pydantic-ai's own instrumentation does."""
        return make_span_tree(self.trace)


def make_evaluator_context(ctx: EvalContext) -> TraceContext:
    """All that an evaluator may ask for, from the trace and the test."""
    trace = ctx.trace
    metrics = {
        "requests": len(trace.generations),
        "cost": trace.cost,
        "input_tokens": trace.input_tokens,
        "output_tokens": trace.output_tokens,
    }
    return TraceContext(
        name=trace.name or None,
        inputs=ctx.input,
        metadata=ctx.metadata,
        expected_output=ctx.expected.output,
        output=ctx.output,
        duration=trace.duration_ms / 1000,
        _span_tree=SpanTree(),
        attributes=trace.metadata,
        metrics={key: value for key, value in metrics.items() if value is not None},
        trace=trace,
    )


def make_span_tree(trace: Trace) -> SpanTree:
    """The spans in their order and hierarchy; parents that form a circle are cut open."""
    timed = all(span.start_ms is not None for span in trace.spans)
    numbers: dict[str, int] = {}
    nodes = []
    for place, (_, span) in enumerate(trace.walk(), start=1):
        began = _EPOCH + timedelta(milliseconds=(span.start_ms or 0.0) if timed else place)
        nodes.append(
            SpanNode(
                name=_name_span(span),
                trace_id=1,
                span_id=place,
                parent_span_id=numbers.get(span.parent_id) if span.parent_id else None,
                start_timestamp=began,
                end_timestamp=began + timedelta(milliseconds=span.duration_ms),
                attributes={**span.metadata, **_describe_span(span)},
                status="error" if span.failed else "unset",
            )
        )
        numbers.setdefault(span.span_id, place)
    tree = SpanTree()
    tree.add_spans(nodes)
    return tree


def _name_span(span: Span) -> str:
    """Tool calls are known by their span's name, so that one follows pydantic-ai's convention."""
    if span.span_type != "tool" or span.name == "running tool":
        return span.name
    if span.name.startswith("execute_tool "):
        return span.name
    return f"execute_tool {find_tool_name(span)}"


def _describe_span(span: Span) -> dict[str, Any]:
    if span.span_type == "tool":
        return {
            "gen_ai.tool.name": find_tool_name(span),
            "gen_ai.tool.call.arguments": write_as_text(read_tool_arguments(span)),
        }
    if span.span_type == "generation":
        return {"gen_ai.operation.name": "chat", "gen_ai.request.model": span.model or "unknown"}
    return {}
