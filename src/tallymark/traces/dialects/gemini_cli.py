"""Transcripts of Gemini CLI: recorded chats, and `gemini --output-format stream-json`.

A chat is one JSON document, or (since 2026) a line for each record: a header, messages, changes of
the header (`$set`), and going back to a message (`$rewindTo`). A message that is written again
replaces the one with its id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tallymark.errors import TraceError
from tallymark.traces.agent_session import AgentSession, feed_records
from tallymark.traces.chat_messages import parse_messages
from tallymark.traces.dialect import Dialect
from tallymark.traces.json_records import read_first_objects
from tallymark.traces.lenient_json import (
    as_amount,
    as_count,
    as_label,
    as_list,
    as_mapping,
    as_text,
    compact,
    to_unix_ms,
)
from tallymark.traces.token_counts import TokenCounts

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from tallymark.traces.agent_session import ModelCall
    from tallymark.traces.trace import Trace
    from tallymark.traces.trace_source import TraceSource

_FAILED = ("error", "cancelled")


def sniff(keys: Collection[str]) -> bool:
    """True when an object with these keys is a recorded chat, or its header."""
    return "sessionId" in keys and "projectHash" in keys


def sniff_bytes(head: bytes) -> bool:
    """True when the first line begins a printed stream."""
    first = next(iter(read_first_objects(head, 1)), {})
    return first.get("type") == "init" and "session_id" in first and "model" in first


def read(source: TraceSource) -> Iterator[Trace | TraceError]:
    """The chat's trace."""
    chat = _Chat()
    yield from feed_records(source, chat.add)
    yield chat.make_trace() or TraceError("the chat has no message", place=source.place())


class _Chat:
    """The records of a chat by their kind."""

    def __init__(self) -> None:
        self._header: dict[str, Any] = {}
        self._messages: dict[str, dict[str, Any]] = {}
        self._printed: list[dict[str, Any]] = []

    def add(self, record: dict[str, Any]) -> None:
        if "$rewindTo" in record:
            _rewind(self._messages, as_label(record["$rewindTo"]))
        elif isinstance(record.get("$set"), dict):
            self._header |= record["$set"]
        elif "projectHash" in record:
            self._header |= record
        elif record.get("id") is not None:
            self._messages[str(record["id"])] = (
                record  # replaces a message with the same id in its place
            )
        else:
            self._printed.append(record)

    def make_trace(self) -> Trace | None:
        if self._printed:
            return _make_printed(self._printed)
        for number, message in enumerate(map(as_mapping, as_list(self._header.get("messages")))):
            self._messages[as_label(message.get("id")) or f"#{number}"] = message
        return _make_trace(self._header, self._messages)


def _rewind(messages: dict[str, dict[str, Any]], to: str | None) -> None:
    names = list(messages)
    for name in names[names.index(to) if to in names else 0 :]:
        del messages[name]


def _make_trace(header: dict[str, Any], messages: dict[str, dict[str, Any]]) -> Trace | None:
    session = _new_session()
    for name, message in messages.items():
        at = to_unix_ms(message.get("timestamp"))
        text = _read_text(message.get("content"))
        if message.get("type") == "user":
            if text:
                session.add_user_message(text, at)
        elif message.get("type") == "error":
            session.error = text or "error"
        elif message.get("type") == "gemini":
            call = session.open_call(name, at)
            thoughts = [_read_thought(each) for each in as_list(message.get("thoughts"))]
            call.extend(text, reasoning="\n".join(thoughts), at=at)
            call.model = as_label(message.get("model"))
            call.counts = _read_tokens(as_mapping(message.get("tokens")))
            for each in map(as_mapping, as_list(message.get("toolCalls"))):
                _add_tool(session, call, each)
    if session.empty:
        return None
    known = {"project": header.get("projectHash"), "summary": header.get("summary")}
    known |= {"kind": header.get("kind"), "directories": header.get("directories")}
    return session.make_trace(as_label(header.get("sessionId")) or "", known)


def _new_session() -> AgentSession:
    session = AgentSession("gemini-cli")
    session.provider = "google"
    return session


