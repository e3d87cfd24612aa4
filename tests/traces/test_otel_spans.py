"""The attributes of three dialects, and where they go."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tallymark.traces.otel_spans import OtelEvent, OtelSpan, to_span

QUESTION = [{"role": "user", "parts": [{"type": "text", "content": "Hi"}]}]
ANSWER = [{"role": "assistant", "parts": [{"type": "text", "content": "Hello"}]}]
CHAT = {"gen_ai.operation.name": "chat"}
TOOL = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "add"}


def span(attributes: dict[str, Any], *events: tuple[str, dict[str, Any]], **fields: Any) -> Any:
    return to_span(
        OtelSpan("t", "s", attributes=attributes, events=[OtelEvent(*e) for e in events], **fields)
    )


@pytest.mark.parametrize(
    ("attributes", "span_type"),
    [
        ({}, "span"),
        ({"http.request.method": "POST"}, "span"),
        ({"gen_ai.operation.name": "chat"}, "generation"),
        ({"gen_ai.operation.name": "text_completion"}, "generation"),
        ({"gen_ai.operation.name": "generate_content"}, "generation"),
        ({"gen_ai.operation.name": "execute_tool"}, "tool"),
        ({"gen_ai.operation.name": "retrieval"}, "retrieval"),
        ({"gen_ai.operation.name": "embeddings", "gen_ai.request.model": "m"}, "span"),
        ({"gen_ai.operation.name": "invoke_agent", "gen_ai.request.model": "m"}, "span"),
        ({"openinference.span.kind": "LLM"}, "generation"),
        ({"openinference.span.kind": "tool"}, "tool"),
        ({"openinference.span.kind": "RETRIEVER"}, "retrieval"),
        ({"openinference.span.kind": "RERANKER"}, "retrieval"),
        ({"openinference.span.kind": "AGENT"}, "span"),
        ({"openinference.span.kind": "EMBEDDING"}, "span"),
        ({"llm.request.type": "chat"}, "generation"),
        ({"llm.request.type": "embedding"}, "span"),
        ({"traceloop.span.kind": "tool"}, "tool"),
        ({"traceloop.span.kind": "workflow"}, "span"),
        ({"gen_ai.tool.name": "add"}, "tool"),
        ({"gen_ai.request.model": "m"}, "generation"),
        ({"gen_ai.request.model": "m", "agent_name": "a"}, "span"),
        ({"gen_ai.tool.definitions": "[]"}, "span"),
        ({"logfire.span_type": "log"}, "event"),
    ],
)
def test_the_type_of_a_span(attributes: dict[str, Any], span_type: str) -> None:
    assert span(attributes).span_type == span_type


@pytest.mark.parametrize(
    ("attributes", "field", "value"),
    [
        ({"gen_ai.request.model": "a", "gen_ai.response.model": "b"}, "model", "b"),
        ({"llm.model_name": "m"}, "model", "m"),
        ({"gen_ai.usage.input_tokens": 3}, "input_tokens", 3),
        ({"gen_ai.usage.prompt_tokens": 3}, "input_tokens", 3),
        ({"llm.token_count.prompt": 3}, "input_tokens", 3),
        ({"gen_ai.usage.output_tokens": 3}, "output_tokens", 3),
        ({"gen_ai.usage.completion_tokens": "3"}, "output_tokens", 3),
        ({"llm.token_count.completion": 3}, "output_tokens", 3),
        ({"gen_ai.usage.input_tokens": "many"}, "input_tokens", None),
        ({"gen_ai.usage.input_tokens": -1}, "input_tokens", None),
        ({"gen_ai.usage.cost": 0.5}, "cost", 0.5),
        ({"operation.cost": 0.5}, "cost", 0.5),
        ({"llm.cost.total": 0.5}, "cost", 0.5),
        ({}, "cost", None),
        ({"gen_ai.input.messages": json.dumps(QUESTION)}, "input", "Hi"),
        ({"gen_ai.input.messages": QUESTION}, "input", "Hi"),
        ({"gen_ai.output.messages": json.dumps(ANSWER)}, "output", "Hello"),
        ({"gen_ai.prompt": "Hi"}, "input", "Hi"),
        ({"gen_ai.completion": "Hello"}, "output", "Hello"),
        ({"gen_ai.prompt": '[{"role":"user","content":"Hi"}]'}, "input", "Hi"),
        ({"gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.content": "Hi"}, "input", "Hi"),
        ({"gen_ai.completion.0.content": "Hello"}, "output", "Hello"),
        ({"llm.output_messages.0.message.content": "Hello"}, "output", "Hello"),
        ({"input.value": "Hi"}, "input", "Hi"),
        ({"output.value": "Hello"}, "output", "Hello"),
        ({"request_data": '{"messages":[{"role":"user","content":"Hi"}],"tools":[{}]}'},
         "input", "Hi"),
        ({"response_data": '{"message":{"role":"assistant","content":"Hello"}}'},
         "output", "Hello"),
        ({"events": json.dumps([{"event.name": "gen_ai.user.message", "content": "Hi"}])},
         "input", "Hi"),
        ({"events": json.dumps([{"event.name": "gen_ai.choice", "index": 0,
                                 "message": {"role": "assistant", "content": "Hello"}}])},
         "output", "Hello"),
    ],
)  # fmt: skip
def test_a_model_calls_fields(attributes: dict[str, Any], field: str, value: Any) -> None:
    assert getattr(span(CHAT | attributes), field) == value


@pytest.mark.parametrize(
    ("event", "field", "value"),
    [
        (("gen_ai.user.message", {"content": "Hi"}), "input", "Hi"),
        (("gen_ai.content.prompt", {"gen_ai.prompt": "Hi"}), "input", "Hi"),
        (("gen_ai.content.completion", {"gen_ai.completion": "Hello"}), "output", "Hello"),
        (("gen_ai.choice", {"message": '{"content": "Hello"}'}), "output", "Hello"),
        (("gen_ai.choice", {"content": "Hello"}), "output", "Hello"),
        (
            ("gen_ai.client.inference.operation.details",
             {"gen_ai.output.messages": json.dumps(ANSWER)}),
            "output", "Hello",
        ),
        (("something.else", {"content": "Hello"}), "output", ""),
    ],
)  # fmt: skip
def test_messages_may_come_as_events(
    event: tuple[str, dict[str, Any]], field: str, value: str
) -> None:
    assert getattr(span(CHAT, event), field) == value


@pytest.mark.parametrize(
    ("attributes", "field", "value"),
    [
        ({"gen_ai.tool.call.arguments": '{"a":1}'}, "tool_input", '{"a":1}'),
        ({"gen_ai.tool.call.arguments": {"a": 1}}, "tool_input", '{"a":1}'),
        ({"tool_arguments": '{"a":1}'}, "tool_input", '{"a":1}'),
        ({"input.value": '{"a":1}', "tool.parameters": "{}"}, "tool_input", '{"a":1}'),
        ({"tool.parameters": '{"a":1}'}, "tool_input", '{"a":1}'),
        ({"gen_ai.tool.call.result": [1]}, "tool_output", "[1]"),
        ({"tool_response": "1"}, "tool_output", "1"),
        ({"output.value": "1"}, "tool_output", "1"),
        ({}, "tool_input", None),
        ({}, "tool_output", None),
        ({"output.value": "1"}, "output", "1"),
        ({}, "tool_name", "add"),
    ],
)
def test_a_tool_calls_fields(attributes: dict[str, Any], field: str, value: Any) -> None:
    assert getattr(span(TOOL | attributes), field) == value


def test_a_tool_without_a_name_attribute_is_named_by_its_span() -> None:
    named = span({"gen_ai.operation.name": "execute_tool"}, name="execute_tool add")
    assert named.tool_name == "add"


def test_an_agent_says_its_final_result() -> None:
    told = [{"event.name": "gen_ai.user.message", "content": "Hi"},
            {"event.name": "gen_ai.assistant.message", "content": "thinking"}]  # fmt: skip
    agent = {"agent_name": "a", "all_messages_events": json.dumps(told), "final_result": "Hello"}
    assert (span(agent).input, span(agent).output) == ("Hi", "Hello")


def test_retrieved_documents_are_the_output() -> None:
    found = span(
        {
            "openinference.span.kind": "RETRIEVER",
            "retrieval.documents.10.document.content": "last",
            "retrieval.documents.2.document.content": "first",
        }
    )
    assert found.output == '[{"content":"first"},{"content":"last"}]'
    assert found.metadata["documents"] == [{"content": "first"}, {"content": "last"}]


@pytest.mark.parametrize(
    ("fields", "event", "error"),
    [
        ({"failed": True, "message": "boom"}, None, "boom"),
        (
            {"failed": True},
            ("exception", {"exception.type": "E", "exception.message": "m"}),
            "E: m",
        ),
        ({"failed": True}, ("exception", {"exception.type": "E"}), "E"),
        ({"failed": True}, ("exception", {}), "failed"),
        ({"failed": True}, None, "failed"),
        ({}, ("exception", {"exception.type": "E"}), None),
    ],
)
def test_why_a_span_failed(
    fields: dict[str, Any], event: tuple[str, dict[str, Any]] | None, error: str | None
) -> None:
    failed = span({}, *([event] if event else []), **fields)
    assert (failed.error, failed.status) == (error, "error" if error else "ok")


def test_times_are_milliseconds_and_a_clock_that_ran_back_gives_zero() -> None:
    timed = span({}, start_ns=1_500_000, end_ns=4_000_000)
    assert (timed.start_ms, timed.duration_ms) == (1.5, 2.5)
    assert span({}, start_ns=5, end_ns=1).duration_ms == 0
    assert span({}).start_ms is None
    assert span({}, end_ns=5_000_000).duration_ms == 0


def test_what_no_field_takes_stays_in_metadata() -> None:
    attributes = {"gen_ai.tool.definitions": "[]", "my.key": 1, "gen_ai.usage.input_tokens": 3,
                  "gen_ai.input.messages": json.dumps(QUESTION)}  # fmt: skip
    assert span(CHAT | attributes).metadata == CHAT | {"gen_ai.tool.definitions": "[]", "my.key": 1}


def test_a_question_in_attributes_goes_with_an_answer_in_events() -> None:
    both = span(CHAT | {"gen_ai.prompt": "Hi"}, ("gen_ai.choice", {"content": "Hello"}))
    assert (both.input, both.output) == ("Hi", "Hello")


def test_the_first_of_several_choices_is_the_output() -> None:
    choices = [{"role": "assistant", "content": text} for text in ("", "first", "second")]
    assert span(CHAT | {"gen_ai.output.messages": json.dumps(choices)}).output == "first"


def test_a_longer_conversation_is_kept_whole() -> None:
    system = {"gen_ai.system_instructions": '[{"type":"text","content":"Be brief"}]'}
    kept = span(CHAT | system | {"gen_ai.input.messages": QUESTION}).metadata["messages"]
    assert kept == [{"role": "system", "content": "Be brief"}, {"role": "user", "content": "Hi"}]


def test_indexed_attributes_that_contradict_each_other_do_no_harm() -> None:
    odd = {"gen_ai.prompt.0": "x", "gen_ai.prompt.0.content": "Hi", "gen_ai.prompt.x.role": "y"}
    assert span(CHAT | odd).input == ""
