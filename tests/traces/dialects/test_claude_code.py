"""Transcripts of Claude Code."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import pytest

from tallymark.errors import TraceError
from tallymark.traces import Span, Trace, read_traces

Read = Callable[..., list[Trace]]
FIXTURES = Path(__file__).parents[2] / "fixtures" / "traces" / "agents" / "claude_code"


def read_one(name: str) -> Trace:
    (trace,) = read_traces(FIXTURES / name)
    assert isinstance(trace, Trace)
    return trace


@pytest.fixture(scope="module")
def session() -> Trace:
    return read_one("0b6e.jsonl")


def find_generations(trace: Trace, model: str) -> list[Span]:
    return [span for span in trace.generations if span.model == model]


def test_question_and_answer_are_those_of_the_user(session: Trace) -> None:
    assert session.first_input == "Rename util to text and keep the tests green."
    assert session.answer == "Done: util is now text."
    assert (session.trace_id, session.duration_ms) == ("0b6e", 14_000)
    assert session.metadata["git_branch"] == "main"


def test_usage_of_a_message_that_stands_in_four_lines_counts_once(session: Trace) -> None:
    first, *_ = find_generations(session, "claude-sonnet-4-5")
    # 4 fresh, 2,000 written and 10,000 read; output grows from line to line, so the last counts.
    assert (first.input_tokens, first.output_tokens) == (12_004, 120)
    assert (first.cache_read_tokens, first.cache_write_tokens) == (10_000, 2_000)
    assert first.cache_write_1h_tokens == 1_500
    assert len(find_generations(session, "claude-sonnet-4-5")) == 3


def test_cost_is_that_of_the_price_list(session: Trace) -> None:
    """Sonnet 4.5: 3 and 15 dollars a million, cache reads 0.3, writes 3.75 (5 min)."""
    last = find_generations(session, "claude-sonnet-4-5")[2]
    assert last.cost == pytest.approx((8 * 3 + 12_300 * 0.3 + 40 * 15) / 1e6)
    second = find_generations(session, "claude-sonnet-4-5")[1]
    assert second.cost == pytest.approx((6 * 3 + 300 * 3.75 + 12_000 * 0.3 + 80 * 15) / 1e6)
    assert session.cost == pytest.approx(0.015687 + 0.005943 + 0.004314 + 0.00065 + 0.0007)


def test_text_tools_and_thinking_of_a_message_are_one_call(session: Trace) -> None:
    first, *_ = find_generations(session, "claude-sonnet-4-5")
    assert first.output == "I will look for imports first."
    assert first.metadata == {"reasoning": "First find who imports it."}
    assert [span.name for span in session.children(first)] == ["Bash", "Task"]


def test_a_tool_has_its_result_and_failure(session: Trace) -> None:
    bash = [span for span in session.tool_calls if span.name == "Bash"]
    assert bash[0].tool_input == '{"command":"grep -rn util src"}'
    assert bash[0].tool_output == "src/app/main.py:1: import util"
    assert (bash[0].failed, bash[0].duration_ms) == (False, 1_000)
    assert (bash[1].failed, bash[1].error) == (True, "1 failed")


def test_a_subagent_in_a_file_of_its_own_stands_below_its_tool_call(session: Trace) -> None:
    (task,) = [span for span in session.tool_calls if span.name == "Task"]
    (agent,) = session.children(task)
    assert (agent.name, agent.input) == ("explorer", "Which tests import util?")
    assert sum(span.input_tokens or 0 for span in session.children(agent)) == 1_100


def test_a_folder_has_a_session_once_with_its_subagents() -> None:
    assert sorted(trace.trace_id for trace in read_traces(FIXTURES)) == ["0b6e", "5c1f"]


def test_a_subagents_file_alone_is_a_trace(tmp_path: Path) -> None:
    shutil.copy(FIXTURES / "0b6e/subagents/agent-a17.jsonl", tmp_path)
    (trace,) = read_traces(tmp_path / "agent-a17.jsonl")
    assert isinstance(trace, Trace)
    assert (trace.first_input, trace.input_tokens) == ("Which tests import util?", 1_100)


def test_an_id_of_a_subagent_leads_out_of_no_folder(tmp_path: Path) -> None:
    secret = tmp_path / "agent-secret.jsonl"
    secret.write_text((FIXTURES / "0b6e/subagents/agent-a17.jsonl").read_text())
    inside = tmp_path / "project"
    inside.mkdir()
    text = (FIXTURES / "0b6e.jsonl").read_text().replace('"a17"', '"../secret"')
    (inside / "0b6e.jsonl").write_text(text)
    (trace,) = read_traces(inside / "0b6e.jsonl")
    assert isinstance(trace, Trace)
    assert find_generations(trace, "claude-haiku-4-5") == []


def test_a_stream_names_no_files_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(FIXTURES / "0b6e/subagents/agent-a17.jsonl", tmp_path)
    monkeypatch.chdir(tmp_path)
    (trace,) = read_traces(BytesIO((FIXTURES / "0b6e.jsonl").read_bytes()))
    assert find_generations(trace, "claude-haiku-4-5") == []


def test_a_subagent_in_the_sessions_own_file_stands_below_its_tool_call(tmp_path: Path) -> None:
    """Sessions before version 2.1 have its lines among the others."""
    main = (FIXTURES / "0b6e.jsonl").read_text().splitlines()
    side = (FIXTURES / "0b6e/subagents/agent-a17.jsonl").read_text().splitlines()
    side = [line.replace('"agentId":"a17",', "") for line in side]
    file = tmp_path / "0b6e.jsonl"
    file.write_text("\n".join([*main[:7], *side, *main[7:]]))
    (trace,) = read_traces(file)
    assert isinstance(trace, Trace)
    (task,) = [span for span in trace.tool_calls if span.name == "Task"]
    assert [span.name for span in trace.children(task)] == ["explorer"]
    assert trace.sum_spending() == read_one("0b6e.jsonl").sum_spending()


def test_a_printed_stream_has_the_totals_of_its_last_line() -> None:
    stream = read_one("stream.jsonl")
    assert (stream.cost, stream.duration_ms) == (0.0123, 4_200)
    # 8 + 11,000 + 1,050 of one model, 200 of the other.
    assert (stream.input_tokens, stream.output_tokens) == (12_258, 115)
    assert stream.cached_tokens == 11_000
    assert stream.answer == "Fixed a.py."


def test_a_printed_stream_does_not_tell_the_question() -> None:
    assert read_one("stream.jsonl").first_input == ""


def test_output_tokens_of_single_calls_of_a_stream_are_unknown() -> None:
    """They are counted when an answer begins."""
    assert {span.output_tokens for span in read_one("stream.jsonl").generations} == {None}


def test_a_failed_run_is_an_error(tmp_path: Path) -> None:
    lines = (FIXTURES / "stream.jsonl").read_text().splitlines()
    end = json.loads(lines[-1]) | {"subtype": "error_max_turns", "is_error": True, "result": None}
    file = tmp_path / "stream.jsonl"
    file.write_text("\n".join([*lines[:-1], json.dumps(end)]))
    (trace,) = read_traces(file)
    assert isinstance(trace, Trace)
    assert trace.failed
    assert trace.roots[0].error == "error_max_turns"


def test_a_session_that_goes_on_is_read_up_to_its_last_whole_line(tmp_path: Path) -> None:
    file = tmp_path / "0b6e.jsonl"
    file.write_bytes((FIXTURES / "0b6e.jsonl").read_bytes()[:-250])
    told: list[TraceError] = []
    (trace,) = read_traces(file, on_broken=told.append)
    assert "the last line is cut short" in str(told[0])
    assert trace.answer == "I will look for imports first."
