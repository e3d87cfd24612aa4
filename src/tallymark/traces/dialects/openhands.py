"""Trajectories of OpenHands: a list of events, as it is saved (V0) or exported by its SDK (V1).

V0 has actions and observations, V1 has a `kind` for each event. Both name the tool call that an
observation belongs to, and the model's response that actions came from.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallymark.errors import TraceError
from tallymark.traces.agent_session import AgentSession, feed_records
from tallymark.traces.chat_messages import parse_messages
from tallymark.traces.dialect import Dialect
from tallymark.traces.lenient_json import (
    as_amount,
    as_label,
    as_list,
    as_mapping,
    as_text,
    compact,
    to_unix_ms,
)
from tallymark.traces.token_counts import add_counts, read_usage

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from tallymark.traces.agent_session import ModelCall
    from tallymark.traces.trace import Trace
    from tallymark.traces.trace_source import TraceSource

_KINDS = ("ActionEvent", "ObservationEvent", "MessageEvent", "SystemPromptEvent")
_USUAL_NAMES = ("events", "trajectory", "output")
_NO_TOOLS = ("message", "system", "recall", "change_agent_state", "null", "finish")


def sniff(keys: Collection[str]) -> bool:
    """True when an object with these keys is an event."""
    saved = "source" in keys and ("action" in keys or "observation" in keys) and "args" in keys
    exported = "kind" in keys and "source" in keys and "timestamp" in keys
    return saved or exported


def read(source: TraceSource) -> Iterator[Trace | TraceError]:
    """The trajectory's trace."""
    session = _Session()
    yield from feed_records(source, session.add)
    trace = session.make_trace(_name_conversation(source.name))
    yield trace or TraceError("the trajectory is empty", place=source.place())


def _name_conversation(file: str) -> str:
    """An id by file name, since events have none; with its folder if the file name is usual."""
    path = Path(file)
    usual = path.stem in _USUAL_NAMES and path.parent.name
    name = f"{path.parent.name}/{path.stem}" if usual else path.stem
    return "" if file.startswith("<") else name


