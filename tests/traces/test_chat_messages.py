"""Chat messages in every shape that is known."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tallymark.traces.chat_messages import (
    ChatMessage,
    ToolCall,
    ToolResult,
    last_text,
    parse_messages,
)

CALL = ToolCall("c1", "search", '{"q":"x"}')
ARGUMENTS = {"q": "x"}


@pytest.mark.parametrize(
    ("value", "messages"),
    [
        (None, []),
        ("", []),
        ([], []),
        ("plain text", [ChatMessage("user", "plain text")]),
        ("{not json", [ChatMessage("user", "{not json")]),
        ([{"role": "user", "content": "Hi"}], [ChatMessage("user", "Hi")]),
        ({"role": "user", "content": "Hi"}, [ChatMessage("user", "Hi")]),
        ({"messages": [{"role": "user", "content": "Hi"}]}, [ChatMessage("user", "Hi")]),
        (
            [{"role": "user", "content": [{"type": "text", "text": "a"},
                                          {"type": "image_url", "image_url": {"url": "x"}},
                                          {"type": "text", "text": "b"}]}],
            [ChatMessage("user", "a\nb")],
        ),
        (
            [{"role": "assistant", "content": None, "tool_calls": [
                {"id": "c1", "function": {"name": "search", "arguments": '{"q":"x"}'}}]}],
            [ChatMessage("assistant", "", (CALL,))],
        ),
        (
            [{"role": "tool", "tool_call_id": "c1", "content": "found"}],
            [ChatMessage("tool", results=(ToolResult("c1", "found"),))],
        ),
        (
            [{"role": "assistant", "content": [
                {"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "ok"},
                {"type": "tool_use", "id": "c1", "name": "search", "input": ARGUMENTS}]},
             {"role": "user", "content": [
                 {"type": "tool_result", "tool_use_id": "c1",
                  "content": [{"type": "text", "text": "found"}]}]}],
            [ChatMessage("assistant", "ok", (CALL,)),
             ChatMessage("user", results=(ToolResult("c1", "found"),))],
        ),
        (
            [{"role": "assistant", "parts": [
                {"type": "reasoning", "content": "hm"}, {"type": "text", "content": "ok"},
                {"type": "tool_call", "id": "c1", "name": "search", "arguments": ARGUMENTS}]},
             {"role": "tool", "parts": [
                 {"type": "tool_call_response", "id": "c1", "response": {"n": 1}}]},
             {"role": "user", "parts": [
                 {"type": "tool_call_response", "id": "c2", "result": [1, 2]}]}],
            [ChatMessage("assistant", "ok", (CALL,)),
             ChatMessage("tool", results=(ToolResult("c1", '{"n":1}'),)),
             ChatMessage("user", results=(ToolResult("c2", "[1,2]"),))],
        ),
        (
            [{"message": {"role": "assistant", "contents": [
                {"message_content": {"type": "text", "text": "ok"}}],
                "tool_calls": [{"tool_call": {"id": "c1", "function": {
                    "name": "search", "arguments": '{"q":"x"}'}}}]}}],
            [ChatMessage("assistant", "ok", (CALL,))],
        ),
        (
            [{"role": "assistant", "content": "ok", "tool_calls": [
                {"id": "c1", "function": "search", "arguments": ARGUMENTS}]}],
            [ChatMessage("assistant", "ok", (CALL,))],
        ),
        (
            [{"type": "function_call", "call_id": "c1", "name": "search", "arguments": '{"q":"x"}'},
             {"type": "function_call_output", "call_id": "c1", "output": "found"}],
            [ChatMessage("user", calls=(CALL,)),
             ChatMessage("user", results=(ToolResult("c1", "found"),))],
        ),
        ([{"role": "user", "content": {"city": "Oslo"}}], [ChatMessage("user", '{"city":"Oslo"}')]),
        (
            [{"role": "human", "content": "Hi"}, {"role": "ai", "content": "Hello"}],
            [ChatMessage("user", "Hi"), ChatMessage("assistant", "Hello")],
        ),
        ([7, "x"], [ChatMessage("user", "7"), ChatMessage("user", "x")]),
    ],
)  # fmt: skip
def test_messages_are_understood(value: Any, messages: list[ChatMessage]) -> None:
    assert parse_messages(value) == messages
    if isinstance(value, list | dict) and value:
        assert parse_messages(json.dumps(value)) == messages


@pytest.mark.parametrize("answer", ['{"answer": 42}', '[{"type": "dog"}]', '["a", "b"]', "[]"])
def test_an_answer_that_is_json_stays_as_it_is(answer: str) -> None:
    assert parse_messages([{"role": "assistant", "content": answer}]) == [
        ChatMessage("assistant", answer)
    ]


def test_a_tool_call_without_a_name_is_none() -> None:
    assert parse_messages([{"role": "assistant", "tool_calls": [{"id": "x"}, 3, None]}]) == [
        ChatMessage("assistant")
    ]


@pytest.mark.parametrize("odd", [[], {}, [{"type": []}], {"type": {}}, {"message_content": {}}, 0])
def test_a_content_of_no_known_shape_is_its_json(odd: Any) -> None:
    said = parse_messages([{"role": "user", "content": odd}])[0].text
    assert said == (json.dumps(odd, separators=(",", ":")) if odd else "")


def test_the_last_text_skips_turns_without_any() -> None:
    said = [ChatMessage("user", "a"), ChatMessage("assistant", "b"), ChatMessage("user")]
    assert (last_text(said, "user"), last_text(said, "system")) == ("a", "")


def test_a_message_is_plain_data_without_what_is_empty() -> None:
    assert ChatMessage("user").to_dict() == {"role": "user"}
    assert ChatMessage("assistant", "ok", (CALL,), (ToolResult(None, "x"),)).to_dict() == {
        "role": "assistant",
        "content": "ok",
        "tool_calls": [{"id": "c1", "name": "search", "arguments": '{"q":"x"}'}],
        "tool_results": [{"id": None, "text": "x"}],
    }
