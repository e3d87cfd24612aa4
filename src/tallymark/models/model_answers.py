"""Converts the data of a model, a function or a file to an `Answer`, and an answer to a trace.

A mapping holds `output` (or `text`, `response`) and, where known, `input_tokens`, `output_tokens`
and `cost` (next to it or under `usage`, also by OpenAI's names), `model`, `tool_calls` and `spans`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from tallymark.errors import TraceError
from tallymark.models.model import Answer
from tallymark.models.token_count import count_each, make_storable
from tallymark.traces import Span, Trace

if TYPE_CHECKING:
    from tallymark.models.model import Request
    from tallymark.models.token_prices import Pricing

_OUTPUT = ("output", "text", "response")
_INPUT_TOKENS = ("input_tokens", "prompt_tokens")
_OUTPUT_TOKENS = ("output_tokens", "completion_tokens")
_COUNTS = {*_INPUT_TOKENS, *_OUTPUT_TOKENS, "total_tokens"}
MOST_TOKENS = 2**53
"""Limit of token counts; larger numbers lose digits or cannot be stored."""
_ARGUMENTS = ("arguments", "input", "args")
_RESULT = ("output", "result")


class WrongShape(ValueError):
    """Data of another shape; the message names the key, and callers add the source."""


async def finish_answer(request: Request, draft: Answer, pricing: Pricing | None) -> Answer:
    """Complete an answer with unreported tokens counted here, and the user's own price."""
    output = make_storable(draft.output)
    sent, received, counted_by = draft.input_tokens, draft.output_tokens, draft.tokens_counted_by
    if sent is None or received is None:
        texts = [message.content for message in request.messages]
        *counts, last = await count_each([*texts, output])
        sent = sum(counts) if sent is None else sent
        received = last if received is None else received
        counted_by = "local"
    return msgspec.structs.replace(
        draft,
        output=output,
        input_tokens=sent,
        output_tokens=received,
        tokens_counted_by=counted_by or "provider",
        cost=draft.cost if pricing is None else pricing.cost(sent, received),
    )


def draft_answer(data: Mapping[str, Any], latency: float | None) -> Answer:
    """Read an answer from a mapping; a wrong value is a WrongShape that names its key."""
    sent, received, cost = read_usage(data)
    known = (sent, received) != (None, None)
    return Answer(
        output=_read_output(data),
        latency=latency,
        input_tokens=sent,
        output_tokens=received,
        tokens_counted_by="provider" if known else None,
        cost=cost,
        model=data["model"] if isinstance(data.get("model"), str) else None,
        spans=read_spans(data),
    )


def draft_answer_from_trace(trace: Trace, latency: float) -> Answer:
    """The answer that a trace ends with."""
    known = trace.tokens is not None
    return Answer(
        output=trace.last_output,
        latency=latency,
        input_tokens=trace.input_tokens,
        output_tokens=trace.output_tokens,
        tokens_counted_by="provider" if known else None,
        cost=trace.cost,
        model=next((s.model for s in reversed(trace.generations) if s.model), None),
        spans=tuple(trace.spans),
    )


def read_usage(data: Mapping[str, Any]) -> tuple[int | None, int | None, float | None]:
    """Input tokens, output tokens and cost, each None where it is not reported."""
    usage = data.get("usage") or data
    if not isinstance(usage, Mapping):
        raise WrongShape(f"usage must be an object, not {usage!r:.40}")
    return (
        _read_count(usage, _INPUT_TOKENS),
        _read_count(usage, _OUTPUT_TOKENS),
        read_amount(usage, "cost") if "cost" in usage else read_amount(data, "cost"),
    )


def drop_odd_usage(data: Mapping[str, Any]) -> dict[str, Any]:
    """The data without impossible counts and costs, so that the answer itself can be used."""
    numbers = {key: value for key, value in data.items() if key in _COUNTS or key == "cost"}
    rest = {key: value for key, value in data.items() if key not in numbers}
    if "usage" in rest:
        rest["usage"] = _keep_numbers(rest["usage"])
    return rest | _keep_numbers(numbers)


