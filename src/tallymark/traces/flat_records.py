"""Records that are no list of spans, in the shape of one.

Three kinds are in use: a question with its answer, a conversation (`messages`), and a tree whose
steps hold others under `children`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from tallymark.errors import InvalidInput, suggest
from tallymark.text import quote_some
from tallymark.traces.chat_messages import (
    ChatMessage,
    conversation_metadata,
    last_text,
    parse_messages,
)
from tallymark.traces.lenient_json import as_label, as_list, as_mapping
from tallymark.traces.token_counts import read_usage

Record = dict[str, Any]

_ASKED = ("input", "question", "prompt", "query")
_ANSWERED = ("output", "answer", "response", "completion")
_EXPECTED = (
    *("expected", "expected_output", "expectedOutput", "target"),
    *("reference", "ground_truth", "ideal"),
)
_IDS = ("trace_id", "traceId", "id")
_CALLS = ("tool_calls", "toolCalls")
_SPENT = {
    "model": ("model",),
    "input_tokens": ("input_tokens", "inputTokens", "prompt_tokens", "promptTokens"),
    "output_tokens": ("output_tokens", "outputTokens", "completion_tokens", "completionTokens"),
    "cache_read_tokens": ("cache_read_tokens", "cache_read_input_tokens", "cached_tokens"),
    "cache_write_tokens": ("cache_write_tokens", "cache_creation_input_tokens"),
    "cache_write_1h_tokens": ("cache_write_1h_tokens",),
    "reasoning_tokens": ("reasoning_tokens", "reasoningTokens"),
    "cost": ("cost", "cost_usd", "costUsd"),
    "duration_ms": ("duration_ms", "durationMs", "latency_ms", "latencyMs"),
    "error": ("error",),
}
_TYPES = {
    "llm": "generation",
    "chat_model": "generation",
    "function": "tool",
    "tool_call": "tool",
    "retriever": "retrieval",
    "agent": "span",
    "chain": "span",
}
_SPAN_TYPES = ("span", "generation", "tool", "retrieval", "event")
_GROUPS = (
    *(_ASKED, _ANSWERED, _EXPECTED, _IDS, _CALLS, ("messages",), ("usage",)),
    *_SPENT.values(),
)
"""Keys with the same meaning: the first in a record is read, the others become metadata."""


_MAPPED: dict[str, Sequence[str]] = {
    "input": _ASKED,
    "output": _ANSWERED,
    "expected": _EXPECTED,
    "id": _IDS,
    "name": ("name",),
    "messages": ("messages",),
    "tool_calls": _CALLS,
    **{field: names for field, names in _SPENT.items() if field != "duration_ms"},
    "latency": _SPENT["duration_ms"],
    "latency_ms": _SPENT["duration_ms"],
}
"""Fields that `--map` accepts, with the keys that are read without it."""
FieldMap = Mapping[str, str]
"""From fields of records to the keys that they have in a file, dots leading inside."""


def read_field_map(pairs: Iterable[str]) -> dict[str, str]:
    """From `output=agent_reply` and the like, as commands take it."""
    found: dict[str, str] = {}
    for pair in pairs:
        field, equals, key = (part.strip() for part in pair.partition("="))
        if not equals or not key:
            hint = "write FIELD=KEY, as in --map output=agent_reply"
            raise InvalidInput(f"--map {pair!r} names no key", hint=hint)
        if field in found:
            raise InvalidInput(f"--map gives {field!r} twice")
        found[field] = key
    check_field_map(found)
    return found


def check_field_map(fields: FieldMap) -> None:
    """Refuses a field that records do not have."""
    for field in fields:
        if field not in _MAPPED:
            near = suggest(field, _MAPPED)
            meant = f"did you mean {near!r}? " if near else ""
            hint = f"{meant}the fields are {', '.join(_MAPPED)}"
            raise InvalidInput(f"a record has no field {field!r} to map", hint=hint)


def map_fields(record: Mapping[str, Any], fields: FieldMap) -> Record:
    """The record with the fields where they are looked for; what else may mean them does not."""
    values = {field: find_value(record, key) for field, key in fields.items()}
    taken = {*fields.values(), *(name for field in fields for name in _MAPPED[field])}
    mapped = {key: value for key, value in record.items() if key not in taken}
    if isinstance(seconds := values.get("latency"), int | float):
        values["latency"] = seconds * 1000
    for field, value in values.items():
        if value is not None or field == "output":
            mapped[_MAPPED[field][0]] = value
    return mapped


def find_value(record: Mapping[str, Any], key: str) -> Any:
    """The value of a key or path: `result.text`, `choices.0.text`."""
    if key in record:
        return record[key]
    found: Any = record
    for part in key.split("."):
        if isinstance(found, list) and part.isascii() and part.isdigit() and len(part) < 10:
            found = found[int(part)] if int(part) < len(found) else None
        else:
            found = as_mapping(found).get(part)
    return found


def describe_needs(keys: Iterable[str]) -> tuple[str, str]:
    """Why an object with these keys is no record, and what to do."""
    asked, answered = (", ".join(names) for names in (_ASKED, _ANSWERED[1:]))
    message = f"the record has no output; its keys are {quote_some(list(keys)) or 'none'}"
    hint = (
        "name the key of the output: --map output=KEY --map input=KEY; recognised are output, "
        f"or {answered} together with {asked}, or messages, or spans"
    )
    return message, hint


def is_flat(keys: Collection[str]) -> bool:
    """True when an object with these keys is such a record."""
    if "output" in keys or "messages" in keys or ("children" in keys and "name" in keys):
        return True
    return any(key in keys for key in _ASKED) and any(key in keys for key in _ANSWERED)


def spread_record(record: Mapping[str, Any]) -> Record:
    """The record with `spans`: its own, or spans made from its fields."""
    if record.get("spans") is not None:
        return _spread_spans(record)
    if isinstance(record.get("children"), list):
        return _spread_tree(record)
    if not is_flat(record):
        return dict(record)
    spans = _list_flat_spans(record)
    used = {_find_key(record, group) for group in _GROUPS}
    return {
        **{key: value for key, value in record.items() if key not in used and value is not None},
        **_read_identity(record),
        "duration_ms": spans[-1].get("duration_ms") if spans else None,
        "spans": spans,
    }


def list_conversation_spans(messages: list[ChatMessage], model: str | None) -> list[Record]:
    """The model's answers in a conversation, each followed by its tool calls."""
    told = {result.id: result.text for message in messages for result in message.results}
    spans: list[Record] = []
    for index, message in enumerate(messages):
        if message.role != "assistant":
            continue
        span_id = f"message-{index + 1}"
        spans.append(
            {
                "span_id": span_id,
                "name": model or "model",
                "span_type": "generation",
                "input": last_text(messages[:index], "user"),
                "output": message.text,
                "model": model,
                "metadata": conversation_metadata(messages[:index], [message]),
            }
        )
        for number, call in enumerate(message.calls, start=1):
            wish = {"name": call.name, "arguments": call.arguments, "result": told.get(call.id)}
            tool = _make_tool_span(wish, f"{span_id}/tool-{number}")
            spans.append({**tool, "metadata": {"requested_by": span_id}})
    return spans


