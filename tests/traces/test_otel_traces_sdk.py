"""Spans that were collected in this process."""

from __future__ import annotations

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Status, StatusCode

from tallymark.traces import traces_from_otel


def test_finished_spans_become_traces() -> None:
    provider, exporter = TracerProvider(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("t")
    with tracer.start_as_current_span("agent") as agent:
        with tracer.start_as_current_span(
            "chat", attributes={"gen_ai.operation.name": "chat"}
        ) as s:
            s.add_event("gen_ai.choice", {"content": "Hello"})
            s.set_attribute("tags", ["a", "b"])
        agent.set_status(Status(StatusCode.ERROR, "gave up"))
    with tracer.start_as_current_span("other"):
        pass
    first, second = traces_from_otel(exporter.get_finished_spans())
    assert (first.name, first.status, first.last_output) == ("agent", "error", "Hello")
    assert first.spans[1].parent_id == first.spans[0].span_id
    assert first.spans[1].metadata["tags"] == ["a", "b"]
    assert first.spans[0].error == "gave up"
    assert first.metadata["resource"]["telemetry.sdk.language"] == "python"
    assert (len(first.trace_id), len(first.spans[0].span_id), second.name) == (32, 16, "other")


def test_no_spans_are_no_traces() -> None:
    assert traces_from_otel([]) == []
