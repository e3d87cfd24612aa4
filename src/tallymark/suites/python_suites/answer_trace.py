"""From what an agent returned, and the spans it emitted, to the trace that scorers see."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

import msgspec
from msgspec.structs import replace

from tallymark.errors import InvalidInput, TraceError
from tallymark.scoring.score import show_value
from tallymark.traces import Span, Trace

_ACCEPTED = "a string, data that JSON can hold, a mapping with 'output' or 'spans', or a Trace"
_USAGE = {
    "input_tokens": ("input_tokens", "inputTokens", "prompt_tokens"),
    "output_tokens": ("output_tokens", "outputTokens", "completion_tokens"),
    "cost": ("cost",),
    "model": ("model",),
}
_KNOWN_KEYS = {"output", "usage", "metadata", "tool_calls", "toolCalls"}.union(*_USAGE.values())


class CallFacts(msgspec.Struct, frozen=True, gc=False):
    """Facts of the call itself."""

    trace_id: str
    name: str
    input: str
    duration_ms: float
    input_is_data: bool = False


def to_trace(returned: object, asked: CallFacts, emitted: Trace | None = None) -> Trace:
    """The trace of one call; InvalidInput gives the reason if a return does not make one.

    A returned trace is used as it is. Otherwise the emitted spans are the trace, and its last
    generation is the agent's return, data as JSON.
    """
    if isinstance(returned, str):
        return _make_trace(asked, [_make_answer_span(asked, returned)], {}, emitted)
    if isinstance(returned, Trace):
        return _complete_trace(returned, asked, emitted)
    told = returned if isinstance(returned, Mapping) else make_plain(returned)
    try:
        if isinstance(told, Mapping):
            if "spans" in told or "trace" in told:
                return _complete_trace(Trace.from_dict(told), asked, emitted)
            if "output" not in told:
                told = {"output": make_plain(told)}
            elif isinstance(returned, Mapping):
                told = {**told, "output": make_plain(told["output"])}
        elif told is not None:
            told = {"output": told}
        if told is not None and told["output"] is not None:
            said = _read_output(told, asked)
            return _make_trace(asked, said.spans, said.metadata, emitted)
    except TraceError as error:
        raise InvalidInput(f"the agent's answer cannot be read: {error}") from None
    raise InvalidInput(f"the agent returned {show_value(returned)} instead of {_ACCEPTED}")


def check_trace(trace: Trace) -> Trace:
    """Check a returned trace, whose author may have used values of wrong types."""
    told: dict[str, Any] = msgspec.structs.asdict(trace)
    spans = told["spans"]
    if not isinstance(spans, list | tuple) or not all(isinstance(span, Span) for span in spans):
        raise TraceError(f"spans must be a list of Spans, not {show_value(spans)}")
    return Trace.from_dict({**told, "spans": [msgspec.structs.asdict(span) for span in spans]})


def make_plain(value: object) -> Any:
    """A text, or what JSON can hold, of dataclasses, pydantic models, numbers and the like.

    None for what is neither.
    """
    try:
        plain = msgspec.to_builtins(value, enc_hook=_read_model, str_keys=True)
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError):
        return None
    if isinstance(value, Decimal):
        plain = float(value)
    finite = not isinstance(plain, float) or math.isfinite(plain)
    return None if isinstance(value, bytes | bytearray) or not finite else plain


def _read_model(value: Any) -> Any:
    """Encode types that msgspec does not know: pydantic models, numpy numbers and arrays."""
    for method in ("model_dump", "tolist"):
        if callable(read := getattr(value, method, None)) and not isinstance(value, type):
            return read()
    raise TypeError


def make_failed_trace(error: str, asked: CallFacts, emitted: Trace | None = None) -> Trace:
    """The trace of a call that did not end well."""
    end = replace(_make_answer_span(asked, ""), span_type="span", status="error", error=error)
    return replace(_make_trace(asked, [end], {}, emitted), status="error")


def _make_answer_span(asked: CallFacts, output: str) -> Span:
    return Span(
        span_id="agent",
        name="agent",
        span_type="generation",
        input=asked.input,
        input_is_data=asked.input_is_data,
        output=output,
        duration_ms=asked.duration_ms,
    )


def _make_trace(
    asked: CallFacts, said: list[Span], metadata: dict[str, Any], emitted: Trace | None
) -> Trace:
    trace = Trace(
        trace_id=asked.trace_id,
        name=asked.name,
        duration_ms=asked.duration_ms,
        metadata=metadata,
        spans=said if emitted is None else _join_spans(said, emitted),
    )
    return trace.with_question(asked.input, is_data=asked.input_is_data)


def _join_spans(said: list[Span], emitted: Trace) -> list[Span]:
    """The emitted spans, then the parts of the return that they lack."""
    answer = said[-1]
    if emitted.tokens is not None or emitted.cost is not None:
        answer = replace(answer, input_tokens=None, output_tokens=None, cost=None)
    tools = [] if emitted.tool_calls else said[:-1]
    is_told = answer.span_type == "generation" and answer.output == emitted.last_output
    if is_told and answer.tokens is None and answer.cost is None:
        return [*emitted.spans, *tools]
    return [*emitted.spans, *tools, answer]


def _read_output(given: Mapping[str, Any], asked: CallFacts) -> Trace:
    """From `{"output": ..., "usage": {...}, "tool_calls": [...]}`; other keys are metadata."""
    told = {**given, **_read_mapping(given, "usage")}
    spent = {
        field: next((told[key] for key in keys if told.get(key) is not None), None)
        for field, keys in _USAGE.items()
    }
    answer = {
        **msgspec.structs.asdict(_make_answer_span(asked, "")),
        **spent,
        "output": given["output"],
    }
    rest = {key: value for key, value in given.items() if key not in _KNOWN_KEYS}
    return Trace.from_dict(
        {
            "metadata": {**rest, **_read_mapping(given, "metadata")},
            "spans": [
                *_read_tool_calls(given.get("tool_calls") or given.get("toolCalls") or []),
                answer,
            ],
        }
    )


def _read_mapping(given: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = {} if given.get(key) is None else given[key]
    if not isinstance(value, Mapping):
        raise TraceError(f"{key} must be a mapping, not {show_value(value)}")
    return value


def _read_tool_calls(calls: object) -> Iterator[dict[str, Any]]:
    """Spans of tool calls, each a name or a mapping with a name, arguments and a result."""
    if not isinstance(calls, list | tuple):
        raise TraceError(f"tool_calls must be a list, not {show_value(calls)}")
    for number, call in enumerate(calls, start=1):
        told = {"name": call} if isinstance(call, str) else call
        if not isinstance(told, Mapping) or "name" not in told:
            raise TraceError(f"a tool call must be a name, or have one: {show_value(call)}")
        yield {
            "span_id": f"tool-{number}",
            "name": told["name"],
            "span_type": "tool",
            "tool_name": told["name"],
            "tool_input": told.get("arguments", told.get("input")),
            "tool_output": told.get("result", told.get("output")),
        }


def _complete_trace(trace: Trace, asked: CallFacts, emitted: Trace | None) -> Trace:
    """A returned trace, with what it leaves open filled in."""
    try:
        trace = check_trace(trace)
    except TraceError as error:
        raise InvalidInput(f"the agent's answer cannot be read: {error}") from None
    trace = replace(
        trace,
        trace_id=trace.trace_id or asked.trace_id,
        name=trace.name or asked.name,
        duration_ms=trace.duration_ms or asked.duration_ms,
        spans=trace.spans or ([] if emitted is None else emitted.spans),
    )
    return trace.with_question(asked.input, is_data=asked.input_is_data)
