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
    spans = (Span(span_type="generation", input="x", output="four"),)
    assert trace_of(request("x"), Answer(output="four", latency=0, spans=spans)).spans == [*spans]


def test_an_answer_that_no_model_call_gave_is_added_without_counting_twice() -> None:
    spans = (Span(span_type="generation", input="x", output="draft", cost=0.5),)
    answer = Answer(output="final", latency=0, cost=0.5, spans=spans)
    trace = trace_of(request("x"), answer)
    assert (trace.answer, trace.cost) == ("final", 0.5)


def test_the_question_is_the_prompt_whatever_the_spans_say() -> None:
    spans = (
        Span(span_type="tool", input='{"order":17}'),
        Span(span_type="generation", input="SYSTEM: refund? USER: x", output="four"),
    )
    trace = trace_of(request("x"), Answer(output="four", latency=0, spans=spans))
    assert trace.first_input == "x"
    assert trace.spans[1:] == [*spans]
