"""Export requests as bytes, made span by span."""

from __future__ import annotations

import json
from typing import Any

from opentelemetry.proto.collector.trace.v1 import trace_service_pb2

START = 1_790_000_000.0


def span(
    trace: int = 1,
    number: int = 1,
    parent: int | None = None,
    *,
    name: str = "step",
    start: float = START,
    seconds: float = 1.0,
    failed: bool = False,
    **attributes: Any,
) -> dict[str, Any]:
    """A span in OTLP's JSON; `_` in names of attributes is a dot."""
    made: dict[str, Any] = {
        "traceId": f"{trace:032x}",
        "spanId": f"{number:016x}",
        "name": name,
        "startTimeUnixNano": str(int(start * 1e9)),
        "endTimeUnixNano": str(int((start + seconds) * 1e9)),
        "attributes": [write_attribute(key, each) for key, each in attributes.items()],
    }
    if parent is not None:
        made["parentSpanId"] = f"{parent:016x}"
    if failed:
        made["status"] = {"code": 2, "message": "it broke"}
    return made


def model_call(number: int = 2, parent: int | None = 1, trace: int = 1, **more: Any) -> Any:
    """A call of a model with its tokens."""
    attributes = {
        "gen_ai__operation__name": "chat",
        "gen_ai__request__model": "gpt-4o-mini",
        "gen_ai__usage__input_tokens": 100,
        "gen_ai__usage__output_tokens": 10,
        "gen_ai__input__messages": json.dumps([{"role": "user", "content": "How warm is it?"}]),
        "gen_ai__output__messages": json.dumps([{"role": "assistant", "content": "12 degrees."}]),
    }
    return span(trace, number, parent, name="chat", **{**attributes, **more})


def tool_call(number: int = 3, parent: int | None = 1, trace: int = 1, **more: Any) -> Any:
    """A call of a tool."""
    attributes = {"gen_ai__operation__name": "execute_tool", "gen_ai__tool__name": "search"}
    return span(trace, number, parent, name="execute_tool search", **{**attributes, **more})


def write_attribute(name: str, value: Any) -> dict[str, Any]:
    kind = "intValue" if isinstance(value, int) else "stringValue"
    return {"key": name.replace("__", "."), "value": {kind: str(value)}}


def as_json(*spans: dict[str, Any], **resource: Any) -> bytes:
    """A request in JSON; `__` in names of the resource's attributes is a dot."""
    attributes = [write_attribute(key, each) for key, each in resource.items()]
    batch = {"resource": {"attributes": attributes}, "scopeSpans": [{"spans": list(spans)}]}
    return json.dumps({"resourceSpans": [batch]}).encode()


def as_protobuf(*spans: dict[str, Any], **resource: Any) -> bytes:
    """The same in protobuf."""
    request = trace_service_pb2.ExportTraceServiceRequest()
    batch = request.resource_spans.add()
    for key, each in resource.items():
        batch.resource.attributes.add(key=key.replace("__", ".")).value.string_value = str(each)
    scope = batch.scope_spans.add()
    for told in spans:
        made = scope.spans.add(
            trace_id=bytes.fromhex(told["traceId"]),
            span_id=bytes.fromhex(told["spanId"]),
            parent_span_id=bytes.fromhex(told.get("parentSpanId", "")),
            name=told["name"],
            start_time_unix_nano=int(told["startTimeUnixNano"]),
            end_time_unix_nano=int(told["endTimeUnixNano"]),
        )
        if "status" in told:
            made.status.code, made.status.message = 2, told["status"]["message"]
        for each in told["attributes"]:
            value = made.attributes.add(key=each["key"]).value
            if "intValue" in each["value"]:
                value.int_value = int(each["value"]["intValue"])
            else:
                value.string_value = each["value"]["stringValue"]
    return bytes(request.SerializeToString())