def _keep_numbers(usage: object) -> dict[str, Any]:
    """The numbers of a usage, and of the details within it."""
    if not isinstance(usage, Mapping):
        return {}
    return {
        key: _keep_numbers(value) if isinstance(value, Mapping) else value
        for key, value in usage.items()
        if isinstance(value, Mapping) or _is_believable(key, value)
    }


def _is_believable(key: str, value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int if key in _COUNTS else int | float):
        return False
    return 0 <= value < MOST_TOKENS


def read_amount(data: Mapping[str, Any], key: str) -> float | None:
    """A number of at least 0, or None."""
    value = data.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise WrongShape(f"{key} must be a number of at least 0, not {value!r:.40}")
    return float(value)


def read_spans(data: Mapping[str, Any]) -> tuple[Span, ...]:
    """The spans of an answer: `tool_calls` in short form, `spans` in full."""
    spans = [
        _read_tool_call(call, number) for number, call in enumerate(_read_list(data, "tool_calls"))
    ]
    spans += [
        msgspec.structs.asdict(span) if isinstance(span, Span) else span
        for span in _read_list(data, "spans")
    ]
    try:
        return tuple(Trace.from_dict({"spans": spans}).spans) if spans else ()
    except TraceError as error:
        raise WrongShape(str(error)) from None


def _read_list(data: Mapping[str, Any], key: str) -> list[Any]:
    value = data.get(key) or []
    if not isinstance(value, list | tuple):
        raise WrongShape(f"{key} must be a list, not {value!r:.40}")
    return list(value)


def _read_tool_call(call: Any, number: int) -> dict[str, Any]:
    """The fields of a tool's span."""
    if isinstance(call, str):
        call = {"name": call}
    if not isinstance(call, Mapping) or not isinstance(call.get("name"), str):
        raise WrongShape(f"tool_calls[{number}] must have a name")
    arguments, result = _find_first(call, _ARGUMENTS), _find_first(call, _RESULT)
    return {
        "span_id": f"tool-{number + 1}",
        "name": call["name"],
        "span_type": "tool",
        "tool_name": call["name"],
        "tool_input": arguments,
        "tool_output": result,
        "input": arguments,
        "output": result,
        "error": call.get("error"),
        "status": "error" if call.get("error") else "ok",
    }


def _read_output(data: Mapping[str, Any]) -> str:
    output = _find_first(data, _OUTPUT)
    if not isinstance(output, str):
        missing = "is missing" if output is None else f"must be text, not {output!r:.40}"
        raise WrongShape(f"output {missing}")
    return output


def _read_count(data: Mapping[str, Any], keys: tuple[str, ...]) -> int | None:
    value = _find_first(data, keys)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < MOST_TOKENS:
        raise WrongShape(f"{keys[0]} must be a whole number of at least 0, not {value!r:.40}")
    return value


def _find_first(data: Mapping[str, Any], keys: tuple[str, ...]) -> Any:
    for key in keys:
        if (value := data.get(key)) is not None:
            return value
    return None


def trace_of(request: Request, answer: Answer) -> Trace:
    """The trace of an answer, which becomes a model call unless a reported call has its output.

    Made when a scorer needs it: most answers need no trace, and their spans would only repeat them.
    """
    trace = Trace(
        name=answer.model or "", duration_ms=_find_duration(answer), spans=list(answer.spans)
    )
    if not trace.generations or trace.answer != answer.output:
        spent = trace.tokens is None and trace.cost is None
        if not spent:  # the spans have these numbers already
            answer = msgspec.structs.replace(
                answer, input_tokens=None, output_tokens=None, cost=None
            )
        trace.spans.append(_make_generation(request, answer))
    # The spans of a conversation begin with an earlier question of the same user.
    asked = {message.content for message in request.messages if message.role == "user"}
    return trace if trace.first_input in asked else trace.with_question(request.prompt)


def _find_duration(answer: Answer) -> float:
    """In ms; a trace has 0 where it is not known."""
    return (answer.latency or 0.0) * 1000


def _make_generation(request: Request, answer: Answer) -> Span:
    return Span(
        span_id="answer",
        name="answer",
        span_type="generation",
        input=request.prompt,
        output=answer.output,
        model=answer.model,
        duration_ms=_find_duration(answer),
        input_tokens=answer.input_tokens,
        output_tokens=answer.output_tokens,
        cost=answer.cost,
    )
