"""Spans that the OpenTelemetry SDK collected in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tallymark.traces.assembly import assemble
from tallymark.traces.otel import OtelEvent, OtelSpan
from tallymark.traces.plain import to_json_safe

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tallymark.traces.trace import Trace


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
