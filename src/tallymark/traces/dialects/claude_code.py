"""Transcripts of Claude Code: session files, and what `claude --output-format stream-json` prints.

Both have a message a line. One model call is reported in a line for each part of its answer, with
its usage in every one of them, so usage counts once for each message id. The tokens of the printed
stream are those at the beginning of an answer; its last line has the totals and the cost.

A subagent's lines are marked (`isSidechain`, `parent_tool_use_id`), or are in a file of its own
next to the session's. They go below the tool call that started the subagent.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from tallymark.errors import TraceError
from tallymark.traces.agent_session import AgentSession, feed_records
from tallymark.traces.dialect import Dialect
from tallymark.traces.json_records import read_first_objects
from tallymark.traces.lenient_json import (
    as_amount,
    as_label,
    as_list,
    as_mapping,
    as_text,
    compact,
    decode,
    to_unix_ms,
)
from tallymark.traces.token_counts import FIELDS, TokenCounts, add_counts, read_usage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tallymark.traces.agent_session import ModelCall, ToolUse
    from tallymark.traces.trace import Trace
    from tallymark.traces.trace_source import TraceSource

_SESSION_LINES = ("user", "assistant", "system", "summary", "file-history-snapshot")
_AGENT_TOOLS = ("Task", "Agent")
_SUBAGENT_FILE = "agent-"


def sniff_bytes(head: bytes) -> bool:
    """True when one of the first lines is a message or a header of Claude Code."""
    return any(_is_line(each) for each in read_first_objects(head))


def _is_line(line: dict[str, Any]) -> bool:
    kind = line.get("type")
    if kind in ("user", "assistant"):
        # Copilot and others have lines of such a type too, but no such message.
        return isinstance(line.get("message"), dict) and (
            "sessionId" in line or "session_id" in line or "parentUuid" in line
        )
    if kind == "system":
        return line.get("subtype") == "init" and "session_id" in line and "tools" in line
    if kind == "result":
        return "session_id" in line and "num_turns" in line
    return kind in _SESSION_LINES and ("leafUuid" in line or "snapshot" in line)


def read(source: TraceSource) -> Iterator[Trace | TraceError]:
    """The session's trace; none for a subagent's file that belongs to a session nearby."""
    path = source.path
    if path is not None and _find_session_file(path, source.head) is not None:
        return
    session = _Session()
    yield from feed_records(source, session.add)
    if session.empty:
        yield TraceError("the session has no message", place=source.place())
        return
    # Never of a stream: what strangers send must not name files of this machine.
    if path is not None:
        session.add_subagent_files(path)
    yield session.make_trace("" if path is None else path.name.removesuffix(".jsonl"))


def _find_session_file(path: Path, head: bytes) -> Path | None:
    """The file of the session that a subagent's file belongs to."""
    names = (as_label(line.get("sessionId")) for line in read_first_objects(head))
    session_id = next(filter(None, names), None)
    if session_id is None or not path.name.startswith(_SUBAGENT_FILE):
        return None
    # In the same folder, or one folder up from `SESSION/subagents/`.
    places = (path.parent, path.parent.parent.parent)
    return next(
        (each for p in places if (each := p / f"{Path(session_id).name}.jsonl").is_file()), None
    )


