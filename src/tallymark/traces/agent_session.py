"""Builds the trace of a coding agent's session; shared by the dialects of such agents.

The agent is a span. Below it are messages of the user (events) and model calls, below each call
the tools that it called, and below such a tool the subagent that it started.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tallymark.errors import CutShort, TraceError
from tallymark.traces.call_price import cost_fields
from tallymark.traces.json_records import read_records
from tallymark.traces.lenient_json import as_mapping
from tallymark.traces.token_counts import FIELDS, TokenCounts
from tallymark.traces.trace import Span, Trace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tallymark.traces.call_price import CostFields
    from tallymark.traces.trace_source import TraceSource


def feed_records(
    source: TraceSource, add: Callable[[dict[str, Any]], None]
) -> Iterator[TraceError]:
    """Give every record of a transcript to `add`; what cannot be read is yielded as an error."""
    for record in read_records(source):
        try:
            add(as_mapping(record.decode()))
        except RecursionError:
            yield TraceError("the line is nested too deeply to read", place=record.place)
        except TraceError as error:
            # A session that goes on while it is read ends with half a line.
            whole = record.path is not None or record.raw.endswith(b"\n")
            yield (
                error
                if whole
                else CutShort(
                    f"the last line is cut short: {error.problems[0].message}", place=record.place
                )
            )


class ModelCall:
    """One model call, which a transcript may report in several records."""

    def __init__(self, span_id: str, asked: str, start_ms: float | None) -> None:
        self.span_id = span_id
        self.asked = asked
        self.start_ms = start_ms
        self.end_ms = start_ms
        self.model: str | None = None
        self.texts: list[str] = []
        self.reasoning: list[str] = []
        self.counts: TokenCounts | None = None
        self.error: str | None = None
        self.tools: list[ToolUse] = []

    def extend(self, text: str = "", *, reasoning: str = "", at: float | None = None) -> None:
        """Add text from another record of the same call."""
        if text:
            self.texts.append(text)
        if reasoning:
            self.reasoning.append(reasoning)
        if at is not None:
            self.start_ms = at if self.start_ms is None else self.start_ms
            self.end_ms = at


class ToolUse:
    """One tool call, its result, and the subagent that it started."""

    def __init__(self, span_id: str, name: str, arguments: str, start_ms: float | None) -> None:
        self.span_id = span_id
        self.name = name
        self.arguments = arguments
        self.start_ms = start_ms
        self.end_ms: float | None = None
        self.output: str | None = None
        self.failed = False
        self.subagent: AgentSession | None = None

    def finish(self, output: str, *, failed: bool = False, at: float | None = None) -> None:
        """Set the result."""
        self.output, self.failed, self.end_ms = output, failed, at


class AgentSession:
    """The actions of one agent, collected record by record."""

    def __init__(self, name: str, prefix: str = "", parent_id: str | None = None) -> None:
        self.name = name
        self.provider: str | None = None
        self.id = f"{prefix}agent"
        self.total_cost: float | None = None
        """US dollars of the whole session; with it, no call has a cost of its own."""
        self.total_cost_computed = False
        self.totals: TokenCounts | None = None
        """Tokens of the whole session, if the transcript reports them too."""
        self.answer: str | None = None
        self.error: str | None = None
        self._prefix = prefix
        self._parent_id = parent_id
        self._asked = ""
        self._first_ms: float | None = None
        self._last_ms: float | None = None
        self._steps: list[Span | ModelCall] = []
        self._calls: dict[str, ModelCall] = {}
        self._tools: dict[str, ToolUse] = {}

    @property
    def empty(self) -> bool:
        """True while it has no message and no call."""
        return not self._steps

    def note_time(self, at: float | None) -> None:
        """Extend the session to a time."""
        if at is not None:
            self._first_ms = at if self._first_ms is None else self._first_ms
            self._last_ms = at

    def add_user_message(self, text: str, at: float | None = None) -> None:
        """Add what the user wrote."""
        self._asked = text
        span_id = f"{self._prefix}user-{len(self._steps) + 1}"
        self._steps.append(
            Span(span_id=span_id, name="user", span_type="event", parent_id=self.id,
                 input=text, start_ms=at)
        )  # fmt: skip
        self.note_time(at)

    def open_call(self, key: str | None, at: float | None = None) -> ModelCall:
        """The model call of a key, which begins when the one before it ended; a new one if none."""
        if key is not None and key in self._calls:
            call = self._calls[key]
        else:
            number = len(self._calls) + 1
            begin = at if self._last_ms is None else self._last_ms
            call = ModelCall(f"{self._prefix}call-{number}", self._asked, begin)
            self._calls[key or f"#{number}"] = call
            self._steps.append(call)
        self.note_time(at)
        return call

    def add_tool(
        self, call: ModelCall, tool_id: str | None, name: str, arguments: str, at: float | None
    ) -> ToolUse:
        """Add a tool call that a model requested; a repeated id is the same tool call."""
        if tool_id is not None and tool_id in self._tools:
            return self._tools[tool_id]
        number = len(self._tools) + 1
        tool = ToolUse(f"{self._prefix}tool-{number}", name, arguments, at)
        self._tools[tool_id or f"#{number}"] = tool
        call.tools.append(tool)
        self.note_time(at)
        return tool

    def find_tool(self, tool_id: str | None) -> ToolUse | None:
        """The tool call with an id."""
        return self._tools.get(tool_id) if tool_id else None

    def start_subagent(self, tool: ToolUse, name: str) -> AgentSession:
        """The session of the subagent that a tool call started."""
        if tool.subagent is None:
            tool.subagent = AgentSession(name, f"{tool.span_id}/", tool.span_id)
            tool.subagent.provider = self.provider
        return tool.subagent

    def make_trace(
        self, trace_id: str, metadata: dict[str, Any], duration_ms: float | None = None
    ) -> Trace:
        """The trace of the session and its subagents."""
        spans = list(self.make_spans())
        if duration_ms is None and self._first_ms is not None and self._last_ms is not None:
            duration_ms = max(0.0, self._last_ms - self._first_ms)
        return Trace(
            trace_id=trace_id,
            name=self.name,
            status="error" if self.error else "ok",
            duration_ms=duration_ms or 0.0,
            metadata={key: value for key, value in metadata.items() if value not in (None, "", {})},
            spans=spans,
        )

    def make_spans(self, *, priced: bool = True) -> Iterator[Span]:
        """The agent's span, then those of its messages, calls, tools and subagents."""
        priced = priced and self.total_cost is None
        steps = [
            span
            for step in self._steps
            for span in ([step] if isinstance(step, Span) else self._make_call_spans(step, priced))
        ]
        calls = [span for span in steps if span.span_type == "generation"]
        # A subagent's answer goes to the tool that started it, and its question comes from there.
        own = [span for span in steps if span.parent_id == self.id]
        answers = (
            span.output for span in reversed(own) if span.span_type == "generation" and span.output
        )
        answer = self.answer if self.answer is not None else next(answers, "")
        models = {span.model for span in calls if span.model}
        model = next(iter(models)) if len(models) == 1 else None
        rest = self._count_the_rest(steps)
        spent: CostFields = {"cost": self.total_cost, "cost_computed": self.total_cost_computed}
        if priced:
            spent = cost_fields(None, model, self.provider, rest, start_ms=self._first_ms)
        yield Span(
            span_id=self.id,
            name=self.name,
            parent_id=self._parent_id,
            input=next((span.input for span in own if span.span_type == "event"), ""),
            output=answer,
            output_is_answer=self._parent_id is None and bool(answer),
            model=model,
            start_ms=self._first_ms,
            duration_ms=_span_duration(self._first_ms, self._last_ms),
            status="error" if self.error else "ok",
            error=self.error,
            **spent,
            **rest.as_fields(),
        )
        yield from steps

    def _count_the_rest(self, steps: list[Span]) -> TokenCounts:
        """Tokens that the transcript reports for all of it beyond those of single calls.

        With them on the agent's span, the trace as a whole has the reported sum.
        """
        rest: dict[str, Any] = dict.fromkeys(FIELDS)
        for field in FIELDS if self.totals is not None else ():
            total = getattr(self.totals, field)
            known = sum(getattr(span, field) or 0 for span in steps)
            if total is not None and total > known:
                rest[field] = total - known
        return TokenCounts(**rest)

    def _make_call_spans(self, call: ModelCall, priced: bool) -> Iterator[Span]:
        counts = call.counts or TokenCounts()
        spent: CostFields = {"cost": None, "cost_computed": False}
        if priced:
            spent = cost_fields(None, call.model, self.provider, counts, start_ms=call.start_ms)
        metadata = {"reasoning": "\n\n".join(call.reasoning)} if call.reasoning else {}
        yield Span(
            span_id=call.span_id,
            name=call.model or self.name,
            span_type="generation",
            parent_id=self.id,
            input=call.asked,
            output="\n\n".join(call.texts),
            model=call.model,
            start_ms=call.start_ms,
            duration_ms=_span_duration(call.start_ms, call.end_ms),
            status="error" if call.error else "ok",
            error=call.error,
            **counts.as_fields(),
            **spent,
            metadata=metadata,
        )
        for tool in call.tools:
            yield Span(
                span_id=tool.span_id,
                name=tool.name,
                span_type="tool",
                parent_id=call.span_id,
                input=tool.arguments,
                output=tool.output or "",
                output_seen=tool.output is not None,
                tool_name=tool.name,
                tool_input=tool.arguments,
                tool_output=tool.output,
                start_ms=tool.start_ms,
                duration_ms=_span_duration(tool.start_ms, tool.end_ms),
                status="error" if tool.failed else "ok",
                error=(tool.output or "the tool failed") if tool.failed else None,
            )
            if tool.subagent is not None:
                yield from tool.subagent.make_spans(priced=priced)


def _span_duration(start: float | None, end: float | None) -> float:
    return 0.0 if start is None or end is None else max(0.0, end - start)
