"""Spans as an OTLP document in JSON, by the GenAI conventions: what `otlp_json` reads back."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

from tallymark.traces.token_counts import STANDARD
from tallymark.traces.trace import Span

_OPERATIONS = {"generation": "chat", "tool": "execute_tool", "retrieval": "retrieval"}


def write_otlp(spans: Iterable[Span], resource: Mapping[str, Any], trace_id: str) -> dict[str, Any]:
    """One export request. Ids become those of OpenTelemetry, the same for the same ids."""
    written = [_write_span(span, trace_id) for span in spans]
    batch = {
        "resource": {"attributes": write_attributes(resource)},
        "scopeSpans": [{"scope": {"name": "tallymark"}, "spans": written}],
    }
    return {"resourceSpans": [batch]}


def write_attributes(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Attributes that are known, as OTLP has them."""
    return [
        {"key": key, "value": _write_value(value)}
        for key, value in values.items()
        if value is not None
    ]


def _write_value(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    return {"doubleValue": value} if isinstance(value, float) else {"stringValue": str(value)}


def _write_span(span: Span, trace_id: str) -> dict[str, Any]:
    begins = round((span.start_ms or 0.0) * 1e6)
    ends = begins + round(span.duration_ms * 1e6)
    written = {
        "traceId": _hash_id(trace_id, 32),
        "spanId": _hash_id(f"{trace_id} {span.span_id}", 16),
        "name": span.name or span.span_type,
        "startTimeUnixNano": str(begins),
        "endTimeUnixNano": str(ends),
        "attributes": write_attributes(_name_attributes(span)),
        "status": {"code": 2, "message": span.error or ""} if span.failed else {},
    }
    if span.parent_id:
        written["parentSpanId"] = _hash_id(f"{trace_id} {span.parent_id}", 16)
    return written


def _name_attributes(span: Span) -> dict[str, Any]:
    """The attributes of a span in the names of the conventions; None for unknown ones."""
    said: dict[str, Any] = {
        "gen_ai.operation.name": _OPERATIONS.get(span.span_type),
        "gen_ai.request.model": span.model,
        **{name: getattr(span, field) for field, name in STANDARD.items()},
        "gen_ai.usage.cost": span.cost,
    }
    if span.span_type == "tool":
        return said | {
            "gen_ai.tool.name": span.tool_name or span.name,
            "gen_ai.tool.call.arguments": span.tool_input or span.input or None,
            "gen_ai.tool.call.result": span.tool_output or span.output or None,
        }
    return said | {"input.value": span.input or None, "output.value": span.output or None}


def _hash_id(text: str, digits: int) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:digits]