class _Session:
    """One session: the agent's own lines, and those of its subagents."""

    def __init__(self) -> None:
        self._main = _Agent(AgentSession("claude-code"))
        self._side: dict[str, _Agent] = {}
        """Subagents in the session's own file, by tool call, agent id or first message."""
        self._waiting: list[str] = []
        """Tool calls that started a subagent, whose lines have not come yet."""
        self._agent_files: dict[str, ToolUse] = {}
        self._header: dict[str, Any] = {}
        self._result: dict[str, Any] = {}

    @property
    def empty(self) -> bool:
        return self._main.session.empty

    def add(self, line: dict[str, Any]) -> None:
        kind = line.get("type")
        if kind == "result":
            self._result = line
        elif kind in ("user", "assistant"):
            self._note_header(line)
            self._find_agent(line).add(line)
        elif kind == "system" and line.get("subtype") == "init":
            self._header |= {"session_id": line.get("session_id"), "cwd": line.get("cwd")}
            self._header["version"] = line.get("claude_code_version") or line.get("version")
        result = as_mapping(line.get("toolUseResult"))
        if (agent_id := as_label(result.get("agentId"))) and kind == "user":
            for part in as_list(as_mapping(line.get("message")).get("content")):
                tool = self._main.session.find_tool(as_label(as_mapping(part).get("tool_use_id")))
                if tool is not None:
                    self._agent_files[agent_id] = tool

    def _note_header(self, line: dict[str, Any]) -> None:
        for key, names in _HEADER.items():
            found = next((line[name] for name in names if as_label(line.get(name))), None)
            if found is not None:
                self._header.setdefault(key, found)

    def _find_agent(self, line: dict[str, Any]) -> _Agent:
        """The agent that wrote a line."""
        parent = as_label(line.get("parent_tool_use_id")) or as_label(line.get("parentToolUseID"))
        if parent is None and not line.get("isSidechain"):
            return self._main
        key = parent or as_label(line.get("agentId")) or self._find_chain(line)
        if key not in self._side:
            tool = self._main.session.find_tool(parent) or self._main.find_started(line)
            if tool is None:  # the whole file is a subagent's
                return self._main
            name = as_label(as_mapping(_read_arguments(tool)).get("subagent_type")) or "subagent"
            self._side[key] = _Agent(self._main.session.start_subagent(tool, name))
        self._side[key].chain.add(as_label(line.get("uuid")) or "")
        return self._side[key]

    def _find_chain(self, line: dict[str, Any]) -> str:
        """The subagent that a marked line continues, where lines name no agent."""
        before = as_label(line.get("parentUuid"))
        if before is not None:
            for key, agent in self._side.items():
                if before in agent.chain:
                    return key
        return as_label(line.get("uuid")) or str(len(self._side))

    def add_subagent_files(self, path: Path) -> None:
        """Read the files of subagents that tool calls of this session name."""
        for agent_id, tool in self._agent_files.items():
            name = f"{_SUBAGENT_FILE}{Path(agent_id).name}.jsonl"
            places = (path.parent / name, path.with_suffix("") / "subagents" / name)
            found = next((each for each in places if each.is_file()), None)
            if found is None or tool.subagent is not None:
                continue
            kind = as_label(as_mapping(_read_arguments(tool)).get("subagent_type")) or "subagent"
            agent = _Agent(self._main.session.start_subagent(tool, kind))
            with found.open("rb") as file:
                for raw in file:
                    with suppress(TraceError, RecursionError):
                        line = as_mapping(decode(raw)) if raw.strip() else {}
                        if line.get("type") in ("user", "assistant"):
                            agent.add(line)

    def make_trace(self, file_name: str) -> Trace:
        session, result = self._main.session, self._result
        duration = as_amount(result.get("duration_ms"))
        if result:
            session.total_cost = as_amount(result.get("total_cost_usd"))
            session.totals = _read_totals(result)
            # The stream has usage as it is when an answer begins, so its output is not known.
            for agent in (self._main, *self._side.values()):
                agent.forget_output()
            answer = result.get("result")
            if isinstance(answer, str) and not result.get("is_error"):
                session.answer = answer
            if result.get("is_error") or str(result.get("subtype", "")).startswith("error"):
                session.error = as_text(answer) or as_label(result.get("subtype")) or "error"
        known = {key: value for key, value in self._header.items() if key != "session_id"}
        known["turns"] = result.get("num_turns")
        trace_id = as_label(self._header.get("session_id")) or file_name
        return session.make_trace(trace_id, known, duration)


_HEADER = {
    "session_id": ("sessionId", "session_id"),
    "cwd": ("cwd",),
    "git_branch": ("gitBranch",),
    "version": ("version",),
}