def _list_flat_spans(record: Mapping[str, Any]) -> list[Record]:
    """An answer as a model call, after the tool calls of the record."""
    messages = parse_messages(record.get("messages"))
    answer = _find_first(record, _ANSWERED)
    model = as_label(record.get("model"))
    spent = _read_spent(record)
    if messages and answer is None:
        spans = list_conversation_spans(messages, model)
        calls = [span for span in spans if span["span_type"] == "generation"]
        if calls:  # tokens and cost are of the whole conversation
            calls[-1] |= spent
        return spans
    said = parse_messages(answer, "assistant") if _is_message(answer) else []
    asked = _find_first(record, _ASKED)
    if (found := _find_type(record)) and found[1] == "tool":
        name = record.get("tool_name", record.get("name"))
        return [
            {**_make_tool_span({"name": name, "input": asked, "result": answer}, "call"), **spent}
        ]
    if isinstance(asked, list) and any("role" in as_mapping(each) for each in asked):
        messages, asked = parse_messages(asked), None
    told = as_list(_find_first(record, _CALLS))
    wishes = told or [call._asdict() for message in said for call in message.calls]
    tools = [_make_tool_span(call, f"tool-{n}") for n, call in enumerate(wishes, start=1)]
    return [
        *tools,
        {
            "span_id": "answer",
            "name": as_label(record.get("name")) or "answer",
            "span_type": "generation",
            "input": last_text(messages, "user") if asked is None else asked,
            "output": last_text(said, "assistant") if said else answer,
            # A call that failed is known to have answered nothing.
            "output_seen": answer is not None or spent["error"] is not None,
            **spent,
        },
    ]