def _read_text(content: Any) -> str:
    """The text of a list of parts, which have no types."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else [content]
    return "\n".join(
        each if isinstance(each, str) else as_text(as_mapping(each).get("text"))
        for each in parts
        if each
    )


def _read_thought(thought: Any) -> str:
    held = as_mapping(thought)
    parts = (as_text(held.get("subject")), as_text(held.get("description")))
    return ": ".join(part for part in parts if part)


def _read_tokens(tokens: dict[str, Any]) -> TokenCounts | None:
    """Output does not include thoughts here, and input not what tools added to the prompt."""
    if not tokens:
        return None
    thoughts = as_count(tokens.get("thoughts"))
    return TokenCounts(
        input_tokens=_add(as_count(tokens.get("input")), as_count(tokens.get("tool"))),
        output_tokens=_add(as_count(tokens.get("output")), thoughts),
        cache_read_tokens=as_count(tokens.get("cached")),
        reasoning_tokens=thoughts,
    )


def _add(count: int | None, more: int | None) -> int | None:
    return None if count is None else count + (more or 0)


def _add_tool(session: AgentSession, call: ModelCall, each: dict[str, Any]) -> None:
    at = to_unix_ms(each.get("timestamp"))
    name = as_label(each.get("name")) or "tool"
    tool = session.add_tool(
        call, as_label(each.get("id")), name, compact(each.get("args") or {}), call.end_ms
    )
    if each.get("result") is not None or each.get("status") in (*_FAILED, "success"):
        failed = each.get("status") in _FAILED
        tool.finish(_read_result(each), failed=failed, at=at)


def _read_result(each: dict[str, Any]) -> str:
    """The tool's answer to the model, otherwise its text for the user."""
    texts = []
    for part in map(as_mapping, as_list(each.get("result"))):
        response = as_mapping(as_mapping(part.get("functionResponse")).get("response"))
        found = next((response[key] for key in ("output", "error") if key in response), response)
        texts.append(as_text(found or part.get("text")))
    shown = each.get("resultDisplay")
    return "\n".join(filter(None, texts)) or (shown if isinstance(shown, str) else "")


def _make_printed(lines: list[dict[str, Any]]) -> Trace | None:
    """The trace of what `--output-format stream-json` prints."""
    session = _new_session()
    trace_id, model, duration = "", None, None
    call: ModelCall | None = None
    for line in lines:
        at, kind = to_unix_ms(line.get("timestamp")), line.get("type")
        if kind == "init":
            trace_id, model = as_label(line.get("session_id")) or "", as_label(line.get("model"))
        elif kind == "message" and line.get("role") == "user":
            session.add_user_message(as_text(line.get("content")), at)
        elif kind == "message":
            call = call or session.open_call(None, at)
            call.model = model
            text = parse_messages([{"role": "assistant", "content": line.get("content")}])[0].text
            if line.get("delta") and call.texts:
                call.texts[-1] += text
                call.extend(at=at)
            else:
                call.extend(text, at=at)
        elif kind == "tool_use":
            call = call or session.open_call(None, at)
            call.model = model
            name = as_label(line.get("tool_name")) or "tool"
            arguments = compact(line.get("parameters") or {})
            session.add_tool(call, as_label(line.get("tool_id")), name, arguments, at)
        elif kind == "tool_result":
            tool, call = session.find_tool(as_label(line.get("tool_id"))), None
            if tool is not None:
                output = line.get("output") or as_mapping(line.get("error")).get("message")
                tool.finish(as_text(output), failed=line.get("status") == "error", at=at)
            session.note_time(at)
        elif kind == "error" and line.get("severity") != "warning":
            session.error = as_text(line.get("message")) or "error"
        elif kind == "result":
            stats = as_mapping(line.get("stats"))
            duration = as_amount(stats.get("duration_ms"))
            session.totals = TokenCounts(
                input_tokens=as_count(stats.get("input_tokens")),
                output_tokens=as_count(stats.get("output_tokens")),
                cache_read_tokens=as_count(stats.get("cached")),
            )
            if line.get("status") == "error":
                session.error = as_text(as_mapping(line.get("error")).get("message")) or "error"
    return None if session.empty else session.make_trace(trace_id, {}, duration)


DIALECT = Dialect(
    name="gemini-cli",
    files="Gemini CLI: chats (`~/.gemini/tmp/*/chats/*`) and `--output-format stream-json`",
    known_by="`sessionId` and `projectHash`; a first line of the type `init`",
    read=read,
    sniff=sniff,
    sniff_bytes=sniff_bytes,
)