class _Session:
    """One conversation with OpenHands."""

    def __init__(self) -> None:
        self._session = AgentSession("openhands")
        self._metrics: dict[str, Any] = {}
        """The latest sums of each use of a model."""
        self._calls: dict[str, ModelCall] = {}

    def add(self, event: dict[str, Any]) -> None:
        at = to_unix_ms(event.get("timestamp"))
        if metrics := as_mapping(event.get("llm_metrics")):
            self._metrics["agent"] = metrics
        if "kind" in event:
            self._add_exported(event, str(event["kind"]), at)
        else:
            self._add_saved(event, at)

    def _open_call(self, key: str | None, at: float | None) -> ModelCall:
        call = self._session.open_call(key, at)
        if key is not None:
            self._calls[key] = call
        return call

    def _add_saved(self, event: dict[str, Any], at: float | None) -> None:
        """An event of V0."""
        args, kind = as_mapping(event.get("args")), as_label(event.get("action"))
        told = as_mapping(event.get("tool_call_metadata"))
        tool_id = as_label(told.get("tool_call_id"))
        if event.get("observation"):
            # Without a model's tool call, an observation names the event that caused it.
            tool = self._session.find_tool(tool_id or f"event-{event.get('cause')}")
            if tool is not None:
                extras = as_mapping(event.get("extras"))
                code = extras.get("exit_code", as_mapping(extras.get("metadata")).get("exit_code"))
                failed = event["observation"] == "error" or code not in (None, 0, -1)
                tool.finish(as_text(event.get("content")), failed=failed, at=at)
            self._session.note_time(at)
        elif event.get("source") == "user":
            if kind == "message":
                self._session.add_user_message(as_text(args.get("content")), at)
        elif kind is not None and event.get("source") == "agent":
            self._add_action(event, kind, args, told, at)

    def _add_action(
        self, event: dict[str, Any], kind: str, args: dict[str, Any], told: dict[str, Any],
        at: float | None,
    ) -> None:  # fmt: skip
        response = as_mapping(told.get("model_response"))
        if kind in ("system", "recall", "change_agent_state", "null"):
            return
        key = as_label(response.get("id")) or f"event-{event.get('id')}"
        call = self._open_call(key, at)
        call.model = as_label(response.get("model")) or call.model
        if call.counts is None and response.get("usage"):
            call.counts = read_usage(as_mapping(response["usage"]))
        said = args.get("thought") or (args.get("content") if kind == "message" else None)
        if kind == "finish":
            said = args.get("final_thought") or args.get("message") or said
        call.extend("" if as_text(said) in call.texts else as_text(said), at=at)
        if kind not in _NO_TOOLS:
            given = {key: each for key, each in args.items() if key not in _ABOUT}
            name = as_label(told.get("function_name")) or kind
            tool_id = as_label(told.get("tool_call_id")) or f"event-{event.get('id')}"
            self._session.add_tool(call, tool_id, name, compact(given), at)

    def _add_exported(self, event: dict[str, Any], kind: str, at: float | None) -> None:
        """An event of the SDK (V1)."""
        if kind == "MessageEvent":
            message = as_mapping(event.get("llm_message"))
            text = parse_messages([message])[0].text if message else ""
            if event.get("source") == "user":
                self._session.add_user_message(text, at)
            elif event.get("source") == "agent":
                call = self._open_call(as_label(event.get("llm_response_id")), at)
                reasoning = as_text(message.get("reasoning_content"))
                call.extend(text, reasoning=reasoning, at=at)
        elif kind == "ActionEvent":
            call = self._open_call(as_label(event.get("llm_response_id")), at)
            thought = "\n".join(
                as_text(as_mapping(each).get("text")) for each in as_list(event.get("thought"))
            )
            asked = as_mapping(event.get("tool_call"))
            given = asked.get("arguments") or as_mapping(asked.get("function")).get("arguments")
            name = as_label(event.get("tool_name")) or "tool"
            reasoning = "" if call.reasoning else as_text(event.get("reasoning_content"))
            call.extend("" if thought in call.texts else thought, reasoning=reasoning, at=at)
            if name == "finish":
                said = as_mapping(event.get("action")).get("message")
                self._session.answer = as_text(said) or self._session.answer
                return
            tool_id = as_label(event.get("tool_call_id"))
            self._session.add_tool(call, tool_id, name, as_text(given or event.get("action")), at)
        elif kind in ("ObservationEvent", "AgentErrorEvent", "UserRejectObservation"):
            self._finish_tool(event, kind, at)
        elif kind == "ConversationErrorEvent":
            self._session.error = as_text(event.get("detail") or event.get("code")) or "error"
        elif kind == "ConversationStateUpdateEvent":
            value = as_mapping(event.get("value"))
            stats = value if event.get("key") == "stats" else as_mapping(value.get("stats"))
            self._metrics |= as_mapping(stats.get("usage_to_metrics"))

    def _finish_tool(self, event: dict[str, Any], kind: str, at: float | None) -> None:
        self._session.note_time(at)
        tool = self._session.find_tool(as_label(event.get("tool_call_id")))
        if tool is None:
            return
        if kind != "ObservationEvent":
            text = as_text(event.get("error") or event.get("rejection_reason"))
            tool.finish(text, failed=True, at=at)
            return
        seen = as_mapping(event.get("observation"))
        content = next((seen[key] for key in ("content", "output") if seen.get(key)), "")
        message = parse_messages([{"role": "tool", "content": content}])[0]
        said = message.text or "\n".join(each.text for each in message.results)
        tool.finish(said, failed=bool(seen.get("is_error") or seen.get("error")), at=at)

    def make_trace(self, trace_id: str) -> Trace | None:
        if self._session.empty:
            return None
        self._add_metrics([as_mapping(each) for each in self._metrics.values()])
        return self._session.make_trace(trace_id, {})

    def _add_metrics(self, metrics: list[dict[str, Any]]) -> None:
        """Costs, and tokens of each call by the response that it is of."""
        models = {as_label(each.get("model_name")) for each in metrics}
        usages = [as_mapping(each.get("accumulated_token_usage")) for each in metrics]
        counts = [read_usage(each) for each in usages if each]
        for each in metrics:
            for usage in map(as_mapping, as_list(each.get("token_usages"))):
                call = self._calls.get(as_label(usage.get("response_id")) or "")
                if call is not None:
                    call.counts = read_usage(usage)
                    call.model = as_label(usage.get("model")) or call.model
        for call in self._calls.values():
            if call.model is None and len(models) == 1:
                call.model = next(iter(models))
        if counts:
            self._session.totals = add_counts(counts)
        costs = [as_amount(each.get("accumulated_cost")) for each in metrics]
        known = [cost for cost in costs if cost is not None]
        # It reports 0 for models without a known price.
        self._session.total_cost = (sum(known) or None) if known else None


_ABOUT = ("thought", "blocking", "is_input", "hidden", "confirmation_state", "security_risk")
"""Arguments that describe an action and do not go to the tool."""


DIALECT = Dialect(
    name="openhands",
    files="OpenHands: saved trajectories, and lists of events of its SDK",
    known_by="events with `source`, and `action` or `observation` with `args`; or with `kind`",
    read=read,
    sniff=sniff,
)
