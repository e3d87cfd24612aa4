"""Records that are no list of spans."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tallymark.traces import Trace

Read = Callable[..., list[Trace]]
CALL = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 2}'}}


@pytest.mark.parametrize(
    ("record", "asked", "answer", "expected"),
    [
        ({"input": "2+3?", "output": "5"}, "2+3?", "5", None),
        ({"question": "2+3?", "answer": "5", "target": "5"}, "2+3?", "5", {"output": "5"}),
        ({"prompt": "2+3?", "completion": "5", "expected": {"output": "5"}}, "2+3?", "5",
         {"output": "5"}),
        ({"query": "2+3?", "response": {"choices": [{"message": {"content": "5"}}]}}, "2+3?", "5",
         None),
        ({"output": {"sum": 5}}, "", '{"sum":5}', None),
        ({"input": "2+3?", "output": ""}, "2+3?", "", None),
        ({"input": "2+3?", "output": None}, "2+3?", None, None),
        ({"input": {"a": 2}, "output": "5"}, '{"a":2}', "5", None),
        ({"messages": [{"role": "user", "content": "2+3?"}], "output": "5"}, "2+3?", "5", None),
        ({"prompt": [{"role": "user", "content": "2+3?"}], "completion": "5"}, "2+3?", "5", None),
        ({"input": "2+3?", "output": None, "error": "timeout"}, "2+3?", "", None),
    ],
)  # fmt: skip
def test_a_question_and_its_answer(
    record: dict[str, Any], asked: str, answer: str | None, expected: Any
) -> None:
    trace = Trace.from_dict(record)
    assert (trace.first_input, trace.answer) == (asked, answer)
    assert trace.metadata.get("expected") == expected


def test_what_a_record_says_of_its_call() -> None:
    trace = Trace.from_dict(
        {
            "id": 7, "input": "q", "output": "a", "model": "mine", "latencyMs": 250, "costUsd": 0.5,
            "usage": {"prompt_tokens": 3, "completion_tokens": 2}, "topic": "sums",
            "prompt": "a template", "response": None,
            "tool_calls": ["look", {"name": "add", "arguments": {"a": 2}, "result": "5"}, CALL],
        }
    )  # fmt: skip
    assert (trace.trace_id, trace.duration_ms, trace.cost, trace.tokens) == ("7", 250, 0.5, 5)
    assert [(call.tool_name, call.tool_input, call.tool_output) for call in trace.tool_calls] == [
        ("look", None, None),
        ("add", '{"a":2}', "5"),
        ("add", '{"a": 2}', None),
    ]
    assert trace.metadata == {"topic": "sums", "prompt": "a template"}


def test_a_conversation() -> None:
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "2+3?"},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": "5"},
        {"role": "assistant", "content": "It is 5."},
    ]
    trace = Trace.from_dict({"messages": messages, "usage": {"input_tokens": 9}})
    assert (trace.answer, len(trace.generations), trace.input_tokens) == ("It is 5.", 2, 9)
    (call,) = trace.tool_calls
    assert (call.tool_name, call.tool_input, call.tool_output) == ("add", '{"a": 2}', "5")
    assert Trace.from_dict({"messages": messages[:2]}).answer is None


def test_a_tree_of_steps() -> None:
    trace = Trace.from_dict(
        {
            "traceId": "t", "name": "desk", "input": "q", "output": "a", "durationMs": 5,
            "children": [
                {"id": "m", "type": "LLM", "costUsd": 0.25, "children": [{"name": "http"}]},
                {"type": "tool", "name": "add"},
                {"type": "poem", "name": "other"},
            ],
        }
    )  # fmt: skip
    assert (trace.trace_id, trace.duration_ms, trace.cost, trace.answer) == ("t", 5, 0.25, "a")
    assert [(depth, span.span_type, span.span_id) for depth, span in trace.walk()] == [
        (0, "span", "1"),
        (1, "generation", "m"),
        (2, "span", "1.1.1"),
        (1, "tool", "1.2"),
        (1, "span", "1.3"),
    ]
    assert trace.spans[-1].metadata == {"type": "poem"}


def test_what_a_trace_says_of_the_whole_is_its_outermost_span() -> None:
    spans = [{"id": "a", "type": "tool", "name": "x", "children": [{"name": "y"}]}]
    trace = Trace.from_dict({"trace_id": "t", "input": "q", "output": "told", "spans": spans})
    assert (trace.first_input, trace.answer) == ("q", "told")
    assert [(span.span_id, span.parent_id) for span in trace.spans] == [
        ("trace", None),
        ("a", None),
        ("1.1", "a"),
    ]


def test_a_deep_tree_is_no_trouble() -> None:
    step: dict[str, Any] = {"name": "leaf"}
    for _ in range(5000):
        step = {"name": "step", "children": [step]}
    assert len(Trace.from_dict(step).spans) == 5001


@pytest.mark.parametrize("name", ["a.jsonl", "a.json"])
def test_files_of_records_need_no_ids(tmp_path: Path, read: Read, name: str) -> None:
    records = [{"question": "2+3?", "answer": "5"}, {"id": "x", "input": "q", "output": "a"}]
    lines = "\n".join(map(json.dumps, records)) + "\n"
    (tmp_path / name).write_text(lines if name.endswith("l") else json.dumps(records))
    assert [(trace.trace_id, trace.answer) for trace in read(tmp_path / name)] == [
        ("1", "5"),
        ("x", "a"),
    ]


def test_other_json_is_no_record(tmp_path: Path, read: Read) -> None:
    (tmp_path / "a.json").write_text('{"name": "x", "prompt": "y"}')
    (tmp_path / "b.json").write_text('{"input": "x", "output": "y"}')
    assert len(read(tmp_path)) == 1
