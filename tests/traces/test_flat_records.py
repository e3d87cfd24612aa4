"""Records that are no list of spans."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tallymark.errors import InvalidInput, TraceError
from tallymark.traces import Trace
from tallymark.traces.flat_records import read_field_map

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


OWN = {
    "ask": {"text": "Refund order 17"}, "reply": "Refunded.", "secs": 1.5, "key": "k1",
    "gold": "Refunded.", "calls": [{"name": "refund", "arguments": {"order": 17}}],
    "turns": [{"cost": 0.5}], "output": "a path", "topic": "orders",
}  # fmt: skip
FIELDS = {
    "input": "ask.text", "output": "reply", "latency": "secs", "id": "key", "expected": "gold",
    "tool_calls": "calls", "cost": "turns.0.cost",
}  # fmt: skip


@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "a.txt"])
def test_keys_of_ones_own_are_mapped(tmp_path: Path, read: Read, name: str) -> None:
    other = {"key": "k2", "ask": None, "output": "a path"}
    listed = [json.dumps(each) for each in (OWN, other)]
    lines = "\n".join(listed) if not name.endswith(".json") else f"[{','.join(listed)}]"
    (tmp_path / name).write_text(lines)
    first, second = read(tmp_path / name, fields=FIELDS)
    assert (first.first_input, first.answer, first.trace_id) == (
        "Refund order 17",
        "Refunded.",
        "k1",
    )
    assert (first.duration_ms, first.cost, first.tool_names) == (1500, 0.5, ["refund"])
    assert first.metadata["expected"] == {"output": "Refunded."}
    assert (first.metadata["topic"], "reply" in first.metadata) == ("orders", False)
    # What the file calls an output is none, where the user named another key.
    assert (second.trace_id, second.answer) == ("k2", None)


def test_a_key_with_a_dot_in_it_is_that_key(tmp_path: Path, read: Read) -> None:
    (tmp_path / "a.jsonl").write_text('{"a.b": "x", "a": {"b": "y"}}')
    (trace,) = read(tmp_path / "a.jsonl", fields={"output": "a.b"})
    assert trace.answer == "x"


def test_spans_keep_their_place_beside_what_is_mapped(tmp_path: Path, read: Read) -> None:
    tool = {"span_type": "tool", "tool_name": "refund", "input": "{}"}
    (tmp_path / "a.jsonl").write_text(json.dumps({"q": "Why?", "a": "So.", "spans": [tool]}))
    (trace,) = read(tmp_path / "a.jsonl", fields={"output": "a", "input": "q"})
    assert (trace.first_input, trace.answer, trace.tool_names) == ("Why?", "So.", ["refund"])


@pytest.mark.parametrize(
    ("fields", "message", "hint"),
    [
        ({"output": "rply"}, "no record has 'rply', where --map looks for output",
         "did you mean 'reply'? the keys are 'ask.text', 'reply'"),
        ({"output": "ask.txt"}, "no record has 'ask.txt'", "did you mean 'ask.text'?"),
        ({"outptu": "reply"}, "a record has no field 'outptu' to map",
         "did you mean 'output'? the fields are input, output, expected, id"),
    ],
)  # fmt: skip
def test_a_mapping_that_finds_nothing_is_refused(
    tmp_path: Path, read: Read, fields: dict[str, str], message: str, hint: str
) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps(OWN))
    with pytest.raises(InvalidInput) as refused:
        read(tmp_path / "a.jsonl", fields=fields)
    assert message in str(refused.value)
    assert hint in (refused.value.problems[0].hint or "")


def test_other_formats_are_not_mapped(read: Read) -> None:
    with pytest.raises(TraceError, match="a file of the format otlp, whose keys are known"):
        read("otel_sdk.otlp.jsonl", fields={"output": "x"})


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        (["output"], "names no key"),
        (["output="], "names no key"),
        (["output=a", "output=b"], "gives 'output' twice"),
        (["=a"], "a record has no field ''"),
    ],
)
def test_a_mapping_is_written_field_equals_key(pairs: list[str], message: str) -> None:
    assert read_field_map(["output = a=b"]) == {"output": "a=b"}
    with pytest.raises(InvalidInput, match=message):
        read_field_map(pairs)


@pytest.mark.parametrize("name", ["a.jsonl", "a.json"])
def test_a_record_without_an_output_says_what_it_has_and_what_is_known(
    tmp_path: Path, read: Read, name: str
) -> None:
    (tmp_path / name).write_text('{"ask": "x", "reply": "y"}')
    with pytest.raises(TraceError) as refused:
        read(tmp_path / name)
    said = refused.value.render()
    assert "the record has no output; its keys are 'ask', 'reply'" in said
    assert "--map output=KEY" in said
    assert "output, or answer, response, completion together with input, question" in said
