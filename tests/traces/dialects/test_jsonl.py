"""Traces of our own shape."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from tests.traces.test_trace import traces

from tallymark.errors import TraceError
from tallymark.traces import Trace, read_traces

Read = Callable[..., list[Trace]]
LINE = '{"trace_id":"t","spans":[{"span_id":"s","span_type":"generation","output":"hi"}]}'


def test_snake_case_is_read(read: Read) -> None:
    first, second = read("own.jsonl")
    assert (first.trace_id, first.tool_names, first.tokens) == ("t-1", ["refund"], 92)
    assert first.metadata["expected"] == {"output": "Refunded."}
    assert (second.status, second.errors[0].error) == ("error", "rate limited")


def test_camel_case_is_read_nested_or_flat(read: Read) -> None:
    first, second = read("own_camel.jsonl")
    assert (first.trace_id, first.duration_ms, first.last_output) == (
        "t-1", 1200, "The Caspian Sea."
    )  # fmt: skip
    assert first.tool_calls[0].tool_input == '{"query":"largest lake"}'
    assert first.tool_calls[0].parent_id == "s1"
    assert first.metadata == {"team": "north", "expected": {"outputContains": ["Caspian"]}}
    assert second.last_output == "Hello!"


@pytest.mark.parametrize(
    ("name", "content", "count"),
    [
        ("a.jsonl", f"{LINE}\n{LINE}\n", 2),
        ("a.jsonl", f"\n{LINE}\n\n  \n{LINE}", 2),
        ("a.jsonl", f"\ufeff{LINE}\r\n{LINE}\r\n", 2),
        ("a.json", f"[{LINE}, {LINE}]", 2),
        ("a.json", f"[\n {LINE},\n {LINE}\n]\n", 2),
        ("a.json", LINE, 1),
        ("a.json", json.dumps(json.loads(LINE), indent=2), 1),
        ("a.jsonl", json.dumps(json.loads(LINE), indent=2), 1),
        ("a.json", "[]", 0),
        ("a.jsonl", "", 0),
        ("a.jsonl", "\n", 0),
    ],
)
def test_lines_arrays_and_single_documents(
    tmp_path: Path, read: Read, name: str, content: str, count: int
) -> None:
    path = tmp_path / name
    path.write_text(content, encoding="utf-8", newline="")
    found = read(path, format="jsonl")
    assert [trace.last_output for trace in found] == ["hi"] * count


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "not valid JSON"),
        ('{"trace_id": NaN}', "NaN is not a JSON number"),
        ('{"trace_id": "t", "duration_ms": NaN}', "NaN is not a JSON number"),
        ('{"trace_id": "t", "duration_ms": 1e999}', "the number 1e999 is too large"),
        ('{"trace_id": "t", "duration_ms": -5}', "duration_ms must be a finite number"),
        ("{}", "the record has no output; its keys are none"),
        ('{"name": "x"}', "the record has no output; its keys are 'name'"),
        ("7", "a trace must be an object, not 7"),
        ("[" * 100_000 + "]" * 100_000, "nested too deeply"),
        ('{"trace_id":"t","spans":[{"cost":"x"}]}', "spans[0].cost must be a finite number"),
    ],
)
def test_a_broken_line_is_reported_by_its_number(
    tmp_path: Path, read: Read, line: str, message: str
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(f"{LINE}\n{line}\n{LINE}\n")
    with pytest.raises(TraceError) as broken:
        read(path)
    assert str(broken.value).startswith(f"{path}:2: ")
    assert message in str(broken.value)
    told: list[TraceError] = []
    assert len(read(path, skip_broken=True, on_broken=told.append)) == 2
    assert [str(each) for each in told] == [str(broken.value)]


def test_text_that_is_not_utf8_is_reported(tmp_path: Path, read: Read) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(LINE.encode() + b'\n{"trace_id": "\xff"}\n')
    with pytest.raises(TraceError, match=r":2: not UTF-8 text \(byte 15\)"):
        read(path)


def test_half_a_surrogate_pair_is_replaced(tmp_path: Path, read: Read) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"trace_id": "t", "name": "cut \\ud83d here"}\n')
    assert read(path)[0].name == "cut \ufffd here"


@given(traces.filter(lambda trace: trace.spans or trace.trace_id))
def test_what_is_written_is_read_back(tmp_path_factory: Any, trace: Trace) -> None:
    path = tmp_path_factory.mktemp("written") / "a.jsonl"
    path.write_text(json.dumps(trace.to_dict()) + "\n")
    assert list(read_traces(path)) == [trace]
