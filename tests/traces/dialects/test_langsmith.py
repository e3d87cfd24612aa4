"""LangSmith's runs; a whole recorded one is read in `test_otel_libraries.py`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tallymark.errors import TraceError
from tallymark.traces import Trace

Read = Callable[..., list[Trace]]
ROOT = {
    "id": "r", "trace_id": "r", "run_type": "chain", "name": "desk", "inputs": {"q": "hi"},
    "outputs": {"output": "Hello"}, "start_time": "2026-01-01T00:00:00", "end_time":
    "2026-01-01T00:00:02", "error": None, "parent_run_id": None,
}  # fmt: skip
CALL = {
    "id": "c", "trace_id": "r", "run_type": "llm", "name": "model", "parent_run_id": "r",
    "inputs": {"messages": [{"role": "user", "content": "hi"}]}, "outputs": None,
    "error": "Timeout()", "prompt_tokens": 7, "completion_tokens": 0, "total_cost": "0.5",
}  # fmt: skip


def write(path: Path, *runs: Any) -> Path:
    path.write_text(json.dumps(runs))
    return path


def test_runs_in_any_order_are_one_trace(tmp_path: Path, read: Read) -> None:
    (trace,) = read(write(tmp_path / "runs.json", CALL, ROOT))
    assert (trace.name, trace.duration_ms, trace.answer) == ("desk", 2000, "Hello")
    (call,) = trace.generations
    assert (call.input, call.error, call.input_tokens, call.cost) == ("hi", "Timeout()", 7, 0.5)


def test_langchains_messages_are_read(tmp_path: Path, read: Read) -> None:
    def message(kind: str, content: str, **more: Any) -> dict[str, Any]:
        return {
            "lc": 1,
            "type": "constructor",
            "kwargs": {"type": kind, "content": content, **more},
        }

    wish = message("ai", "", tool_calls=[{"name": "add", "args": {"a": 2}, "id": "c"}])
    heard = message("tool", "5", tool_call_id="c")
    said = {"text": "It is 5.", "message": message("ai", "It is 5.")}
    run = {
        "id": "r", "run_type": "llm", "name": "ChatOpenAI",
        "inputs": {"messages": [[message("human", "2+3?"), wish, heard]]},
        "outputs": {
            "generations": [[said]],
            "llm_output": {"token_usage": {"prompt_tokens": 9, "completion_tokens": 4}},
        },
    }  # fmt: skip
    (trace,) = read(write(tmp_path / "runs.json", run))
    assert (trace.first_input, trace.answer, trace.tokens) == ("2+3?", "It is 5.", 13)
    assert [each["role"] for each in trace.spans[0].metadata["messages"]] == [
        "user",
        "assistant",
        "tool",
    ]


def test_what_is_no_run_is_told(tmp_path: Path, read: Read) -> None:
    told: list[TraceError] = []
    found = read(
        write(tmp_path / "a.json", ROOT, {"id": 3}, 7), skip_broken=True, on_broken=told.append
    )
    assert len(found) == 1
    assert ["not a run of LangSmith" in str(each) for each in told] == [True, True]
