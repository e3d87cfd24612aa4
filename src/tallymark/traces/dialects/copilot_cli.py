"""Transcripts of Copilot CLI: `~/.copilot/session-state/*/events.jsonl`, an event a line.

Tokens of single calls are in `assistant.usage`, which is printed but not stored; the file
has the sums of each model when the session ends. Copilot bills requests, so costs are computed from
tokens; its own `cost` is a number of requests, not of dollars.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tallymark.errors import TraceError
from tallymark.traces.agent_session import AgentSession, feed_records
from tallymark.traces.call_price import price
from tallymark.traces.dialect import Dialect
from tallymark.traces.json_records import read_first_objects
from tallymark.traces.lenient_json import as_label, as_list, as_mapping, as_text, to_unix_ms
from tallymark.traces.token_counts import add_counts, read_usage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tallymark.traces.agent_session import ModelCall
    from tallymark.traces.trace import Trace
    from tallymark.traces.trace_source import TraceSource

_EVENTS = ("session.", "user.message", "assistant.", "tool.execution_", "system.message")


def sniff_bytes(head: bytes) -> bool:
    """True when the first lines are events of a session."""
    return any(
        str(each.get("type", "")).startswith(_EVENTS)
        and isinstance(each.get("data"), dict)
        and "timestamp" in each
        for each in read_first_objects(head)
    )


def read(source: TraceSource) -> Iterator[Trace | TraceError]:
    """The session's trace."""
    session = _Session()
    yield from feed_records(source, session.add)
    yield session.make_trace() or TraceError("the session has no message", place=source.place())


class _Session:
    """One session of Copilot CLI."""

    def __init__(self) -> None:
        self._main = AgentSession("copilot-cli")
        self._agents: dict[str, AgentSession] = {}
        """Subagents, by the tool call that started each."""
        self._calls: dict[str, ModelCall] = {}
        """The latest call of each agent."""
        self._model: str | None = None
        self._metadata: dict[str, Any] = {}
        self._id = ""

    def add(self, event: dict[str, Any]) -> None:
        kind, data = as_label(event.get("type")) or "", as_mapping(event.get("data"))
        at = to_unix_ms(event.get("timestamp"))
        parent = as_label(data.get("parentToolCallId")) or ""
        if kind == "session.start":
            self._id = as_label(data.get("sessionId")) or ""
            self._model = as_label(data.get("selectedModel"))
            self._metadata["version"] = data.get("copilotVersion")
            self._metadata["cwd"] = as_mapping(data.get("context")).get("cwd")
        elif kind == "session.model_change":
            self._model = as_label(data.get("newModel")) or self._model
        elif kind == "user.message":
            # Text from elsewhere, such as a finished background task, names its source.
            if as_label(data.get("source")) in (None, "user"):
                self._main.add_user_message(as_text(data.get("content")), at)
        elif kind == "assistant.message":
            self._add_answer(data, parent, at)
        elif kind == "assistant.usage":
            self._add_usage(data, parent)
        elif kind == "tool.execution_start":
            self._add_tool(data, parent, at)
        elif kind == "tool.execution_complete":
            self._finish_tool(data, parent, at)
        elif kind == "session.error":
            self._main.error = as_text(data.get("message")) or "error"
        elif kind == "session.shutdown":
            self._add_totals(as_mapping(data.get("modelMetrics")))
            if data.get("shutdownType") == "error":
                self._main.error = as_text(data.get("errorReason")) or "error"

    def _find_agent(self, parent: str) -> AgentSession:
        tool = self._main.find_tool(parent)
        if parent in self._agents or tool is None:
            return self._agents.get(parent, self._main)
        self._agents[parent] = self._main.start_subagent(tool, tool.name)
        return self._agents[parent]

    def _add_answer(self, data: dict[str, Any], parent: str, at: float | None) -> None:
        agent = self._find_agent(parent)
        key = as_label(data.get("apiCallId")) or as_label(data.get("messageId"))
        call = self._calls[parent] = agent.open_call(key, at)
        call.model = as_label(data.get("model")) or self._model
        reasoning = as_text(data.get("reasoningText"))
        call.extend(as_text(data.get("content")), reasoning=reasoning, at=at)
        for request in map(as_mapping, as_list(data.get("toolRequests"))):
            name = as_label(request.get("name")) or "tool"
            arguments = as_text(request.get("arguments"))
            agent.add_tool(call, as_label(request.get("toolCallId")), name, arguments, at)

    def _add_usage(self, data: dict[str, Any], parent: str) -> None:
        call = self._calls.get(parent)
        if call is None or call.counts is not None:
            call = self._find_agent(parent).open_call(None)
        call.model = as_label(data.get("model")) or call.model
        call.counts = read_usage(data)

    def _add_tool(self, data: dict[str, Any], parent: str, at: float | None) -> None:
        agent = self._find_agent(parent)
        call = self._calls.get(parent) or agent.open_call(None, at)
        name = as_label(data.get("toolName")) or "tool"
        arguments = as_text(data.get("arguments"))
        tool = agent.add_tool(call, as_label(data.get("toolCallId")), name, arguments, at)
        tool.start_ms = at if at is not None else tool.start_ms

    def _finish_tool(self, data: dict[str, Any], parent: str, at: float | None) -> None:
        agent = self._find_agent(parent)
        agent.note_time(at)
        tool = agent.find_tool(as_label(data.get("toolCallId")))
        if tool is not None:
            failed = data.get("success") is False
            result, error = as_mapping(data.get("result")), as_mapping(data.get("error"))
            output = error.get("message") if failed else result.get("content")
            tool.finish(as_text(output), failed=failed, at=at)

    def _add_totals(self, metrics: dict[str, Any]) -> None:
        """Tokens of each model, with the cost of all where no call has tokens of its own."""
        counts = {
            model: read_usage(as_mapping(as_mapping(each).get("usage")))
            for model, each in metrics.items()
        }
        if not counts:
            return
        self._main.totals = add_counts(counts.values())
        if all(call.counts is None for call in self._calls.values()):
            costs = [price(model, None, each) for model, each in counts.items()]
            known = [cost for cost in costs if cost is not None]
            self._main.total_cost = sum(known) if len(known) == len(costs) else None
            self._main.total_cost_computed = self._main.total_cost is not None

    def make_trace(self) -> Trace | None:
        return None if self._main.empty else self._main.make_trace(self._id, self._metadata)


DIALECT = Dialect(
    name="copilot-cli",
    files="Copilot CLI: `~/.copilot/session-state/*/events.jsonl`",
    known_by="events such as `session.start` and `assistant.message`, each with `data`",
    read=read,
    sniff=lambda _: False,
    sniff_bytes=sniff_bytes,
)
