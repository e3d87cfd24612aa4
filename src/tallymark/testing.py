"""Contexts, traces and agents made by hand, to test your own scorers and suites.

>>> from tallymark.testing import mock_context
>>> mock_context("Hello world").output
'Hello world'
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Any, Self

from tallymark.errors import InvalidInput
from tallymark.scoring import Config, EvalContext, Expected
from tallymark.scoring.score import show_value
from tallymark.traces import Span, Trace
from tallymark.traces.lenient_json import compact

__all__ = ["HANG", "AsyncFakeAgent", "FakeAgent", "Slow", "TraceBuilder", "mock_context"]


def mock_context(  # noqa: PLR0913 (what a scorer may look at, by keyword)
    output: Any = "",
    *,
    input: Any = "test input",  # noqa: A002 (the document's word)
    tools: Iterable[str | Mapping[str, Any]] = (),
    trace: Trace | None = None,
    expected: Any = None,
    metadata: Mapping[str, Any] | None = None,
    config: Config | Mapping[str, Any] | None = None,
    **generation: Any,
) -> EvalContext:
    """The context of a made-up run that took a second and answered with `output`.

    `tools` are the calls before the answer: names, or mappings with `name`, `arguments`, `result`
    and `error`. Other keywords (`model`, `cost`, `input_tokens`, ...) go to the answer's span. A
    `trace` takes the place of all that.
    """
    if not isinstance(metadata, Mapping | None):
        raise InvalidInput(f"metadata must be a mapping, not {show_value(metadata)}")
    if trace is None:
        trace = _mock_trace(output, input, tools, generation)
    return EvalContext(
        trace,
        Expected.read(expected),
        dict(metadata or {}),
        config if isinstance(config, Config) else Config.from_dict(config, "config"),
    )


def _mock_trace(output: Any, given: Any, tools: Any, generation: dict[str, Any]) -> Trace:
    builder = TraceBuilder()
    if isinstance(tools, str | Mapping):
        tools = (tools,)
    if not isinstance(tools, Iterable):
        raise InvalidInput(f"tools must be a list of tool calls, not {show_value(tools)}")
    for tool in tools:
        if not isinstance(tool, str) and not (isinstance(tool, Mapping) and "name" in tool):
            raise InvalidInput(f"a tool call is a name, or a mapping with one: {show_value(tool)}")
        builder.tool(**({"name": tool} if isinstance(tool, str) else tool))
    answer = {"input": given, "name": "generation", "duration_ms": 1000.0, **generation}
    builder.generation(output, span_id="test-span", **answer)
    return builder.build(duration_ms=1000.0)


class TraceBuilder:
    """A trace, step by step: `TraceBuilder().tool("search").generation("Found it").build()`."""

    def __init__(self, name: str = "test", *, trace_id: str = "test-trace") -> None:
        self._name = name
        self._trace_id = trace_id
        self._failed = False
        self._spans: list[Span] = []
        self._open: list[str] = []
        self._clock = 0.0

    def generation(self, output: Any = "", *, input: Any = "", **fields: Any) -> Self:  # noqa: A002
        """A model call; other fields of `Span` by keyword, such as model, cost, input_tokens."""
        told = {
            "input": _to_text(input),
            "output": _to_text(output),
            "input_is_data": not isinstance(input, str),
            "output_is_data": not isinstance(output, str),
        }
        return self._add("generation", {**told, **fields})

    def tool(
        self,
        name: str,
        arguments: Any = None,
        result: Any = None,
        *,
        error: str | None = None,
        **fields: Any,
    ) -> Self:
        """A tool call; arguments and result that are not text become JSON."""
        told = {
            "name": name,
            "tool_name": name,
            "tool_input": None if arguments is None else _to_text(arguments),
            "tool_output": None if result is None else _to_text(result),
            "status": "ok" if error is None else "error",
            "error": error,
        }
        return self._add("tool", {**told, **fields})

    def retrieval(self, query: str, documents: Any = (), **fields: Any) -> Self:
        """A search for documents."""
        told = {"name": "retrieval", "input": query, "output": _to_text(documents)}
        return self._add("retrieval", {**told, **fields})

    def event(self, name: str, **fields: Any) -> Self:
        """Something that happened."""
        return self._add("event", {"name": name, "duration_ms": 0.0, **fields})

    def error(self, message: str, **fields: Any) -> Self:
        """A step that failed, and with it the whole trace."""
        self._failed = True
        return self._add("span", {"name": "error", "status": "error", "error": message, **fields})

    def begin(self, name: str, **fields: Any) -> Self:
        """A part that holds the steps up to its `end`."""
        self._add("span", {"name": name, "duration_ms": 0.0, **fields})
        self._open.append(self._spans[-1].span_id)
        return self

    def end(self) -> Self:
        """The end of the part that was begun last."""
        if not self._open:
            raise InvalidInput("there is no part to end", hint="call begin() first")
        self._open.pop()
        return self

    def build(self, **fields: Any) -> Trace:
        """The trace; its own fields by keyword, such as metadata, status, duration_ms."""
        told = {
            "trace_id": self._trace_id,
            "name": self._name,
            "status": "error" if self._failed else "ok",
            "duration_ms": self._clock,
        }
        return Trace(**{**told, **fields}, spans=list(self._spans))

    def _add(self, span_type: str, fields: dict[str, Any]) -> Self:
        told = {
            "span_id": f"span-{len(self._spans) + 1}",
            "name": span_type,
            "span_type": span_type,
            "parent_id": self._open[-1] if self._open else None,
            "start_ms": self._clock,
            "duration_ms": 100.0,
        }
        span = Span(**{**told, **fields})
        self._spans.append(span)
        self._clock += span.duration_ms
        return self


def _to_text(value: Any) -> str:
    return value if isinstance(value, str) else compact(value)


class _Hang:
    def __repr__(self) -> str:
        return "HANG"


HANG = _Hang()
"""A reply that never comes (for a `FakeAgent`, not before its `release`)."""


class Slow:
    """A reply that comes after some seconds."""

    def __init__(self, seconds: float, reply: Any) -> None:
        self.seconds = seconds
        self.reply = reply


class FakeAgent:
    """An agent that answers from a list, a mapping, a function, or always the same.

    A list is used up in the order of the calls. A mapping goes by the input, or by the one value
    of an input such as `{"query": "Hello"}`. A reply that is an exception is raised, `HANG` never
    comes, `Slow(seconds, reply)` comes late. `calls` has the inputs so far.
    """

    def __init__(self, replies: Any) -> None:
        self.calls: list[Any] = []
        self._replies = replies
        self._released = threading.Event()
        self._lock = threading.Lock()

    def __call__(self, given: Any) -> Any:
        """Answer one input."""
        reply = self._reply(given)
        if isinstance(reply, Slow):
            time.sleep(reply.seconds)
            reply = reply.reply
        if reply is HANG:
            self._released.wait()
            return ""
        return _raise_or_return(reply)

    def release(self) -> None:
        """Let calls that hang return."""
        self._released.set()

    def _reply(self, given: Any) -> Any:
        with self._lock:
            self.calls.append(given)
            number = len(self.calls)
        replies = self._replies
        if isinstance(replies, Mapping):
            return _find_reply(replies, given)
        if isinstance(replies, list | tuple):
            if number > len(replies):
                raise InvalidInput(f"the fake agent has {len(replies)} replies, not {number}")
            return replies[number - 1]
        return replies(given) if callable(replies) else replies


class AsyncFakeAgent(FakeAgent):
    """A `FakeAgent` that is called with await."""

    async def __call__(self, given: Any) -> Any:
        """Answer one input."""
        reply = self._reply(given)
        if isinstance(reply, Slow):
            await asyncio.sleep(reply.seconds)
            reply = reply.reply
        if reply is HANG:
            await asyncio.get_running_loop().create_future()
        return _raise_or_return(reply)


def _find_reply(replies: Mapping[Any, Any], given: Any) -> Any:
    key = next(iter(given.values())) if isinstance(given, Mapping) and len(given) == 1 else given
    try:
        return replies[key]
    except (KeyError, TypeError):
        raise InvalidInput(f"the fake agent has no reply to {show_value(given)}") from None


def _raise_or_return(reply: Any) -> Any:
    if isinstance(reply, BaseException) or (
        isinstance(reply, type) and issubclass(reply, BaseException)
    ):
        raise reply
    return reply
