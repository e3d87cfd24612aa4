from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.models.model_conformance import request

from tallymark.models import Answer, Message, Request, trace_of
from tallymark.models.model_answers import (
    WrongShape,
    draft_answer,
    draft_answer_from_trace,
    finish_answer,
)
from tallymark.models.token_prices import Pricing
from tallymark.traces import Span, Trace

TEN = Pricing(10, 10)


@pytest.mark.parametrize("key", ["output", "text", "response"])
def test_the_output_goes_by_three_names(key: str) -> None:
    assert draft_answer({key: "four"}, 0.5) == Answer(output="four", latency=0.5)


@pytest.mark.parametrize(
    "data",
    [
        {"input_tokens": 3, "output_tokens": 4, "cost": 0.5},
        {"usage": {"input_tokens": 3, "output_tokens": 4, "cost": 0.5}},
        {"usage": {"prompt_tokens": 3, "completion_tokens": 4}, "cost": 0.5},
    ],
)
def test_usage_stands_beside_the_output_or_under_its_own_key(data: dict[str, Any]) -> None:
    draft = draft_answer({"output": "x", **data}, 0)
    assert (draft.input_tokens, draft.output_tokens, draft.cost) == (3, 4, 0.5)
    assert draft.tokens_counted_by == "provider"


def test_where_an_answer_counts_twice_its_usage_wins() -> None:
    usage = {"input_tokens": 3, "prompt_tokens": 30, "output_tokens": 4, "cost": 0.5}
    beside = {"input_tokens": 99, "output_tokens": 99, "cost": 9.0}
    draft = draft_answer({"output": "x", **beside, "usage": usage}, 0)
    assert (draft.input_tokens, draft.output_tokens, draft.cost) == (3, 4, 0.5)


def test_tool_calls_become_spans() -> None:
    calls = ["look", {"name": "add", "arguments": {"a": 1}, "output": 2}]
    calls += [{"name": "send", "args": "x", "result": "no", "error": "refused"}]
    spans = draft_answer({"output": "x", "tool_calls": calls}, 0).spans
    assert [(s.tool_name, s.tool_input, s.tool_output, s.failed) for s in spans] == [
        ("look", None, None, False),
        ("add", '{"a":1}', "2", False),
        ("send", "x", "no", True),
    ]
    assert {s.span_type for s in spans} == {"tool"}


def test_spans_are_taken_as_objects_or_as_they_are() -> None:
    span = Span(name="think", span_type="generation", output="hm")
    camel = {"name": "think", "spanType": "generation", "output": "hm"}
    assert draft_answer({"output": "x", "spans": [span, camel]}, 0).spans == (span, span)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({}, "output is missing"),
        ({"output": 4}, "output must be text, not 4"),
        ({"output": "x", "usage": 3}, "usage must be an object"),
        ({"output": "x", "input_tokens": -1}, "input_tokens must be a whole number"),
        ({"output": "x", "output_tokens": 1.5}, "output_tokens must be a whole number"),
        ({"output": "x", "input_tokens": True}, "input_tokens must be a whole number"),
        ({"output": "x", "cost": float("nan")}, "cost must be a number of at least 0"),
        ({"output": "x", "cost": "free"}, "cost must be a number"),
        ({"output": "x", "tool_calls": "look"}, "tool_calls must be a list"),
        ({"output": "x", "tool_calls": [{}]}, r"tool_calls\[0\] must have a name"),
        ({"output": "x", "spans": [{"duration_ms": -1}]}, r"spans\[0\]\.duration_ms"),
        ({"output": "x", "spans": "all"}, "spans must be a list"),
    ],
)
def test_wrong_values_are_refused_by_key(data: dict[str, Any], message: str) -> None:
    with pytest.raises(WrongShape, match=message):
        draft_answer(data, 0)


def test_a_trace_is_an_answer_too() -> None:
    spans = [
        Span(span_type="generation", output="a", model="m", input_tokens=1, output_tokens=2),
        Span(span_type="tool", output="3"),
        Span(span_type="generation", output="b", input_tokens=3, cost=0.5),
    ]
    draft = draft_answer_from_trace(Trace(spans=spans), 2.0)
    assert (draft.output, draft.latency, draft.model) == ("b", 2.0, "m")
    assert (draft.input_tokens, draft.output_tokens, draft.cost) == (4, 2, 0.5)
    assert draft.spans == tuple(spans)


def test_a_trace_without_model_calls_ends_with_its_last_output() -> None:
    spans = [Span(output="first"), Span(output="last"), Span()]
    assert draft_answer_from_trace(Trace(spans=spans), 0).output == "last"


def done(draft: Answer, pricing: Pricing | None = None, asked: Request | None = None) -> Answer:
    return asyncio.run(finish_answer(asked or request("What is 2 + 2?"), draft, pricing))


def test_reported_tokens_are_kept() -> None:
    answer = done(Answer(output="four", latency=0, input_tokens=1, output_tokens=2))
    assert (answer.input_tokens, answer.output_tokens) == (1, 2)
    assert answer.tokens_counted_by == "provider"


def test_tokens_that_nobody_reported_are_counted_here() -> None:
    messages = (Message("system", "hello"), Message("user", "What is 2 + 2?"))
    answer = done(Answer(output="hello", latency=0), asked=Request(messages=messages))
    assert (answer.input_tokens, answer.output_tokens) == (9, 1)
    assert answer.tokens_counted_by == "local"


def test_a_count_that_is_half_local_is_called_local() -> None:
    answer = done(Answer(output="hello", latency=0, input_tokens=5))
    assert (answer.input_tokens, answer.output_tokens) == (5, 1)
    assert answer.tokens_counted_by == "local"


def test_the_users_price_wins() -> None:
    draft = Answer(output="x", latency=0, input_tokens=40, output_tokens=60, cost=9.0)
    assert done(draft, TEN).cost == pytest.approx(0.001)
    assert done(draft).cost == 9.0


def test_an_unknown_price_stays_unknown() -> None:
    assert done(Answer(output="x", latency=0)).cost is None


def test_half_a_surrogate_pair_is_replaced() -> None:
    assert done(Answer(output="a\ud83d!", latency=0)).output == "a?!"


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
