"""Transcripts of Codex: rollouts (`~/.codex/sessions/**/rollout-*.jsonl`) and `codex exec --json`.

A rollout has an item a line: what went to the model and what came from it, and between them the
tokens of the call that just ended. The printed stream has a line for each finished step, and
tokens of the whole session alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tallymark.errors import TraceError
from tallymark.traces.agent_session import AgentSession, feed_records
from tallymark.traces.chat_messages import parse_messages
from tallymark.traces.dialect import Dialect
from tallymark.traces.json_records import read_first_objects
from tallymark.traces.lenient_json import (
    as_label,
    as_list,
    as_mapping,
    as_text,
    decode,
    to_unix_ms,
)
from tallymark.traces.token_counts import read_usage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tallymark.traces.agent_session import ModelCall
    from tallymark.traces.trace import Trace
    from tallymark.traces.trace_source import TraceSource

_ROLLOUT = ("session_meta", "response_item", "event_msg", "turn_context", "compacted")
_CALLS = ("function_call", "custom_tool_call", "local_shell_call", "web_search_call")
_OUTPUTS = ("function_call_output", "custom_tool_call_output")
_FAILED = ("failed", "declined")
_ADDED = ("<", "# AGENTS.md instructions")
"""First characters of messages that the program adds to those of the user."""


def sniff_bytes(head: bytes) -> bool:
    """True when one of the first lines is an item of a rollout, or begins a printed stream."""
    return any(
        (each.get("type") in _ROLLOUT and isinstance(each.get("payload"), dict))
        or (each.get("type") == "thread.started" and "thread_id" in each)
        for each in read_first_objects(head)
    )


def read(source: TraceSource) -> Iterator[Trace | TraceError]:
    """The session's trace."""
    session = _Session()
    yield from feed_records(source, session.add)
    yield session.make_trace() or TraceError("the session has no message", place=source.place())


