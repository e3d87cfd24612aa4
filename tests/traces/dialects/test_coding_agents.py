"""Transcripts of Codex, Gemini CLI, Copilot CLI and OpenHands."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tallymark.errors import TraceError
from tallymark.traces import Trace, read_traces
from tallymark.traces.trace import Spending

FIXTURES = Path(__file__).parents[2] / "fixtures" / "traces" / "agents"
ROLLOUT = "codex/rollout-2026-10-05T09-00-00-019a.jsonl"
CHAT = "gemini_cli/session-2026-10-05T09-00-92f6.json"


def read_one(name: str) -> Trace:
    (trace,) = read_traces(FIXTURES / name)
    assert isinstance(trace, Trace)
    return trace


@pytest.mark.parametrize(
    ("name", "asked", "answered", "tools"),
    [
        (ROLLOUT, "Fix the failing test.", "The test passes now.", ["exec_command", "apply_patch"]),
        ("codex/exec.jsonl", "", "Changed a.py.", ["command_execution", "file_change"]),
        (CHAT, "List the files.", "There are a.py and b.py.", ["list_directory"]),
        (f"{CHAT}l", "List the files.", "There are a.py and b.py.", ["list_directory"]),
        ("gemini_cli/stream.jsonl", "List the files.", "There is a.py.", ["list_directory"]),
        (
            "copilot_cli/events.jsonl",
            "Fix the build.",
            "It fails in a.c, line 3.",
            ["task", "bash"],
        ),
        ("openhands/trajectory.json", "Add a flag.", "The flag is there.", ["execute_bash"]),
        ("openhands/events.jsonl", "Add a flag.", "The flag is there.", ["terminal", "terminal"]),
    ],
)
def test_question_answer_and_tools_are_read(
    name: str, asked: str, answered: str, tools: list[str]
) -> None:
    trace = read_one(name)
    assert (trace.first_input, trace.answer, trace.tool_names) == (asked, answered, tools)


# Dollars a million tokens: gpt-5-codex and gemini-2.5-pro 1.25, cached 0.125, output 10;
# claude-sonnet-4.5 3, cache reads 0.3, writes 3.75, output 15; gpt-5-mini 0.25, output 2.
SPENT = [
    (
        ROLLOUT,
        Spending((1_800 * 1.25 + 26_400 * 0.125 + 370 * 10) / 1e6, 28_200, 370, 26_400, 100),
    ),
    ("codex/exec.jsonl", Spending(None, 6_040, 129, 4_992, None)),
    (
        CHAT,
        Spending((8_200 * 1.25 + 6_000 * 0.125 + 112 * 10) / 1e6, 14_200, 112, 6_000, 70),
    ),
    (
        "gemini_cli/stream.jsonl",
        Spending((1_000 * 1.25 + 6_000 * 0.125 + 100 * 10) / 1e6, 7_000, 100, 6_000, None),
    ),
    (
        "copilot_cli/events.jsonl",
        Spending(
            (6_000 * 3 + 20_000 * 0.3 + 4_000 * 3.75 + 500 * 15 + 1_000 * 0.25 + 40 * 2) / 1e6,
            *(31_000, 540, 20_000, None),
        ),
    ),
    ("openhands/trajectory.json", Spending(0.006, 10_200, 80, 4_000, None)),
    ("openhands/events.jsonl", Spending(0.02, 16_000, 150, 12_000, 0)),
]


@pytest.mark.parametrize(("name", "spent"), SPENT)
def test_tokens_and_cost_are_counted_once(name: str, spent: Spending) -> None:
    found = read_one(name).sum_spending()
    assert found.cost == (None if spent.cost is None else pytest.approx(spent.cost))
    assert msgspec.structs.astuple(found)[1:] == msgspec.structs.astuple(spent)[1:]


def test_what_the_program_adds_to_a_rollout_is_no_question() -> None:
    events = [span.input for span in read_one(ROLLOUT).spans if span.span_type == "event"]
    assert events == ["Fix the failing test."]


def test_each_call_of_a_rollout_has_its_tokens() -> None:
    calls = read_one(ROLLOUT).generations
    assert [(span.input_tokens, span.output_tokens) for span in calls] == [
        (9_000, 300),
        (9_500, 50),
        (9_700, 20),
    ]
    assert {span.model for span in calls} == {"gpt-5-codex"}


def test_a_command_that_ended_with_an_exit_code_failed() -> None:
    failed = [span.failed for span in read_one(ROLLOUT).tool_calls]
    assert failed == [True, False]


def test_a_chat_written_line_by_line_is_the_same_as_one_document() -> None:
    one, lines = read_one(CHAT), read_one(f"{CHAT}l")
    assert one.spans == lines.spans


def test_a_subagent_of_copilot_stands_below_its_tool_call() -> None:
    trace = read_one("copilot_cli/events.jsonl")
    (task,) = [span for span in trace.tool_calls if span.name == "task"]
    (agent,) = trace.children(task)
    assert [span.model for span in trace.children(agent)] == ["gpt-5-mini"]


@pytest.mark.parametrize("name", ["openhands/trajectory.json", "openhands/events.jsonl"])
def test_the_system_prompt_of_openhands_is_no_question(name: str) -> None:
    assert "You are OpenHands" not in read_one(name).first_input


def test_a_refused_tool_call_of_openhands_failed() -> None:
    calls = read_one("openhands/events.jsonl").tool_calls
    assert [(span.failed, span.tool_output) for span in calls] == [
        (False, "cli.py"),
        (True, "not allowed"),
    ]


@pytest.mark.parametrize(
    "line",
    [
        '{"type":"session_meta","payload":{"id":"x"}}',
        '{"sessionId":"x","projectHash":"y"}',
        '{"type":"session.start","data":{},"timestamp":"2026-10-05T09:00:00Z"}',
        '{"type":"system","subtype":"init","session_id":"x","tools":[]}',
    ],
)
def test_a_session_without_a_message_is_refused(tmp_path: Path, line: str) -> None:
    file = tmp_path / "session.jsonl"
    file.write_text(f"{line}\n")
    with pytest.raises(TraceError, match="no message"):
        list(read_traces(file))


@pytest.mark.parametrize(
    ("name", "source"),
    [
        (ROLLOUT, "computed"),
        ("codex/exec.jsonl", None),
        ("claude_code/stream.jsonl", "reported"),
        ("copilot_cli/events.jsonl", "computed"),
        ("openhands/events.jsonl", "reported"),
    ],
)
def test_a_cost_says_where_it_comes_from(name: str, source: str | None) -> None:
    assert read_one(name).cost_source == source