def _is_message(answer: Any) -> bool:
    """True for a model's whole response, or one message of it; other data is the answer itself."""
    keys = as_mapping(answer).keys()
    return "choices" in keys or {"role", "content"} <= keys


def _make_tool_span(call: Any, span_id: str) -> Record:
    told: Mapping[str, Any] = {"name": call} if isinstance(call, str) else as_mapping(call)
    inner = as_mapping(told.get("function")) or told
    given = _find_first(inner, ("arguments", "args", "input"))
    result = _find_first(told, ("result", "output"))
    name = as_label(inner.get("name")) or "tool"
    return {
        "span_id": span_id,
        "name": name,
        "span_type": "tool",
        "input": given,
        "output": result,
        "tool_name": name,
        "tool_input": given,
        "tool_output": result,
    }


def _read_spent(record: Mapping[str, Any]) -> Record:
    usage = as_mapping(record.get("usage"))
    told = {**record, **usage}
    counts = {key: each for key, each in read_usage(usage).as_fields().items() if each is not None}
    return {field: _find_first(told, keys) for field, keys in _SPENT.items()} | counts


def _find_key(record: Mapping[str, Any], keys: Sequence[str]) -> str | None:
    return next((key for key in keys if record.get(key) is not None), None)


def _find_first(record: Mapping[str, Any], keys: Sequence[str]) -> Any:
    key = _find_key(record, keys)
    return None if key is None else record[key]


def _read_identity(record: Mapping[str, Any]) -> Record:
    """The record's id, and what was expected: a mapping as it is, anything else as the output."""
    found = {"trace_id": _find_first(record, _IDS)}
    expected = _find_first(record, _EXPECTED)
    if expected is not None:
        found["expected"] = expected if isinstance(expected, dict) else {"output": expected}
    return found


def _spread_spans(record: Mapping[str, Any]) -> Record:
    """Spans without nesting, below an outermost span with the input and output of the record."""
    spread = dict(record)
    spans = record["spans"]
    if isinstance(spans, list):
        spans = [each for n, span in enumerate(spans, start=1) for each in _walk_tree(span, str(n))]
        keys = {"input": _find_key(record, _ASKED), "output": _find_key(record, _ANSWERED)}
        whole = {field: spread.pop(key) for field, key in keys.items() if key is not None}
        if whole:
            name = as_label(record.get("name")) or "trace"
            said = {"output_is_answer": True} if "output" in whole else {}
            spans = [{"span_id": "trace", "name": name, **whole, **said}, *spans]
    return {**spread, "spans": spans}


def _spread_tree(record: Mapping[str, Any]) -> Record:
    """A tree whose root is the record itself."""
    identity = _read_identity(record)
    root = {key: value for key, value in record.items() if key not in (*_IDS[:2], *_EXPECTED)}
    kept = ("name", "status", "duration_ms", "durationMs")
    return {
        **identity,
        **{key: record[key] for key in kept if key in record},
        "spans": _walk_tree(root, "1"),
    }


def _walk_tree(root: Any, path: str) -> list[Any]:
    """A step and all below it, parents first, each with an id and its parent's."""
    spans: list[Any] = []
    stack: list[tuple[Any, str | None, str]] = [(root, None, path)]
    while stack:
        step, above, here = stack.pop()
        if not isinstance(step, Mapping):
            spans.append(step)
            continue
        children = as_list(step.get("children"))
        span = _name_step(step, here if children or above is not None else None)
        if children:
            del span["children"]
        if above is not None:
            span["parent_id"] = above
        spans.append(span)
        own = as_label(span.get("span_id")) or as_label(span.get("spanId"))
        below = [(child, own, f"{here}.{n}") for n, child in enumerate(children, start=1)]
        stack.extend(reversed(below))
    return spans


def _name_step(step: Mapping[str, Any], otherwise: str | None) -> Record:
    """The step with the id and the type that it has under shorter names."""
    span = dict(step)
    if not span.keys() & {"span_id", "spanId"} and (named := as_label(span.get("id")) or otherwise):
        span.pop("id", None)
        span["span_id"] = named
    if not span.keys() & {"span_type", "spanType"} and (found := _find_type(span)):
        key, span["span_type"] = found
        del span[key]
    return span


def _find_type(step: Mapping[str, Any]) -> tuple[str, str] | None:
    """The key of a step's span type, and the type."""
    for key in ("type", "kind"):
        said = (as_label(step.get(key)) or "").lower()
        if (kind := _TYPES.get(said, said)) in _SPAN_TYPES:
            return key, kind
    return None
