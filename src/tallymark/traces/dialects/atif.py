"""ATIF trajectories (Agent Trajectory Interchange Format 1.x, as Harbor writes them).

Each step of the agent is a model call, its tool calls stand below it with what they observed,
and the steps of user and system are events. A subagent's trajectory hangs below the tool call
that refers to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from tallymark.errors import TraceError
from tallymark.text import add_exactly
from tallymark.traces.call_price import cost_fields
from tallymark.traces.chat_messages import parse_messages
from tallymark.traces.dialect import Dialect
from tallymark.traces.json_records import read_records
from tallymark.traces.lenient_json import (
    as_amount,
    as_count,
    as_label,
    as_list,
    as_mapping,
    as_text,
    to_unix_ms,
)
from tallymark.traces.token_counts import read_usage
from tallymark.traces.trace import Span, Trace

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from tallymark.traces.trace_source import TraceSource


def sniff(keys: Collection[str]) -> bool:
    """True when an object with these keys is a trajectory."""
    return "agent" in keys and ("steps" in keys or "schema_version" in keys)


def read(source: TraceSource) -> Iterator[Trace | TraceError]:
    """Every trajectory's trace, or the reason why there is none."""
    for record in read_records(source):
        try:
            value = record.decode()
            if not isinstance(as_mapping(value).get("steps"), list):
                yield TraceError("not a trajectory: it has no list of steps", place=record.place)
            else:
                yield _make_trace(value)
        except RecursionError:
            yield TraceError("the trajectory is nested too deeply to read", place=record.place)
        except TraceError as error:
            yield error


def _make_trace(trajectory: dict[str, Any]) -> Trace:
    spans = _Trajectory(trajectory, "", None).spans()
    times = [span.start_ms for span in spans if span.start_ms is not None]
    agent = as_mapping(trajectory.get("agent"))
    known = {
        "agent": {key: agent[key] for key in ("name", "version", "model_name") if key in agent},
        "schema_version": trajectory.get("schema_version"),
        "notes": trajectory.get("notes"),
        "extra": trajectory.get("extra"),
        "final_metrics": trajectory.get("final_metrics"),
    }
    return Trace(
        trace_id=as_label(trajectory.get("session_id"))
        or as_label(trajectory.get("trajectory_id"))
        or "",
        name=as_label(agent.get("name")) or "trajectory",
        duration_ms=max(times) - min(times) if times else 0.0,
        metadata={key: value for key, value in known.items() if value not in (None, "", {})},
        spans=spans,
    )


