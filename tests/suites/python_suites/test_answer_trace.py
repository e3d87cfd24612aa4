"""What an agent returns, as the trace that scorers see."""

from __future__ import annotations

import datetime as dt
import enum
import math
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pydantic
import pytest

from tallymark.errors import InvalidInput
from tallymark.scoring import EvalContext
from tallymark.suites.python_suites.answer_trace import CallFacts, make_failed_trace, to_trace
from tallymark.traces import Span, Trace

ASKED = CallFacts("t#1", "t", "Hello", 12.5)


def test_a_string_is_one_generation() -> None:
    trace = to_trace("Hi there", ASKED)
    assert (trace.trace_id, trace.name, trace.duration_ms) == ("t#1", "t", 12.5)
    assert [(s.span_type, s.input, s.output) for s in trace.spans] == [
        ("generation", "Hello", "Hi there")
    ]


@pytest.mark.parametrize(
    "returned",
    [
        {
            "trace": {"traceId": "own", "name": "n"},
            "spans": [{"spanType": "tool", "toolName": "x"}],
        },
        {"trace_id": "own", "name": "n", "spans": [{"span_type": "tool", "tool_name": "x"}]},
        Trace(trace_id="own", name="n", spans=[Span(span_type="tool", tool_name="x")]),
    ],
)
def test_a_trace_is_taken_as_it_is(returned: object) -> None:
    trace = to_trace(returned, ASKED, emitted=Trace(spans=[Span(name="emitted")]))
    assert (trace.trace_id, trace.name, trace.tool_names) == ("own", "n", ["x"])


def test_a_trace_is_completed_with_what_is_known_of_the_call() -> None:
    trace = to_trace(Trace(), ASKED, emitted=Trace(spans=[Span(name="emitted")]))
    assert (trace.trace_id, trace.name, trace.duration_ms) == ("t#1", "t", 12.5)
    assert [span.name for span in trace.spans] == ["question", "emitted"]


def test_a_mapping_with_an_output_tells_usage_tools_and_metadata() -> None:
    trace = to_trace(
        {
            "output": {"answer": 42},
            "usage": {"prompt_tokens": 10, "outputTokens": 5, "cost": 0.25},
            "tool_calls": ["search", {"name": "refund", "arguments": {"id": 1}, "result": "done"}],
            "model": "m-1",
            "steps": 3,
            "metadata": {"user": "alice"},
        },
        ASKED,
    )
    assert trace.last_output == '{"answer":42}'
    assert (trace.tokens, trace.cost, trace.spans[-1].model) == (15, 0.25, "m-1")
    assert trace.tool_names == ["search", "refund"]
    assert (trace.spans[1].tool_input, trace.spans[1].tool_output) == ('{"id":1}', "done")
    assert trace.metadata == {"steps": 3, "user": "alice"}


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        (None, "the agent returned None instead of a string, data that JSON can hold, a mapping"),
        (object, "instead of a string"),
        (b"bytes", "the agent returned b'bytes' (bytes) instead of"),
        (math.inf, "the agent returned inf instead of"),
        ({"answer": object()}, "instead of"),
        ({"output": None}, "instead of"),
        ({"spans": [{"span_type": "wish"}]}, "cannot be read: spans[0].span_type must be one of"),
        ({"output": "x", "usage": 7}, "cannot be read: usage must be a mapping, not 7"),
        ({"output": "x", "cost": -1}, "cost must be a finite number of at least 0, not -1"),
        ({"output": "x", "tool_calls": "search"}, "tool_calls must be a list, not 'search'"),
        ({"output": "x", "tool_calls": [{}]}, "a tool call must be a name, or have one"),
        ({"output": "x", "metadata": 5}, "cannot be read: metadata must be a mapping, not 5"),
    ],
)
def test_rubbish_is_refused_with_the_reason(returned: object, said: str) -> None:
    with pytest.raises(InvalidInput) as error:
        to_trace(returned, ASKED)
    assert said in str(error.value)


class Colour(enum.Enum):
    RED = "red"


class Answer(pydantic.BaseModel):
    city: str
    when: dt.date = dt.date(2026, 1, 2)


@dataclass
class Found:
    cities: list[Answer]


@pytest.mark.parametrize(
    ("returned", "data", "text"),
    [
        (42, 42, "42"),
        (0.5, 0.5, "0.5"),
        (False, False, "false"),
        (np.float64(0.25), 0.25, "0.25"),
        (Decimal("1.5"), 1.5, "1.5"),
        ([1, "a"], [1, "a"], '[1,"a"]'),
        ((1, 2), [1, 2], "[1,2]"),
        ({"answer": "x"}, {"answer": "x"}, '{"answer":"x"}'),
        ({}, {}, "{}"),
        (Answer(city="Paris"), {"city": "Paris", "when": "2026-01-02"}, None),
        (
            Found([Answer(city="Paris")]),
            {"cities": [{"city": "Paris", "when": "2026-01-02"}]},
            None,
        ),
        (
            {"output": Answer(city="Paris"), "cost": 0.5},
            {"city": "Paris", "when": "2026-01-02"},
            None,
        ),
        ({"output": 42}, 42, "42"),
        ("42", "42", "42"),
        ("{}", "{}", "{}"),
        (Colour.RED, "red", "red"),
    ],
)
def test_data_stays_data_and_text_stays_text(returned: Any, data: Any, text: str | None) -> None:
    trace = to_trace(returned, ASKED)
    for seen in (trace, Trace.from_dict(trace.to_dict())):  # as it is kept, too
        ctx = EvalContext(seen)
        assert ctx.output == data
        assert type(ctx.output) is type(data) or isinstance(ctx.output, type(data))
        assert ctx.output_text == text or text is None


EMITTED = Trace(
    spans=[
        Span(span_id="1", span_type="tool", tool_name="search"),
        Span(span_id="2", span_type="generation", output="Paris", input_tokens=7, cost=0.1),
    ]
)


@pytest.mark.parametrize(
    ("returned", "outputs", "cost", "tools"),
    [
        ("Paris", ["", "Paris"], 0.1, ["search"]),
        ("It is Paris.", ["", "Paris", "It is Paris."], 0.1, ["search"]),
        ({"output": "Paris", "cost": 0.5}, ["", "Paris"], 0.1, ["search"]),
        ({"output": "Paris", "tool_calls": ["search"]}, ["", "Paris"], 0.1, ["search"]),
    ],
    ids=["told already", "another answer", "usage counts once", "tools count once"],
)
def test_emitted_spans_are_joined_by_what_they_do_not_tell(
    returned: Any, outputs: list[str], cost: float, tools: list[str]
) -> None:
    trace = to_trace(returned, ASKED, EMITTED)
    assert [span.output for span in trace.spans if span.name != "question"] == outputs
    assert trace.first_input == ASKED.input
    assert (trace.cost, trace.tool_names) == (cost, tools)


def test_returned_usage_counts_when_the_spans_know_none() -> None:
    emitted = Trace(spans=[Span(span_type="generation", output="Paris")])
    trace = to_trace({"output": "Paris", "cost": 0.5, "tool_calls": ["search"]}, ASKED, emitted)
    assert (trace.cost, trace.tool_names, trace.last_output) == (0.5, ["search"], "Paris")


def test_a_failed_call_keeps_what_was_emitted() -> None:
    trace = make_failed_trace("the agent raised ValueError", ASKED, EMITTED)
    assert (trace.status, trace.spans[-1].error) == ("error", "the agent raised ValueError")
    assert trace.spans[:2] == EMITTED.spans
    assert trace.last_output == "Paris"