class _Session:
    """One session of Codex."""

    def __init__(self) -> None:
        self._session = AgentSession("codex")
        self._session.provider = "openai"
        self._call: ModelCall | None = None
        self._ended = False
        """True once a tool answered or tokens were reported: what comes next is another call."""
        self._total: Any = None
        self._model: str | None = None
        self._metadata: dict[str, Any] = {}
        self._id = ""
        self._pending: list[tuple[str, float | None, bool]] = []
        """Messages since the last call, with their time, and True for what a user typed."""

    def add(self, line: dict[str, Any]) -> None:
        at = to_unix_ms(line.get("timestamp"))
        kind, payload = line.get("type"), as_mapping(line.get("payload"))
        if kind == "session_meta":
            self._id = self._id or as_label(payload.get("id")) or ""
            git = as_mapping(payload.get("git"))
            self._metadata |= {
                "cwd": payload.get("cwd"), "version": payload.get("cli_version"),
                "git_branch": git.get("branch"), "source": payload.get("source"),
            }  # fmt: skip
        elif kind == "turn_context":
            self._model = as_label(payload.get("model")) or self._model
        elif kind == "event_msg":
            self._add_event(payload, at)
        elif kind == "response_item":
            self._add_item(payload, at)
        else:
            self._add_printed(line)

    def _add_event(self, event: dict[str, Any], at: float | None) -> None:
        kind = event.get("type")
        if kind == "user_message":
            self._pending.append((as_text(event.get("message")), at, True))
        elif kind == "token_count":
            self._add_tokens(as_mapping(event.get("info")))
        elif kind == "error":
            self._session.error = as_text(event.get("message")) or "error"
        elif kind == "turn_aborted":
            self._session.error = f"aborted: {as_text(event.get('reason'))}"

    def _add_tokens(self, info: dict[str, Any]) -> None:
        """The tokens of the call that just ended; a refresh of limits repeats them."""
        total = info.get("total_token_usage")
        last = as_mapping(info.get("last_token_usage"))
        if not last or total == self._total:
            return
        self._total = total
        call = self._call
        if call is None or call.counts is not None:
            call = self._session.open_call(None)
            call.model = self._model
        call.counts = read_usage(last)
        self._call, self._ended = call, True

    def _add_item(self, item: dict[str, Any], at: float | None) -> None:
        kind = item.get("type")
        if kind == "message" and item.get("role") != "assistant":
            if item.get("role") == "user":
                self._pending.append((parse_messages([item])[0].text, at, False))
        elif kind in _OUTPUTS:
            self._finish_tool(item, at)
        elif kind in ("message", "agent_message"):
            self._open_call(at).extend(parse_messages([item], "assistant")[0].text, at=at)
        elif kind == "reasoning":
            parts = as_list(item.get("summary")) + as_list(item.get("content"))
            said = "\n".join(as_text(as_mapping(each).get("text")) for each in parts)
            self._open_call(at).extend(reasoning=said, at=at)
        elif kind in _CALLS:
            call = self._open_call(at)
            call.extend(at=at)
            given = next((item[k] for k in ("arguments", "input", "action") if k in item), None)
            name = as_label(item.get("name")) or str(kind).removesuffix("_call")
            tool_id = as_label(item.get("call_id")) or as_label(item.get("id"))
            self._session.add_tool(call, tool_id, name, as_text(given), at)

    def _finish_tool(self, item: dict[str, Any], at: float | None) -> None:
        self._ended = True
        self._session.note_time(at)
        tool = self._session.find_tool(as_label(item.get("call_id")))
        if tool is None:
            return
        output, failed = _read_output(item.get("output"))
        tool.finish(output, failed=failed or item.get("status") in _FAILED, at=at)

    def _open_call(self, at: float | None) -> ModelCall:
        self._flush_user_messages()
        if self._call is None or self._ended:
            self._call = self._session.open_call(None, at)
            self._ended = False
        self._call.model = self._model
        self._session.note_time(at)
        return self._call

    def _flush_user_messages(self) -> None:
        """Add the messages since the last call once, though a rollout has them twice.

        Events have what was typed. Items also have what the program adds to it, in tags.
        """
        typed = [(text, at) for text, at, is_typed in self._pending if is_typed]
        sent = [(text, at) for text, at, _ in self._pending if not text.startswith(_ADDED)]
        for text, at in typed or sent:
            self._session.add_user_message(text, at)
        if self._pending:
            self._ended = True
        self._pending.clear()

    def _add_printed(self, line: dict[str, Any]) -> None:
        """A line of `codex exec --json`."""
        kind, item = line.get("type"), as_mapping(line.get("item"))
        if kind == "thread.started":
            self._id = as_label(line.get("thread_id")) or ""
        elif kind == "turn.completed":
            # Of the session so far, not of the turn.
            self._session.totals = read_usage(as_mapping(line.get("usage")))
        elif kind == "turn.failed":
            self._session.error = as_text(as_mapping(line.get("error")).get("message")) or "failed"
        elif kind == "error":
            self._session.error = as_text(line.get("message")) or "error"
        elif kind == "item.completed":
            self._add_printed_item(item)

    def _add_printed_item(self, item: dict[str, Any]) -> None:
        kind = as_label(item.get("type")) or "item"
        text = as_text(item.get("text"))
        if kind == "agent_message":
            self._open_call(None).extend(text)
        elif kind == "reasoning":
            self._open_call(None).extend(reasoning=text)
        elif kind == "error":
            self._session.error = as_text(item.get("message"))
        else:
            call = self._open_call(None)
            asked = {key: item[key] for key in _ASKED if item.get(key) is not None}
            name = as_label(item.get("tool")) or kind
            given = as_text(asked.get("command") or asked.get("arguments") or asked or None)
            tool = self._session.add_tool(call, as_label(item.get("id")), name, given, None)
            answer = next((item[key] for key in _ANSWERED if item.get(key) is not None), None)
            failed = item.get("status") in _FAILED or bool(item.get("exit_code"))
            tool.finish(as_text(answer), failed=failed)
            self._ended = True

    def make_trace(self) -> Trace | None:
        self._flush_user_messages()
        if self._session.empty:
            return None
        return self._session.make_trace(self._id, self._metadata)


_ASKED = ("command", "arguments", "query", "changes", "prompt")
_ANSWERED = ("aggregated_output", "result", "error", "changes")


def _read_output(value: Any) -> tuple[str, bool]:
    """A tool's output as text, and whether it failed."""
    if isinstance(value, list):
        return parse_messages([{"role": "tool", "content": value}])[0].text, False
    held: dict[str, Any] = {}
    if isinstance(value, dict):
        held = value
    elif isinstance(value, str) and value.startswith('{"output"'):
        held = as_mapping(_decode(value))
    if "output" in held:
        failed = bool(as_mapping(held.get("metadata")).get("exit_code"))
        return as_text(held["output"]), failed
    text = as_text(held.get("content") if held else value)
    return text, held.get("success") is False or _names_failure(text)


def _names_failure(text: str) -> bool:
    """True when the first lines of a command's output name an exit code other than 0."""
    for line in text.splitlines()[:6]:
        for mark in ("Process exited with code ", "Exit code: "):
            if line.startswith(mark):
                return line[len(mark) :].strip() != "0"
    return False


def _decode(text: str) -> Any:
    try:
        return decode(text.encode())
    except TraceError:
        return None


DIALECT = Dialect(
    name="codex",
    files="Codex: rollouts (`~/.codex/sessions/**/*.jsonl`) and `codex exec --json`",
    known_by="`session_meta`, `response_item` and others with a `payload`; `thread.started`",
    read=read,
    sniff=lambda _: False,
    sniff_bytes=sniff_bytes,
)
