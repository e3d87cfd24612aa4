"""What OpenTelemetry's own ConsoleSpanExporter prints."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor
from opentelemetry.trace import Status, StatusCode

from tallymark.errors import TraceError
from tallymark.traces import Trace, read_traces

Read = Callable[..., list[Trace]]
TOOL = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "refund"}
CHAT = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4o-mini"}


def write_spread(span: ReadableSpan) -> str:
    return f"{span.to_json()}\n"  # as the exporter does where nobody says how


def print_spans(formatter: Callable[[ReadableSpan], str] = write_spread, noise: str = "") -> str:
    """Two traces as the SDK prints them, with what the program itself prints between."""
    out = io.StringIO()
    provider = TracerProvider(resource=Resource({"service.name": "desk"}))
    provider.add_span_processor(
        SimpleSpanProcessor(ConsoleSpanExporter(out=out, formatter=formatter))
    )
    tracer = provider.get_tracer("desk")
    for order in (17, 18):
        asked = [{"role": "user", "content": f"Refund order {order}"}]
        said = [{"role": "assistant", "content": "Done {\n}\n"}]
        with tracer.start_as_current_span("agent"):
            arguments = json.dumps({"order": order})
            with tracer.start_as_current_span("tool", attributes=TOOL) as span:
                span.set_attribute("gen_ai.tool.call.arguments", arguments)
                if order == 18:
                    span.record_exception(ValueError("no such order"))
                    span.set_status(Status(StatusCode.ERROR, "no such order"))
            with tracer.start_as_current_span("chat", attributes=CHAT) as span:
                span.set_attribute("gen_ai.input.messages", json.dumps(asked))
                span.set_attribute("gen_ai.output.messages", json.dumps(said))
                span.set_attribute("gen_ai.usage.input_tokens", 10)
        out.write(noise)
    return out.getvalue()


def write_line(span: ReadableSpan) -> str:
    return f"{span.to_json(indent=None)}\n"


NOISE = "answering\n{'a': 1}\n{\n  not json\n}\n}\n"
PRINTED = {
    "as it is": print_spans(),
    "lines of Windows": print_spans().replace("\n", "\r\n"),
    "between other lines": NOISE + print_spans(noise=NOISE),
    "one a line": print_spans(write_line),
    "an array": "[" + ",".join(print_spans(write_line).splitlines()) + "]",
}


@pytest.mark.parametrize("text", PRINTED.values(), ids=PRINTED)
@pytest.mark.parametrize("piped", [False, True])
def test_its_spans_are_traces(tmp_path: Path, read: Read, text: str, piped: bool) -> None:
    path = tmp_path / "spans.txt"
    path.write_bytes(text.encode())
    first, second = list(read_traces(io.BytesIO(text.encode()))) if piped else read(path)
    assert (first.first_input, first.answer) == ("Refund order 17", "Done {\n}\n")
    assert [(depth, span.span_type) for depth, span in first.walk()] == [
        (0, "span"),
        (1, "tool"),
        (1, "generation"),
    ]
    assert (first.name, first.tool_calls[0].tool_input) == ("agent", '{"order": 17}')
    assert (first.input_tokens, first.metadata["resource"]) == (10, {"service.name": "desk"})
    assert len(first.trace_id) == 32
    assert first.duration_ms > 0
    assert [span.error for span in second.spans] == [None, "no such order", None]


def test_a_span_that_is_cut_short_is_said_with_its_line(tmp_path: Path, read: Read) -> None:
    lines = print_spans().splitlines(keepends=True)
    path = tmp_path / "spans.txt"
    path.write_text("".join(lines[:-3]))
    with pytest.raises(TraceError, match=r"spans.txt:\d+: not valid JSON"):
        read(path)
    assert len(read(path, skip_broken=True)) == 2


def test_a_line_that_is_no_span_is_said(tmp_path: Path, read: Read) -> None:
    path = tmp_path / "spans.jsonl"
    path.write_text(print_spans(write_line) + '{"name": "x"}\n')
    with pytest.raises(TraceError, match="not a span of the console exporter"):
        read(path, format="console")
