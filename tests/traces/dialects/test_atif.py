"""ATIF trajectories."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tallymark.errors import TraceError
from tallymark.traces import Trace

Read = Callable[..., list[Trace]]


def test_steps_and_tools_are_spans(read: Read) -> None:
    (trace,) = read("trajectory.json")
    assert (trace.trace_id, trace.name, trace.duration_ms) == ("session-42", "terminal-agent", 5000)
    assert [(span.span_type, span.name) for span in trace.spans] == [
        ("span", "terminal-agent"),
        ("event", "system"),
        ("event", "user"),
        ("generation", "gpt-4o-mini"),
        ("tool", "bash"),
        ("tool", "bash"),
        ("generation", "gpt-4o-mini"),
    ]
    assert trace.last_output == "There are 2 files."
    assert trace.generations[0].metadata == {"reasoning": "ls tells."}
    assert trace.generations[0].input == "How many files are here?"
    assert trace.metadata["agent"]["version"] == "1.2.0"


def test_observations_find_their_calls(read: Read) -> None:
    first, second = read("trajectory.json")[0].tool_calls
    assert (first.tool_input, first.tool_output) == ('{"command":"ls"}', "a.txt\nb.txt")
    assert (second.tool_input, second.tool_output) == ('{"command":"ls | wc -l"}', "2")


def test_totals_are_not_added_to_the_steps(read: Read) -> None:
    (trace,) = read("trajectory.json")
    assert (trace.input_tokens, trace.output_tokens) == (1060, 48)
    assert trace.cost == pytest.approx(0.0003)


def test_totals_count_where_the_steps_have_no_numbers(read: Read) -> None:
    (trace,) = read("trajectory_subagent.json")
    assert (trace.input_tokens, trace.output_tokens, trace.cost) == (900, 70, 0.004)


def test_a_subagent_hangs_below_the_call_that_started_it(read: Read) -> None:
    (trace,) = read("trajectory_subagent.json")
    delegate = trace.tool_calls[0]
    (reader,) = trace.children(delegate)
    assert (delegate.tool_name, delegate.tool_output, reader.name) == ("delegate", None, "reader")
    assert reader.output == "The report is good."
    assert trace.last_output == "It went well."
    assert len({span.span_id for span in trace.spans}) == len(trace.spans)


def test_definitions_and_copied_steps_do_not_count(read: Read) -> None:
    (trace,) = read("trajectory_subagent.json")
    assert trace.tool_names == ["delegate", "open"]
    assert "An old answer." not in [span.output for span in trace.generations]


def test_an_observation_without_a_call_is_an_event(read: Read) -> None:
    (trace,) = read("trajectory_subagent.json")
    assert [s.output for s in trace.spans if s.name == "observation"] == ["Task complete."]


def test_an_observation_of_an_unknown_call_is_not_lost(traced: Callable[..., list[Trace]]) -> None:
    calls = [{"tool_call_id": "c1", "function_name": "f", "arguments": {}}]
    results = [{"source_call_id": "gone", "content": "late"}]
    (trace,) = traced(trajectory(agent(tool_calls=calls, observation={"results": results})))
    assert trace.tool_calls[0].tool_output is None
    assert [s.output for s in trace.spans if s.name == "observation"] == ["late"]


def test_a_subagent_without_a_reference_hangs_below_the_agent(
    traced: Callable[..., list[Trace]],
) -> None:
    (trace,) = traced(trajectory(agent(), subagent_trajectories=[trajectory(agent())]))
    assert [(depth, span.span_type) for depth, span in trace.walk()] == [
        (0, "span"), (1, "span"), (2, "generation"), (1, "generation")
    ]  # fmt: skip


def agent(**fields: Any) -> dict[str, Any]:
    return {"source": "agent", "message": "ok", **fields}


def trajectory(*steps: Any, **fields: Any) -> dict[str, Any]:
    about = {"name": "a", "version": "1", "model_name": "gpt-4o-mini"}
    return {"schema_version": "ATIF-v1.6", "agent": about, "steps": list(steps), **fields}


@pytest.fixture
def traced(tmp_path: Path, read: Read) -> Callable[..., list[Trace]]:
    def write_and_read(*documents: Any, **options: Any) -> list[Trace]:
        (tmp_path / "t.jsonl").write_text("\n".join(json.dumps(each) for each in documents))
        return read(tmp_path / "t.jsonl", format="atif", **options)

    return write_and_read


@pytest.mark.parametrize(
    ("metrics", "final", "cost"),
    [
        ({"prompt_tokens": 10**6, "completion_tokens": 0}, {}, 0.15),
        ({"prompt_tokens": 10**6, "completion_tokens": 0, "cached_tokens": 10**6}, {}, 0.075),
        ({"prompt_tokens": 10**6, "cost_usd": 3}, {"total_cost_usd": 9}, 3),
        ({"prompt_tokens": 10**6}, {"total_cost_usd": 9}, 9),
        ({}, {}, None),
    ],
)
def test_cost_is_the_steps_then_the_total_then_the_price_table(
    traced: Callable[..., list[Trace]], metrics: Any, final: Any, cost: float | None
) -> None:
    (trace,) = traced(trajectory(agent(metrics=metrics), final_metrics=final))
    assert trace.cost == pytest.approx(cost)


def test_a_step_without_a_model_call_is_no_generation(
    traced: Callable[..., list[Trace]],
) -> None:
    (trace,) = traced(trajectory(agent(llm_call_count=0), agent(llm_call_count=1)))
    assert len(trace.generations) == 1


def test_several_trajectories_one_a_line(traced: Callable[..., list[Trace]]) -> None:
    found = traced(trajectory(session_id="a"), trajectory(session_id="b"))
    assert [trace.trace_id for trace in found] == ["a", "b"]


def test_a_document_without_steps_is_refused(traced: Callable[..., list[Trace]]) -> None:
    broken = {"agent": {"name": "a"}, "schema_version": "ATIF-v1.4"}
    with pytest.raises(TraceError, match=r"t\.jsonl:1: not a trajectory: it has no list of steps"):
        traced(broken)
    assert len(traced(broken, 7, trajectory(), skip_broken=True)) == 1


def test_the_total_covers_steps_without_a_cost(read: Read, tmp_path: Path) -> None:
    document = {
        "schema_version": "ATIF-v1.4",
        "agent": {"name": "a", "model_name": "gpt-4o-mini"},
        "steps": [
            {"step_id": 1, "source": "agent", "message": "x", "metrics": {"cost_usd": 0.01}},
            {"step_id": 2, "source": "agent", "message": "y", "metrics": {"prompt_tokens": 900}},
        ],
        "final_metrics": {"total_cost_usd": 0.0123},
    }
    path = tmp_path / "trajectory.json"
    path.write_text(json.dumps(document))
    (trace,) = read(path)
    assert trace.cost == pytest.approx(0.0123)
    assert trace.cost_source == "reported"
