"""In every format, the question is what the user asked, and never what a tool was given."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.traces.otlp_samples import as_json, model_call, span, tool_call

from tallymark.scoring import EvalContext
from tallymark.traces import Trace
from tallymark.traces.trace_facts import read_facts
from tallymark.traces.trace_formats import FORMATS

Read = Callable[..., list[Trace]]
ASKED, ARGUMENTS = "Refund order 17", '{"order":17}'
GIVEN: Any = {"order": 17}
USER = {"role": "user", "content": ASKED}
CALL = {
    "id": "c1",
    "type": "function",
    "function": {"name": "refund", "arguments": ARGUMENTS},
}
MESSAGES = [
    {"role": "system", "content": "Be brief."},
    USER,
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "done"},
    {"role": "assistant", "content": "Refunded."},
]
TOOL = {"span_id": "t", "span_type": "tool", "tool_name": "refund", "input": ARGUMENTS}
MODEL = {"span_id": "m", "span_type": "generation", "input": ASKED, "output": "Refunded."}
OTEL_TOOL = tool_call(3, None, gen_ai__tool__call__arguments=ARGUMENTS)
OTEL_MODEL = model_call(
    4,
    None,
    start=1_790_000_001.0,
    gen_ai__input__messages=json.dumps([USER]),
)


def langsmith(number: str, kind: str, inputs: Any, outputs: Any, **more: Any) -> dict[str, Any]:
    run = {"id": number, "trace_id": "1", "run_type": kind, "name": kind}
    return {**run, "inputs": inputs, "outputs": outputs, "parent_run_id": "1", **more}


def mlflow(number: str, start: int, **attributes: Any) -> dict[str, Any]:
    return {
        "name": number,
        "context": {"span_id": number},
        "start_time_unix_nano": start,
        "end_time_unix_nano": start + 1,
        "attributes": {key: json.dumps(value) for key, value in attributes.items()},
    }


WRITTEN: dict[str, tuple[str, Any]] = {
    "a record with tool calls": (
        "records",
        {"question": ASKED, "answer": "Refunded.", "tool_calls": [{**CALL, "result": "done"}]},
    ),
    "a conversation": ("records", {"messages": MESSAGES}),
    "a conversation as input": (
        "records",
        {"input": MESSAGES[:2], "output": "Refunded.", "tool_calls": [CALL]},
    ),
    "a tree whose first step is a tool": (
        "records",
        {
            "name": "desk",
            "children": [
                {"type": "tool", "name": "refund", "input": GIVEN, "children": [{"input": "x"}]},
                {"type": "llm", "name": "model", "input": ASKED, "output": "Refunded."},
            ],
        },
    ),
    "spans that say their kind": (
        "jsonl",
        {"trace_id": "1", "spans": [{"kind": "TOOL", "input": ARGUMENTS}, MODEL]},
    ),
    "an MCP call before the model": (
        "otlp",
        json.loads(
            as_json(span(1, 3, mcp__method__name="tools/call", input__value=ARGUMENTS), OTEL_MODEL)
        ),
    ),
    "a tool that is only named": (
        "otlp",
        json.loads(as_json(span(1, 3, tool__name="refund", input__value=ARGUMENTS), OTEL_MODEL)),
    ),
    "tools before the model": ("jsonl", {"trace_id": "1", "spans": [TOOL, MODEL]}),
    "a question beside the spans": (
        "jsonl",
        {"trace_id": "1", "question": ASKED, "answer": "Refunded.", "spans": [TOOL]},
    ),
    "work inside a tool": (
        "jsonl",
        {"trace_id": "1", "spans": [TOOL, {"parent_id": "t", "input": "GET /orders"}, MODEL]},
    ),
    "a model call inside a tool": (
        "jsonl",
        {
            "trace_id": "1",
            "spans": [
                TOOL,
                {"parent_id": "t", "span_type": "generation", "input": "x", "output": "y"},
                MODEL,
            ],
        },
    ),
    "otlp": ("otlp", json.loads(as_json(OTEL_TOOL, OTEL_MODEL))),
    "console": (
        "console",
        [
            {
                "name": name,
                "context": {"trace_id": "0x1", "span_id": f"0x{number}"},
                "parent_id": None,
                "start_time": f"2026-01-01T00:00:0{number}.000000Z",
                "end_time": f"2026-01-01T00:00:0{number}.500000Z",
                "attributes": attributes,
            }
            for number, (name, attributes) in enumerate(
                {
                    "tool": {
                        "gen_ai.operation.name": "execute_tool",
                        "gen_ai.tool.call.arguments": ARGUMENTS,
                    },
                    "chat": {
                        "gen_ai.operation.name": "chat",
                        "gen_ai.input.messages": json.dumps([USER]),
                    },
                }.items()
            )
        ],
    ),
    "langsmith": (
        "langsmith",
        [
            langsmith("1", "chain", {"input": ASKED}, {"output": "Refunded."}, parent_run_id=None),
            langsmith("2", "tool", GIVEN, {"output": "done"}),
        ],
    ),
    "mlflow": (
        "mlflow",
        {
            "info": {"trace_id": "1"},
            "data": {
                "spans": [
                    mlflow("t", 1, **{"mlflow.spanType": "TOOL", "mlflow.spanInputs": GIVEN}),
                    mlflow(
                        "m",
                        2,
                        **{
                            "mlflow.spanType": "CHAT_MODEL",
                            "mlflow.spanInputs": {"messages": [USER]},
                            "mlflow.spanOutputs": "Refunded.",
                        },
                    ),
                ]
            },
        },
    ),
    "inspect": (
        "inspect",
        {
            "version": 2,
            "status": "success",
            "eval": {"task": "desk", "model": "m"},
            "samples": [
                {
                    "id": 1,
                    "epoch": 1,
                    "input": ASKED,
                    "events": [
                        {"event": "tool", "function": "refund", "arguments": GIVEN, "result": "ok"},
                        {"event": "model", "input": [USER], "output": {"completion": "Refunded."}},
                    ],
                }
            ],
        },
    ),
    "atif": (
        "atif",
        {
            "schema_version": "ATIF-v1.4",
            "agent": {"name": "desk"},
            "steps": [
                {"step_id": 1, "source": "system", "message": "Be brief."},
                {"step_id": 2, "source": "user", "message": ASKED},
                {
                    "step_id": 3,
                    "source": "agent",
                    "message": "Refunded.",
                    "tool_calls": [
                        {"tool_call_id": "c1", "function_name": "refund", "arguments": GIVEN}
                    ],
                },
            ],
        },
    ),
    "claude-code": (
        "claude-code",
        [
            {"type": "user", "sessionId": "s", "message": USER},
            {
                "type": "assistant",
                "sessionId": "s",
                "message": {
                    "id": "m1",
                    "content": [{"type": "tool_use", "id": "c", "name": "refund", "input": GIVEN}],
                },
            },
        ],
    ),
    "codex": (
        "codex",
        [
            {"type": "event_msg", "payload": {"type": "user_message", "message": ASKED}},
            {
                "type": "response_item",
                "payload": {"type": "function_call", "name": "refund", "arguments": ARGUMENTS},
            },
        ],
    ),
    "gemini-cli": (
        "gemini-cli",
        {
            "sessionId": "s",
            "projectHash": "p",
            "messages": [
                {"id": "1", "type": "user", "content": ASKED},
                {"id": "2", "type": "gemini", "toolCalls": [{"name": "refund", "args": GIVEN}]},
            ],
        },
    ),
    "copilot-cli": (
        "copilot-cli",
        [
            {"type": "user.message", "data": {"content": ASKED}},
            {"type": "tool.execution_start", "data": {"toolName": "refund", "arguments": GIVEN}},
        ],
    ),
    "openhands": (
        "openhands",
        [
            {"source": "user", "action": "message", "args": {"content": ASKED}},
            {"id": 1, "source": "agent", "action": "refund", "args": GIVEN},
        ],
    ),
    "promptfoo": (
        "promptfoo",
        {
            "promptIdx": 0,
            "testIdx": 0,
            "success": True,
            "prompt": {"raw": ASKED, "label": "{{q}}"},
            "response": {"output": [CALL]},
        },
    ),
}
ONLY_TOOLS: dict[str, tuple[str, Any]] = {
    "spans": ("jsonl", {"trace_id": "1", "spans": [TOOL]}),
    "a tool inside the same tool": (
        "otlp",
        json.loads(as_json(OTEL_TOOL, tool_call(5, 3, gen_ai__tool__call__arguments=ARGUMENTS))),
    ),
    "a record without a question": ("records", {"output": "Refunded.", "tool_calls": [CALL]}),
    "a system prompt": (
        "atif",
        {
            "schema_version": "ATIF-v1.4",
            "agent": {"name": "desk"},
            "steps": [{"step_id": 1, "source": "system", "message": "Be brief."}],
        },
    ),
}


def read_one(folder: Path, read: Read, document: Any, written: str) -> Trace:
    path = folder / "file.json"
    path.write_text(json.dumps(document))
    (trace,) = read(path, format=written)
    return trace


@pytest.mark.parametrize(("written", "document"), WRITTEN.values(), ids=WRITTEN)
def test_the_question_is_the_users(tmp_path: Path, read: Read, written: str, document: Any) -> None:
    trace = read_one(tmp_path, read, document, written)
    assert len(trace.tool_names) == 1
    assert trace.first_input == ASKED
    assert (EvalContext(trace).input, EvalContext(trace).input_text) == (ASKED, ASKED)
    assert read_facts(trace).asked == ASKED


def test_every_format_is_tried() -> None:
    assert {written for written, _ in WRITTEN.values()} == set(FORMATS)


@pytest.mark.parametrize(("written", "document"), ONLY_TOOLS.values(), ids=ONLY_TOOLS)
def test_where_nobody_tells_the_question_it_is_unknown(
    tmp_path: Path, read: Read, written: str, document: Any
) -> None:
    trace = read_one(tmp_path, read, document, written)
    assert (trace.first_input, trace.question, read_facts(trace).asked) == ("", None, None)


def test_a_server_of_tools_is_asked_what_its_model_is_asked(tmp_path: Path, read: Read) -> None:
    inside = model_call(4, 3, gen_ai__input__messages=json.dumps([USER]))
    document = json.loads(
        as_json(span(name="http"), {**OTEL_TOOL, "parentSpanId": "0" * 15 + "1"}, inside)
    )
    assert read_one(tmp_path, read, document, "otlp").first_input == ASKED


@pytest.mark.parametrize(
    "before",
    [
        {"tool_name": "refund", "input": ARGUMENTS},
        {"tool_input": ARGUMENTS, "input": ARGUMENTS},
        {"span_type": "retrieval", "input": "order 17"},
    ],
)
def test_neither_an_untyped_tool_nor_a_search_asks(
    tmp_path: Path, read: Read, before: dict[str, Any]
) -> None:
    record = {"trace_id": "1", "spans": [before, MODEL]}
    assert read_one(tmp_path, read, record, "jsonl").first_input == ASKED


def test_a_record_of_a_tool_call_asks_nothing(tmp_path: Path, read: Read) -> None:
    record = {"type": "tool", "name": "refund", "input": ARGUMENTS, "output": "done"}
    trace = read_one(tmp_path, read, record, "records")
    assert trace.first_input == ""
    assert trace.tool_names == ["refund"]
