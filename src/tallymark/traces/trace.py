"""`Trace` and `Span`: the record of an agent's work, with the totals and texts that scorers use.

Times are milliseconds, costs are US dollars. `None` means unknown, never zero: a total is `None` if
no span has its part.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeVar

import msgspec

from tallymark.errors import InvalidInput, TraceError
from tallymark.text import add_exactly
from tallymark.traces.lenient_json import to_json_safe
from tallymark.traces.trace_fields import read_trace_fields

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from tallymark.errors import Place

T = TypeVar("T", int, float)
SpanType = Literal["span", "generation", "tool", "retrieval", "event"]
Status = Literal["ok", "error"]
CostSource = Literal["reported", "computed", "mixed"]
Amount = Annotated[float, msgspec.Meta(ge=0)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class Spending(msgspec.Struct, frozen=True, gc=False):
    """Cost and tokens of a trace; None if no span reports them."""

    cost: float | None
    """US dollars."""
    input_tokens: int | None
    output_tokens: int | None
    cached_tokens: int | None
    """Input that was read from a cache."""
    reasoning_tokens: int | None


# gc=False: plain data without circles, which the garbage collector need not walk.
class Span(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    forbid_unknown_fields=True,
    gc=False,
):
    """One step: a model call, a tool call, a retrieval, an event, or a part that holds others."""

    span_id: str = ""
    name: str = ""
    span_type: SpanType = "span"
    parent_id: str | None = None
    input: str = ""
    output: str = ""
    output_seen: bool = True
    """False if the source reports the call without its output."""
    input_is_data: bool = False
    """True where the input was no text: then it is here as JSON. So is the next."""
    output_is_data: bool = False
    output_is_answer: bool = False
    """True if the source marks this output as the answer; otherwise the last model call has it."""
    tool_name: str | None = None
    tool_input: str | None = None
    tool_output: str | None = None
    model: str | None = None
    start_ms: float | None = None
    """Unix time in milliseconds."""
    duration_ms: Amount = 0.0
    status: Status = "ok"
    error: str | None = None
    input_tokens: Count | None = None
    """All input, with what was read from a cache and written to it."""
    output_tokens: Count | None = None
    """All output, with reasoning."""
    cache_read_tokens: Count | None = None
    cache_write_tokens: Count | None = None
    """All writes to a cache."""
    cache_write_1h_tokens: Count | None = None
    """Part of `cache_write_tokens`: writes with a lifetime of an hour."""
    reasoning_tokens: Count | None = None
    cost: Amount | None = None
    """US dollars."""
    cost_computed: bool = False
    """True where the cost is computed from tokens by a price table; else the source reports it."""
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)

    @property
    def failed(self) -> bool:
        """True when the span ended in an error."""
        return self.status == "error" or self.error is not None

    @property
    def tokens(self) -> int | None:
        """Input and output tokens together; None when neither is known."""
        return sum_known((self.input_tokens, self.output_tokens))


class Trace(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    forbid_unknown_fields=True,
    dict=True,  # for the index of `children`
):
    """One run of an agent, its spans in the order they began."""

    trace_id: str = ""
    name: str = ""
    status: Status = "ok"
    duration_ms: Amount = 0.0
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)
    spans: list[Span] = msgspec.field(default_factory=list)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], *, place: Place | None = None) -> Self:
        """A trace from a plain mapping, in snake_case or camelCase, flat or with a `trace` key.

        An input or output that is not text becomes compact JSON, keys that no field has go to
        `metadata`, and a value of the wrong kind is a `TraceError` that names its key.
        """
        fields, spans = read_trace_fields(data, place)
        return cls(**fields, spans=[Span(**span) for span in spans])

    def to_dict(self) -> dict[str, Any]:
        """Plain data in snake_case, ready for JSON; what has its default value is left out."""
        try:
            plain: dict[str, Any] = to_json_safe(
                msgspec.to_builtins(self, enc_hook=str, str_keys=True)
            )
        except RecursionError:
            which = f"the trace {self.trace_id!r}" if self.trace_id else "a trace without an id"
            raise TraceError(f"{which} is nested too deeply to write") from None
        return plain

    def of_type(self, span_type: SpanType) -> list[Span]:
        """The spans of one type, in order."""
        return [span for span in self.spans if span.span_type == span_type]

    @property
    def generations(self) -> list[Span]:
        """The model calls, in order."""
        return self.of_type("generation")

    @property
    def tool_calls(self) -> list[Span]:
        """The tool calls, in order."""
        return self.of_type("tool")

    @property
    def tool_names(self) -> list[str]:
        """The names of the tools called, in order, repeats included."""
        return [span.tool_name or span.name for span in self.spans if span.span_type == "tool"]

    @property
    def errors(self) -> list[Span]:
        """The spans that failed."""
        return [span for span in self.spans if span.failed]

    @property
    def failed(self) -> bool:
        """True when the trace as a whole ended in an error."""
        return self.status == "error"

    @property
    def first_input(self) -> str:
        """The user's question as text; empty if the trace does not contain it."""
        asked = self.question
        return "" if asked is None else asked.input

    @property
    def question(self) -> Span | None:
        """The first span with the user's question: never a tool call, nor a span inside one."""
        spans = self.spans
        if spans:  # mostly it is the first, which nothing below could change
            first = spans[0]
            inside = first.parent_id or first.span_type == "retrieval" or _is_tool(first)
            if first.input and not inside:
                return first
        return next((spans[n] for n in list_question_spans(spans) if spans[n].input), None)

    def with_question(self, asked: str, *, is_data: bool = False) -> Self:
        """The trace with the question as its first span, unless it already has this question.

        For callers that know the question: the agent's spans may lack it, or have it only as
        rewritten for a model.
        """
        if not asked or self.first_input == asked:
            return self
        said = Span(
            span_id="question", name="question", span_type="event", input=asked,
            input_is_data=is_data, start_ms=self.spans[0].start_ms if self.spans else None,
        )  # fmt: skip
        return msgspec.structs.replace(self, spans=[said, *self.spans])

    @property
    def answer(self) -> str | None:
        """The agent's answer; None if the trace contains none, empty if the answer was empty.

        The output that the source marks as the answer, otherwise that of the last model call,
        otherwise that of the outermost span that has one (an agent, a chain).
        """
        for span in self.spans:
            if span.output_is_answer:
                return span.output
        for span in reversed(self.spans):
            if span.span_type == "generation":
                if span.output:
                    return span.output
                return self._find_outermost_output() or ("" if span.output_seen else None)
        return self._find_outermost_output()

    @property
    def last_output(self) -> str:
        """The answer as text: empty also when none was seen."""
        return self.answer or ""

    def _find_outermost_output(self) -> str | None:
        outside = {id(self.spans[n]) for n in list_question_spans(self.spans)}
        held = [(depth, each) for depth, each in self.walk() if each.output and id(each) in outside]
        held = [(depth, each) for depth, each in held if each.span_type == "span"]
        outermost = min((depth for depth, _ in held), default=0)
        return next((each.output for depth, each in reversed(held) if depth == outermost), None)

    @property
    def input_tokens(self) -> int | None:
        """Input tokens of all spans; None when none is known."""
        return sum_known(span.input_tokens for span in self.spans)

    @property
    def output_tokens(self) -> int | None:
        """Output tokens of all spans; None when none is known."""
        return sum_known(span.output_tokens for span in self.spans)

    @property
    def cached_tokens(self) -> int | None:
        """Input tokens of all spans that were read from a cache; None when none is known."""
        return sum_known(span.cache_read_tokens for span in self.spans)

    @property
    def reasoning_tokens(self) -> int | None:
        """Reasoning tokens of all spans; None when none is known."""
        return sum_known(span.reasoning_tokens for span in self.spans)

    @property
    def tokens(self) -> int | None:
        """Input and output tokens together; None when neither is known."""
        return sum_known((self.input_tokens, self.output_tokens))

    @property
    def cost(self) -> float | None:
        """US dollars over all spans; None when no span's cost is known."""
        return self.sum_spending().cost

    @property
    def cost_source(self) -> CostSource | None:
        """Origin of the spans' costs; None if no span has a cost."""
        known = {span.cost_computed for span in self.spans if span.cost is not None}
        if len(known) == 2:
            return "mixed"
        return None if not known else "computed" if True in known else "reported"

    def sum_spending(self) -> Spending:
        """Cost and tokens over all spans."""
        spans = self.spans
        costs = [known for span in spans if (known := span.cost) is not None]
        return Spending(
            add_exactly(costs) if costs else None,
            sum_known([span.input_tokens for span in spans]),
            sum_known([span.output_tokens for span in spans]),
            sum_known([span.cache_read_tokens for span in spans]),
            sum_known([span.reasoning_tokens for span in spans]),
        )

    @property
    def roots(self) -> list[Span]:
        """The spans with no parent in this trace."""
        known = {span.span_id for span in self.spans}
        return [span for span in self.spans if not span.parent_id or span.parent_id not in known]

    def children(self, span: Span) -> list[Span]:
        """The spans directly below one span, in order."""
        given: Any = span
        if not isinstance(given, Span):
            got = type(given).__name__
            raise InvalidInput(f"children() takes a Span of the trace, not {got}")
        return list(self._below.get(span.span_id, ()))

    @cached_property
    def _below(self) -> dict[str | None, list[Span]]:
        """The spans by their parents."""
        below: dict[str | None, list[Span]] = {}
        for span in self.spans:
            below.setdefault(span.parent_id, []).append(span)
        return below

    def walk(self) -> Iterator[tuple[int, Span]]:
        """Every span with its depth, parents before children, each exactly once.

        Spans whose parents form a circle are reached from the first of them.
        """
        below = self._below
        # By identity: ids in foreign files may be empty, or used twice.
        seen: set[int] = set()
        for start in [*self.roots, *self.spans]:
            stack = [(0, start)]
            while stack:
                depth, span = stack.pop()
                if id(span) in seen:
                    continue
                seen.add(id(span))
                yield depth, span
                stack.extend((depth + 1, child) for child in reversed(below.get(span.span_id, ())))


