"""A trace from the OpenTelemetry spans that share its id, with nothing counted twice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from tallymark.traces.call_price import price
from tallymark.traces.chat_messages import unpack_json
from tallymark.traces.lenient_json import as_label, as_list, as_mapping, to_json_safe
from tallymark.traces.otel_conversation import mentions_tools
from tallymark.traces.otel_spans import (
    PROVIDER,
    OtelEvent,
    OtelSpan,
    convert_span,
    count_span,
    find_answered,
    find_asked,
    find_provider,
    to_span,
    translate_span,
)
from tallymark.traces.token_counts import FIELDS
from tallymark.traces.trace import Span, Trace, list_question_spans
from tallymark.traces.trace_facts import KNOWN

if TYPE_CHECKING:
    from collections.abc import Iterable


_CONVERSATION = ("messages", "tool_calls", *PROVIDER)
"""Metadata of a model call that others are made of: tool calls, and prices."""
_NO_USAGE: dict[str, None] = dict.fromkeys((*FIELDS, "cost"))
_COUNTED = frozenset((*PROVIDER, *KNOWN, "gen_ai.operation.name", "openinference.span.kind"))
"""Attributes that counting needs besides the fields of a span."""


def assemble(found: Iterable[OtelSpan], resource: dict[str, Any] | None = None) -> Trace:
    """The trace of spans with one trace id, ordered by their start, parents first.

    Instrumentations overlap: two libraries report the same model call one inside the other, agents
    repeat the usage of the calls below them, and a model's tool request is reported as well as the
    tool's own span. Each of these counts once.
    """
    otel = _sort_spans(found)
    return _put_together(otel, [to_span(span) for span in otel], resource)


def assemble_counted(found: Iterable[OtelSpan], resource: dict[str, Any] | None = None) -> Trace:
    """The trace for counting: of its texts, only the first question and the answer.

    It is the whole trace if counting needs more.
    """
    otel = [translate_span(span) for span in _sort_spans(found)]
    spans = [count_span(span, _COUNTED) for span in otel]
    calls = [nth for nth, span in enumerate(spans) if span.span_type == "generation"]
    if not any(span.span_type == "tool" for span in spans):
        for nth in calls:  # then what models wished for counts
            if mentions_tools(otel[nth].attributes, otel[nth].events):
                spans[nth] = convert_span(otel[nth])
    if calls and (said := spans[calls[-1]].output or find_answered(otel[calls[-1]])):
        spans[calls[-1]] = replace(spans[calls[-1]], output=said)
        for nth in list_question_spans(spans):
            if asked := spans[nth].input or find_asked(otel[nth]):
                spans[nth] = replace(spans[nth], input=asked)
                break
        return _put_together(otel, spans, resource)
    # The answer may stand anywhere.
    return _put_together(otel, [convert_span(span) for span in otel], resource)


def _sort_spans(found: Iterable[OtelSpan]) -> list[OtelSpan]:
    # Logfire sends a span twice, when it begins and when it ends.
    otel = [span for span in found if span.attributes.get("logfire.span_type") != "pending_span"]
    otel.sort(key=lambda span: (span.start_ns, -span.end_ns))
    return otel


def _put_together(
    otel: list[OtelSpan], spans: list[Span], resource: dict[str, Any] | None
) -> Trace:
    spans = [_add_price(span) for span in _drop_totals(_drop_doubles(spans))]
    if not any(span.span_type == "tool" for span in spans):
        spans = add_requested_tools(spans)
    known = {span.span_id for span in otel}
    root = next((span for span in otel if span.parent_id not in known), None)
    begin = min((span.start_ns for span in otel if span.start_ns), default=0)
    end = max((span.end_ns for span in otel), default=0)
    return Trace(
        trace_id=otel[0].trace_id if otel else "",
        name=root.name if root else "",
        status="error" if root and root.failed else "ok",
        duration_ms=max(0, end - begin) / 1e6 if begin else 0.0,
        metadata={"resource": resource} if resource else {},
        spans=spans,
    )


def _drop_doubles(spans: list[Span]) -> list[Span]:
    """A model call directly inside a model call, or a tool inside the same tool, is one call.

    The outer one counts, with what only the inner one knows. A model call that holds several is
    not one of them, but a step.
    """
    kept = {id(span): span for span in spans}
    by_id = {span.span_id: span for span in spans}
    inside: dict[int, list[Span]] = {}
    for span in spans:
        outer = by_id.get(span.parent_id or "")
        if outer is not None and outer is not span and _is_same_call(outer, span):
            inside.setdefault(id(outer), []).append(span)
    for outer in reversed(spans):  # what stands deepest first, so that it is handed up all the way
        inner = inside.get(id(outer), [])
        if len(inner) == 1:
            kept[id(outer)] = _inherit(kept[id(outer)], kept[id(inner[0])])
            kept[id(inner[0])] = replace(
                kept[id(inner[0])],
                span_type="span",
                **_NO_USAGE,
            )
        elif inner:
            kept[id(outer)] = replace(outer, span_type="span")
    return list(kept.values())


def _is_same_call(outer: Span, inner: Span) -> bool:
    if outer.span_type != inner.span_type:
        return False
    same_tool = inner.span_type == "tool" and outer.tool_name == inner.tool_name
    return same_tool or inner.span_type == "generation"


def _inherit(outer: Span, inner: Span) -> Span:
    """The outer of two reports of one call, with what only the inner one has."""
    more: dict[str, Any] = {
        name: getattr(inner, name)
        for name in ("input", "output", "tool_input", "tool_output", "model")
        if not getattr(outer, name)
    }
    if not _has_usage(outer):
        more |= {name: getattr(inner, name) for name in _NO_USAGE}
    said = {key: inner.metadata[key] for key in _CONVERSATION if key in inner.metadata}
    return replace(
        outer,
        **more,
        output_seen=outer.output_seen or inner.output_seen,
        metadata={**said, **outer.metadata},
    )


def _drop_totals(spans: list[Span]) -> list[Span]:
    """Usage where it was spent: on model calls, or if they have none, on the outermost spans."""
    spent = {span.span_id for span in spans if _has_usage(span)}
    calls = any(span.span_type == "generation" and span.span_id in spent for span in spans)
    parents = {span.span_id: span.parent_id for span in spans}
    clear: set[str] = set()

    def keeps(span: Span) -> bool:
        if calls:
            # Embedding calls are no generations, but what they used was used all the same.
            operation = span.metadata.get("gen_ai.operation.name")
            kind = span.metadata.get("openinference.span.kind")
            return span.span_type == "generation" or "embedding" in f"{operation} {kind}".lower()
        return not _is_below_any(span.parent_id, spent, parents, clear)

    return [
        span if span.span_id not in spent or keeps(span) else replace(span, **_NO_USAGE)
        for span in spans
    ]


def _has_usage(span: Span) -> bool:
    known = span.input_tokens is not None or span.output_tokens is not None
    return known or span.cost is not None


def _is_below_any(
    span_id: str | None, some: set[str], parents: dict[str, str | None], clear: set[str]
) -> bool:
    """True when the span or one above it is among some; circles end the search.

    `clear` has those of which it is known that it is not so: a long way up is gone once.
    """
    seen: set[str] = set()
    while span_id is not None and span_id not in seen and span_id not in clear:
        if span_id in some:
            return True
        seen.add(span_id)
        span_id = parents.get(span_id)
    clear |= seen
    return False


def _add_price(span: Span) -> Span:
    if span.cost is not None or not _has_usage(span):
        return span
    cost = price(span.model, find_provider(span), span, start_ms=span.start_ms)
    return span if cost is None else replace(span, cost=cost, cost_computed=True)


def add_requested_tools(spans: list[Span]) -> list[Span]:
    """The spans with a tool span after each tool call that a model requested.

    For traces that have only model calls. The answer of the tool is taken from the messages of a
    later model call, where it is visible.
    """
    answers = {
        result["id"]: result["text"]
        for span in spans
        for message in as_list(span.metadata.get("messages"))
        for result in as_list(as_mapping(message).get("tool_results"))
    }
    complete: list[Span] = []
    for span in spans:
        complete.append(span)
        asked = span.metadata.get("tool_calls") if span.span_type == "generation" else None
        outputs = _list_output_tools(span) if asked else ()
        for i, call in enumerate(as_list(asked)):
            if call["name"] not in outputs:
                complete.append(_make_tool_span(span, i, call, answers.get(call["id"])))
    return complete


def _make_tool_span(span: Span, index: int, call: dict[str, Any], answer: str | None) -> Span:
    return Span(
        span_id=f"{span.span_id}/tool-{index + 1}",
        name=call["name"],
        span_type="tool",
        parent_id=span.parent_id,
        input=call["arguments"],
        output=answer or "",
        tool_name=call["name"],
        tool_input=call["arguments"],
        tool_output=answer,
        start_ms=None if span.start_ms is None else span.start_ms + span.duration_ms,
        metadata={"requested_by": span.span_id},
    )


def _list_output_tools(span: Span) -> set[str | None]:
    """pydantic-ai asks for structured output through a tool that is none."""
    parameters = as_mapping(unpack_json(span.metadata.get("model_request_parameters")))
    return {
        as_label(as_mapping(each).get("name")) for each in as_list(parameters.get("output_tools"))
    }


def traces_from_otel(spans: Iterable[Any]) -> list[Trace]:
    """The traces that finished spans (`ReadableSpan`s) belong to, in the order they began."""
    groups: dict[str, list[OtelSpan]] = {}
    resources: dict[str, dict[str, Any]] = {}
    for each in spans:
        span = _read_sdk_span(each)
        groups.setdefault(span.trace_id, []).append(span)
        resources.setdefault(span.trace_id, _read_sdk_attributes(each.resource.attributes))
    traces = [assemble(group, resources[trace_id]) for trace_id, group in groups.items()]
    return sorted(traces, key=lambda trace: trace.spans[0].start_ms or 0 if trace.spans else 0)


def _read_sdk_span(span: Any) -> OtelSpan:
    return OtelSpan(
        trace_id=f"{span.context.trace_id:032x}",
        span_id=f"{span.context.span_id:016x}",
        parent_id=f"{span.parent.span_id:016x}" if span.parent else None,
        name=span.name,
        start_ns=span.start_time or 0,
        end_ns=span.end_time or span.start_time or 0,
        failed=span.status.status_code.name == "ERROR",
        message=span.status.description or "",
        attributes=_read_sdk_attributes(span.attributes),
        events=[
            OtelEvent(event.name, _read_sdk_attributes(event.attributes)) for event in span.events
        ],
    )


def _read_sdk_attributes(attributes: Any) -> dict[str, Any]:
    """Attributes as JSON can hold them: sequences are tuples in the SDK."""
    return {
        key: list(value) if isinstance(value, tuple) else to_json_safe(value)
        for key, value in (attributes or {}).items()
    }
