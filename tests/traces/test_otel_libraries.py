"""What real libraries wrote, recorded by `scripts/record_traces.py`, and their smaller habits."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from scripts.record_traces import FIXTURES, RECORDINGS, Recording, find_faults

from tallymark.errors import Place
from tallymark.traces import Span, otlp_proto, read_traces
from tallymark.traces.otel_libraries import unwrap_arguments
from tallymark.traces.otel_spans import OtelSpan, to_span
from tallymark.traces.otel_traces import assemble


@pytest.mark.parametrize("each", RECORDINGS, ids=lambda each: each.name)
def test_a_recorded_run_is_read(each: Recording) -> None:
    assert find_faults(each, list(read_traces(FIXTURES / each.file))) == []


def span(name: str = "step", **attributes: Any) -> Span:
    return to_span(OtelSpan("t", "s", name=name, attributes=attributes["of"]))


@pytest.mark.parametrize(
    ("given", "arguments"),
    [
        ({"args": [], "kwargs": {"city": "Oslo"}}, {"city": "Oslo"}),
        ({"args": ["Oslo"], "kwargs": {}}, "Oslo"),
        ({"args": ["Oslo"], "kwargs": {"days": 2}}, {"args": ["Oslo"], "kwargs": {"days": 2}}),
        ({"args": ["a", "b"], "kwargs": {}}, {"args": ["a", "b"], "kwargs": {}}),
        ({"args": [], "kwargs": {}}, {}),
        ({"args": 1}, {"args": 1}),
        ({"inputs": {"city": "Oslo"}, "tags": []}, {"city": "Oslo"}),
        ("Oslo", "Oslo"),
    ],
)
def test_arguments_are_taken_out_of_how_the_call_was_recorded(given: Any, arguments: Any) -> None:
    assert unwrap_arguments(given) == arguments


def test_langfuse_says_what_a_call_used_and_cost() -> None:
    found = span(
        of={
            "langfuse.observation.type": "generation",
            "langfuse.observation.output": "Oslo",
            "langfuse.observation.usage_details": json.dumps({"input": 7, "output": 2}),
            "langfuse.observation.cost_details": json.dumps({"total": 0.25}),
        }
    )
    assert (found.span_type, found.output) == ("generation", "Oslo")
    assert (found.input_tokens, found.output_tokens, found.cost) == (7, 2, 0.25)


def test_langfuse_says_that_a_step_failed() -> None:
    found = span(
        of={
            "langfuse.observation.type": "span",
            "langfuse.observation.level": "ERROR",
            "langfuse.observation.status_message": "no answer",
        }
    )
    assert (found.status, found.error) == ("error", "no answer")


@pytest.mark.parametrize(
    ("kind", "span_type"),
    [("retriever", "retrieval"), ("event", "event"), ("guardrail", "span"), ("TOOL", "tool")],
)
def test_kinds_of_langfuse(kind: str, span_type: str) -> None:
    assert span(of={"langfuse.observation.type": kind}).span_type == span_type


@pytest.mark.parametrize(
    ("operation", "span_type"),
    [
        ("ai.streamText", "span"),
        ("ai.streamText.doStream", "generation"),
        ("ai.generateObject.doGenerate", "generation"),
        ("ai.embed.doEmbed", "span"),
        ("ai.toolCall", "tool"),
    ],
)
def test_kinds_of_the_ai_sdk(operation: str, span_type: str) -> None:
    assert span(of={"ai.operationId": operation}).span_type == span_type


def test_the_ai_sdk_answers_with_objects_and_counts_in_older_words() -> None:
    found = span(
        of={
            "ai.operationId": "ai.generateObject.doGenerate",
            "ai.response.object": '{"city":"Oslo"}',
            "ai.usage.promptTokens": 7,
            "ai.usage.completionTokens": 2,
        }
    )
    assert (found.output, found.input_tokens, found.output_tokens) == ('{"city":"Oslo"}', 7, 2)


@pytest.mark.parametrize("given", ['{"city": "Oslo"}', '{"output": 3, "unit": "C"}'])
def test_data_that_a_tool_gave_stays_as_it_is(given: str) -> None:
    found = span(of={"mlflow.spanType": '"TOOL"', "mlflow.spanOutputs": given})
    assert json.loads(str(found.tool_output)) == json.loads(given)


def test_a_model_call_in_older_words_is_one_inside_openllmetry_too() -> None:
    of = {"traceloop.span.kind": "task", "llm.request.type": "chat", "gen_ai.completion": "Oslo"}
    found = span(of=of)
    assert (found.span_type, found.output) == ("generation", "Oslo")


def test_the_names_of_the_conventions_win() -> None:
    of = {"mlflow.spanType": '"LLM"', "mlflow.llm.model": '"a"', "gen_ai.request.model": "b"}
    assert span(of=of).model == "b"


def test_what_was_understood_is_not_kept_twice() -> None:
    found = span(of={"mlflow.spanType": '"AGENT"', "mlflow.spanInputs": '{"q": "hi"}', "x": 1})
    assert found.input == "hi"
    assert found.metadata == {
        "gen_ai.operation.name": "agent",
        "mlflow.spanType": '"AGENT"',
        "x": 1,
    }


ODD: list[Any] = [
    *(None, True, -1, 1e308, "", '"', '"x"', "{", '{"args": 1, "kwargs": 2}', '{"choices": [3]}'),
    *([], {}, [[]], {"": None}, [{"type": "tool-call"}], {"total": "x"}),
    '[[{"lc": 1, "kwargs": 2}]]',
]  # fmt: skip


@pytest.mark.parametrize("name", ["langfuse", "mlflow", "langsmith_otel", "vercel"])
def test_any_attribute_may_be_anything(name: str) -> None:
    batch = otlp_proto.read_request((FIXTURES / f"{name}.pb").read_bytes(), Place())
    spans = [otlp_proto.read_span(raw) for each in batch for _, raw in each.spans(Place())]
    for span in spans:
        for key in span.attributes:
            for odd in ODD:
                spoiled = msgspec.structs.replace(span, attributes={**span.attributes, key: odd})
                json.dumps(assemble([spoiled]).to_dict(), allow_nan=False)