class _Agent:
    """The lines of one agent."""

    def __init__(self, session: AgentSession) -> None:
        self.session = session
        self.session.provider = "anthropic"
        self.chain: set[str] = set()
        self._calls: list[ModelCall] = []
        self._started: list[ToolUse] = []

    def find_started(self, line: dict[str, Any]) -> ToolUse | None:
        """The tool call that started a subagent, by the prompt that a marked line repeats."""
        asked = _read_texts(as_mapping(line.get("message")).get("content"))
        free = [tool for tool in self._started if tool.subagent is None]
        same = (each for each in free if as_mapping(_read_arguments(each)).get("prompt") == asked)
        return next(same, free[0] if free else None)

    def add(self, line: dict[str, Any]) -> None:
        message = as_mapping(line.get("message"))
        at = to_unix_ms(line.get("timestamp"))
        if line.get("type") == "assistant":
            self._add_answer(line, message, at)
            return
        parts = message.get("content")
        results = [each for each in as_list(parts) if as_mapping(each).get("type") == "tool_result"]
        for part in results:
            tool = self.session.find_tool(as_label(part.get("tool_use_id")))
            if tool is not None:
                text = _read_texts(part.get("content"))
                tool.finish(text, failed=part.get("is_error") is True, at=at)
            self.session.note_time(at)
        text = _read_texts(parts)
        # Messages that the program adds, and summaries of earlier turns, are no questions.
        if text and not results and not line.get("isMeta") and not line.get("isCompactSummary"):
            self.session.add_user_message(text, at)

    def _add_answer(self, line: dict[str, Any], message: dict[str, Any], at: float | None) -> None:
        model = as_label(message.get("model"))
        if model == "<synthetic>":  # a message of the program, such as a refused request
            if line.get("isApiErrorMessage"):
                self.session.error = _read_texts(message.get("content"))
            return
        key = as_label(message.get("id")) or as_label(line.get("requestId"))
        call = self.session.open_call(key, at)
        if call not in self._calls:
            self._calls.append(call)
        call.model = model or call.model
        usage = as_mapping(message.get("usage"))
        if usage:
            found = read_usage(usage, cached_apart=True)
            call.counts = found if call.counts is None else _take_larger(call.counts, found)
        for part in map(as_mapping, as_list(message.get("content"))):
            if part.get("type") == "tool_use":
                name = as_label(part.get("name")) or "tool"
                arguments = compact(part.get("input") or {})
                tool = self.session.add_tool(call, as_label(part.get("id")), name, arguments, at)
                if name in _AGENT_TOOLS and tool not in self._started:
                    self._started.append(tool)
            elif part.get("type") == "thinking":
                call.extend(reasoning=as_text(part.get("thinking")), at=at)
            else:
                call.extend(_read_texts([part]), at=at)
        if isinstance(message.get("content"), str):
            call.extend(message["content"], at=at)
        call.extend(at=at)

    def forget_output(self) -> None:
        for call in self._calls:
            if call.counts is not None:
                call.counts = msgspec.structs.replace(
                    call.counts, output_tokens=None, reasoning_tokens=None
                )


def _take_larger(one: TokenCounts, other: TokenCounts) -> TokenCounts:
    """Usage of a call that is still going on grows from line to line."""
    pairs = {name: (getattr(one, name), getattr(other, name)) for name in FIELDS}
    known = {name: [each for each in pair if each is not None] for name, pair in pairs.items()}
    return TokenCounts(**{name: max(each) if each else None for name, each in known.items()})


def _read_totals(result: dict[str, Any]) -> TokenCounts | None:
    """Tokens of all models, subagents included, from the last line of a printed stream."""
    models = [as_mapping(each) for each in as_mapping(result.get("modelUsage")).values()]
    counts = [read_usage(each, cached_apart=True) for each in models] or (
        [read_usage(as_mapping(result.get("usage")), cached_apart=True)]
        if result.get("usage")
        else []
    )
    return add_counts(counts) if counts else None


def _read_texts(content: Any) -> str:
    """The text in a message's content."""
    if isinstance(content, str):
        return content
    parts = [each for each in as_list(content) if as_mapping(each).get("type") == "text"]
    return "\n".join(as_text(each.get("text")) for each in parts)


def _read_arguments(tool: ToolUse) -> Any:
    with suppress(TraceError):
        return decode(tool.arguments.encode())
    return {}


DIALECT = Dialect(
    name="claude-code",
    files="Claude Code: sessions (`~/.claude/projects/**`) and `--output-format stream-json`",
    known_by="messages with `sessionId` or `session_id`, as Claude Code writes them",
    read=read,
    sniff=lambda _: False,
    sniff_bytes=sniff_bytes,
)
