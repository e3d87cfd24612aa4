"""Spans that are written as OTLP are read back as they were."""

from __future__ import annotations

from io import BytesIO

import msgspec

from tallymark.traces import Span, read_traces
from tallymark.traces.otlp_document import write_otlp


def test_what_is_written_is_read_back() -> None:
    call = Span(
        span_id="1", name="call", span_type="generation", model="m", input="q", output="a",
        start_ms=1_768_467_600_000.0, duration_ms=12.5, input_tokens=5, output_tokens=7, cost=0.01,
    )  # fmt: skip
    tool = Span(
        span_id="2", parent_id="1", name="grep", span_type="tool", tool_name="grep",
        tool_input="x", tool_output="y", start_ms=1_768_467_600_001.0, error="bad",
    )  # fmt: skip
    document = write_otlp([call, tool], {"service.name": "me"}, "t")
    [trace] = read_traces(BytesIO(msgspec.json.encode(document)))
    first, second = trace.spans
    for name in ("span_type", "model", "input", "output", "duration_ms", "tokens", "cost"):
        assert getattr(first, name) == getattr(call, name), name
    assert (second.tool_name, second.tool_input, second.tool_output) == ("grep", "x", "y")
    assert second.parent_id == first.span_id
    assert second.failed