class _Trajectory:
    """The spans of one trajectory, and of the subagents' trajectories inside it."""

    def __init__(self, trajectory: dict[str, Any], prefix: str, parent_id: str | None) -> None:
        agent = as_mapping(trajectory.get("agent"))
        self._steps = [as_mapping(step) for step in as_list(trajectory.get("steps"))]
        self._final = as_mapping(trajectory.get("final_metrics"))
        self._subagents = [
            as_mapping(each) for each in as_list(trajectory.get("subagent_trajectories"))
        ]
        self._model = as_label(agent.get("model_name"))
        self._name = as_label(agent.get("name")) or "agent"
        self._id = f"{prefix}agent"
        self._prefix = prefix
        self._parent_id = parent_id
        self._asked = ""
        self._called_by: dict[str, str] = {}

    def spans(self) -> list[Span]:
        """The agent's own span, then its steps', subagents' right below who called them."""
        steps = [
            span
            for i, step in enumerate(self._steps)
            for span in self._list_step_spans(step, i + 1)
        ]
        below: dict[str | None, list[Span]] = {}
        for i, each in enumerate(self._subagents):
            spans = self._list_subagent_spans(each, f"{self._id}-{i + 1}/")
            below.setdefault(spans[0].parent_id, []).extend(spans)
        own = [self._make_root(steps), *steps]
        return [each for span in own for each in (span, *below.get(span.span_id, ()))]

    def _list_subagent_spans(self, trajectory: dict[str, Any], prefix: str) -> list[Span]:
        callers = (self._called_by.get(name) for name in _list_names(trajectory))
        parent = next(filter(None, callers), self._id)
        return _Trajectory(trajectory, prefix, parent).spans()

    def _make_root(self, steps: list[Span]) -> Span:
        """The agent as a whole. Totals stand here only where the steps have no numbers."""
        generations = [span for span in steps if span.span_type == "generation"]
        counted = any(span.tokens is not None for span in generations)
        # If some steps have no cost, the rest of the file's total is theirs.
        costs = [span.cost for span in generations if span.cost is not None]
        total_cost = as_amount(self._final.get("total_cost_usd"))
        if costs and len(costs) == len(generations):
            total_cost = None
        elif costs and total_cost is not None:
            total_cost = max(0.0, total_cost - add_exactly(costs))
        total = {
            key: self._final.get(f"total_{key}") for key in ("prompt_tokens", "completion_tokens")
        }
        return Span(
            span_id=self._id,
            name=self._name,
            parent_id=self._parent_id,
            input=next((span.input for span in steps if span.name == "user"), ""),
            output=next((span.output for span in reversed(generations) if span.output), ""),
            model=self._model,
            start_ms=next((span.start_ms for span in steps), None),
            input_tokens=None if counted else as_count(total["prompt_tokens"]),
            output_tokens=None if counted else as_count(total["completion_tokens"]),
            cost=total_cost,
        )

    def _list_step_spans(self, step: dict[str, Any], number: int) -> Iterator[Span]:
        source = as_label(step.get("source")) or "step"
        said = parse_messages([{"role": source, "content": step.get("message")}])[0].text
        span_id = f"{self._prefix}step-{as_label(step.get('step_id')) or number}"
        start = to_unix_ms(step.get("timestamp"))
        if source != "agent" or step.get("is_copied_context"):
            event = Span(span_id=span_id, name=source, span_type="event", parent_id=self._id,
                         start_ms=start)  # fmt: skip
            if source == "user":
                self._asked = said
                yield replace(event, input=said)
            else:  # a system prompt is no question
                yield replace(event, output=said)
            return
        yield self._make_generation(step, span_id, said, start)
        yield from self._list_tool_spans(step, span_id, start)

    def _make_generation(
        self, step: dict[str, Any], span_id: str, said: str, start: float | None
    ) -> Span:
        metrics = as_mapping(step.get("metrics"))
        counts = read_usage(metrics | as_mapping(metrics.get("extra")))
        cost = as_amount(metrics.get("cost_usd"))
        model = as_label(step.get("model_name")) or self._model
        # The file's own total, if it has one, is better than prices that we look up.
        spent = cost_fields(cost, model, None, counts, start_ms=start)
        if cost is None and as_amount(self._final.get("total_cost_usd")) is not None:
            spent = {"cost": None, "cost_computed": False}
        reasoning = as_label(step.get("reasoning_content"))
        return Span(
            span_id=span_id,
            name=model or self._name,
            span_type="span" if step.get("llm_call_count") == 0 else "generation",
            parent_id=self._id,
            input=self._asked,
            output=said,
            model=model,
            start_ms=start,
            **counts.as_fields(),
            **spent,
            metadata={"reasoning": reasoning} if reasoning else {},
        )

    def _list_tool_spans(
        self, step: dict[str, Any], span_id: str, start: float | None
    ) -> Iterator[Span]:
        results = [
            as_mapping(r) for r in as_list(as_mapping(step.get("observation")).get("results"))
        ]
        calls = [as_mapping(call) for call in as_list(step.get("tool_calls"))]
        for i, call in enumerate(calls):
            tool_id = f"{span_id}/tool-{i + 1}"
            mine = [r for r in results if r.get("source_call_id") == call.get("tool_call_id")]
            for ref in (ref for r in mine for ref in as_list(r.get("subagent_trajectory_ref"))):
                self._called_by |= dict.fromkeys(_list_names(as_mapping(ref)), tool_id)
            arguments = as_text(call.get("arguments"))
            told = [
                _read_observation(result) for result in mine if result.get("content") is not None
            ]
            output = "\n".join(told) if told else None
            name = as_label(call.get("function_name")) or "tool"
            yield Span(
                span_id=tool_id,
                name=name,
                span_type="tool",
                parent_id=span_id,
                input=arguments,
                output=output or "",
                tool_name=name,
                tool_input=arguments,
                tool_output=output,
                start_ms=start,
            )
        called = [call.get("tool_call_id") for call in calls]
        if loose := [r for r in results if r.get("source_call_id") not in called]:
            seen = "\n".join(filter(None, map(_read_observation, loose)))
            yield Span(span_id=f"{span_id}/observation", name="observation", span_type="event",
                       parent_id=span_id, output=seen, start_ms=start)  # fmt: skip


def _list_names(trajectory: dict[str, Any]) -> list[str]:
    """The names of a trajectory, or of a reference to one."""
    names = (as_label(trajectory.get(key)) for key in ("trajectory_id", "session_id"))
    return [name for name in names if name]


def _read_observation(result: dict[str, Any]) -> str:
    return parse_messages([{"role": "user", "content": result.get("content")}])[0].text


DIALECT = Dialect(
    name="atif",
    files="ATIF 1.x trajectories (Harbor, Terminal-Bench)",
    known_by="`agent` with `steps` or `schema_version`",
    read=read,
    sniff=sniff,
)