def list_question_spans(spans: Sequence[Span]) -> Iterator[int]:
    """The places of the spans whose input may be the user's question, the likeliest first.

    These are the spans outside of tool calls. Where none of them has an input, the query of a
    retrieval comes nearest, then a model call inside a tool: a server of tools traces its own work
    below the call that it serves. But an agent that calls models itself gave the tool its task.
    """
    # As `_is_tool` has it, which would cost a call for each span of every trace that is scored.
    tools = {
        span.span_id
        for span in spans
        if span.span_type == "tool" or span.tool_name is not None or span.tool_input is not None
    }
    # Spans are listed in any order, so what is below a tool is found level by level.
    more = len(tools)
    while more:
        below = {span.span_id for span in spans if span.parent_id and span.parent_id in tools}
        more = len(below - tools)
        tools |= below
    retrievals: list[int] = []
    inside: list[int] = []
    calls_models = False
    for place, span in enumerate(spans):
        if not _is_tool(span) and not (span.parent_id and span.parent_id in tools):
            calls_models = calls_models or span.span_type == "generation"
            if span.span_type == "retrieval":
                retrievals.append(place)
            else:
                yield place
        elif span.span_type == "generation":
            inside.append(place)
    yield from retrievals
    if not calls_models:
        yield from inside


def _is_tool(span: Span) -> bool:
    """True for a tool call, also where the record names the tool but not the type of the span."""
    return span.span_type == "tool" or span.tool_name is not None or span.tool_input is not None


def sum_known(parts: Iterable[T | None]) -> T | None:
    """The sum of those that are known; None when none is."""
    known = [part for part in parts if part is not None]
    return sum(known) if known else None
