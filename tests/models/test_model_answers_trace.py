from __future__ import annotations

from tests.models.model_conformance import request

from tallymark.models import Answer, trace_of
from tallymark.traces import Span


def test_an_answer_without_spans_is_one_model_call() -> None:
    answer = Answer(
        output="four", latency=0.25, input_tokens=3, output_tokens=1, cost=0.5, model="m"
    )
    trace = trace_of(request("2 + 2?"), answer)
    assert trace.duration_ms == 250
    assert trace.spans == [
        Span(
            span_id="answer",
            name="answer",
            span_type="generation",
            input="2 + 2?",
            output="four",
            model="m",
            duration_ms=250,
            input_tokens=3,
            output_tokens=1,
            cost=0.5,
        )
    ]


def test_tool_calls_alone_are_followed_by_the_answer() -> None:
    tool = Span(span_type="tool", tool_name="add")
    trace = trace_of(request("x"), Answer(output="four", latency=0, spans=(tool,)))
    assert trace.spans[0] == tool
    assert trace.last_output == "four"


def test_model_calls_are_left_as_they_were() -> None:
    spans = (Span(span_type="generation", output="four"),)
    assert trace_of(request("x"), Answer(output="four", latency=0, spans=spans)).spans == [*spans]
