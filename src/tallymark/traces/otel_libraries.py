"""Attributes of tracing libraries, translated to the names that `otel_spans` reads.

Langfuse, MLflow, LangSmith, Vercel's AI SDK and OpenLLMetry have their own names for a span's kind,
input and output. They become those of the GenAI conventions. An attribute that already has a name
of the conventions wins, and translated attributes are removed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from tallymark.errors import TraceError
from tallymark.traces.chat_messages import unpack_json
from tallymark.traces.lenient_json import as_label, as_mapping, compact, decode
from tallymark.traces.token_counts import STANDARD, TokenCounts, read_usage

Attributes = dict[str, Any]

_KINDS = {
    "generation": "chat",
    "llm": "chat",
    "chat_model": "chat",
    "tool": "execute_tool",
    "retriever": "retrieval",
    "reranker": "retrieval",
    "embedding": "embeddings",
    "event": "event",
}
"""From the libraries' kinds of spans to operations; all others are steps that hold others."""


class _Library(NamedTuple):
    """The names of one library's attributes."""

    kind: str
    asked: tuple[str, ...]
    answered: tuple[str, ...]
    also: Mapping[str, str]
    """Other attributes, by the name of the conventions that each has."""
    read: Callable[[Attributes], Attributes] = lambda _: {}
    """Attributes that need more than another name."""


def translate(name: str, attributes: Attributes) -> Attributes:
    """The attributes of a span in the conventions' names, with the span's own name for its tool."""
    for kind, library in _BY_KIND.items():
        if kind in attributes:
            return _translate(library, name, attributes)
    return attributes


def _translate(library: _Library, name: str, attributes: Attributes) -> Attributes:
    said = _find_first(attributes, ("gen_ai.operation.name", "llm.request.type", library.kind))
    said = str(read_plain(said)).lower()
    asked = _find_first(attributes, library.asked)
    answered = _find_first(attributes, library.answered)
    found = {"gen_ai.operation.name": _KINDS.get(said, said), **library.read(attributes)}
    kind = found["gen_ai.operation.name"]
    for theirs, ours in library.also.items():
        if theirs in attributes:
            found[ours] = read_plain(attributes[theirs])
    if kind == "execute_tool":
        found.setdefault("gen_ai.tool.name", attributes.get("traceloop.entity.name") or name)
        found["gen_ai.tool.call.arguments"] = unwrap_arguments(read_plain(asked))
        found["gen_ai.tool.call.result"] = unwrap_output(read_plain(answered))
    elif kind == "chat":
        found.setdefault("gen_ai.input.messages", asked)
        found.setdefault("gen_ai.output.messages", answered)
    else:
        given = unwrap_arguments(read_plain(asked))
        # Vercel's AI SDK has the system prompt next to the prompt.
        prompt = as_mapping(given).get("prompt")
        found["input.value"] = _unwrap_only_text(given) if prompt is None else prompt
        found["output.value"] = unwrap_output(read_plain(answered))
    taken = {*library.asked, *library.answered, *library.also}
    rest = {key: value for key, value in attributes.items() if key not in taken}
    return {**{key: value for key, value in found.items() if value is not None}, **rest}


def read_plain(value: Any) -> Any:
    """The value of JSON text, where it is an object, an array or a text in quotes."""
    if isinstance(value, str) and len(value) > 1 and value[0] == value[-1] == '"':
        try:
            return decode(value.encode("utf-8", "replace"))
        except TraceError:
            return value
    return unpack_json(value)


def unwrap_arguments(value: Any) -> Any:
    """The arguments of a call that was recorded as `{"args": [...], "kwargs": {...}}`."""
    if not isinstance(value, dict):
        return value
    if {"inputs", "tags"} <= value.keys():  # OpenLLMetry's LangChain adds settings
        return value["inputs"]
    if value.keys() != {"args", "kwargs"}:
        return value
    if not value["args"]:
        return value["kwargs"]
    alone = not value["kwargs"] and isinstance(value["args"], list) and len(value["args"]) == 1
    return value["args"][0] if alone else value


def unwrap_output(value: Any) -> Any:
    """The output inside LangSmith's `{"output": ...}`; other data as it is."""
    return value["output"] if isinstance(value, dict) and value.keys() == {"output"} else value


def _unwrap_only_text(value: Any) -> Any:
    """The question, where it is a step's only argument: `{"question": "..."}`."""
    only = list(value.values()) if isinstance(value, dict) and len(value) == 1 else []
    return only[0] if only and isinstance(only[0], str) else value


def _find_first(attributes: Attributes, names: tuple[str, ...]) -> Any:
    return next((found for name in names if (found := attributes.get(name)) is not None), None)


def _read_usage(value: Any) -> Attributes:
    """Tokens of a usage object in any of the spellings."""
    return _name_counts(read_usage(as_mapping(read_plain(value))))


def _name_counts(counts: TokenCounts) -> Attributes:
    return {STANDARD[field]: count for field, count in counts.as_fields().items()}


def _read_langfuse(attributes: Attributes) -> Attributes:
    """Langfuse counts each kind separately: `input` has no cached tokens in it.

    Objects in the provider's own shape are counted as the provider does.
    """
    usage = as_mapping(read_plain(attributes.get("langfuse.observation.usage_details")))
    cost = as_mapping(read_plain(attributes.get("langfuse.observation.cost_details")))
    counts = read_usage(usage, cached_apart="input" in usage)
    if "output" in usage and counts.output_tokens is not None:
        whole = counts.output_tokens + (counts.reasoning_tokens or 0)
        counts = msgspec.structs.replace(counts, output_tokens=whole)
    return {**_name_counts(counts), "gen_ai.usage.cost": cost.get("total")}


def _read_mlflow(attributes: Attributes) -> Attributes:
    cost = as_mapping(read_plain(attributes.get("mlflow.llm.cost")))
    return {
        **_read_usage(attributes.get("mlflow.chat.tokenUsage")),
        "gen_ai.usage.cost": cost.get("total_cost"),
    }


def _read_vercel(attributes: Attributes) -> Attributes:
    """The AI SDK names a span's kind by the function that made it."""
    operation = as_label(attributes.get("ai.operationId")) or ""
    calls_model = operation.endswith((".doGenerate", ".doStream"))
    kind = {"ai.toolCall": "execute_tool"}.get(operation, "chat" if calls_model else "invoke_agent")
    calls = unpack_json(attributes.get("ai.response.toolCalls"))
    said = attributes.get("ai.response.text") or attributes.get("ai.response.object")
    answer = {"role": "assistant", "content": said, "tool_calls": calls}
    return {
        **_name_counts(_read_vercel_usage(attributes)),
        "gen_ai.operation.name": "embeddings" if "embed" in operation.lower() else kind,
        "gen_ai.output.messages": compact([answer]) if calls_model and (said or calls) else None,
    }


def _read_vercel_usage(attributes: Attributes) -> TokenCounts:
    """`ai.usage.inputTokens` and the like, with details one level below."""
    usage: Attributes = {}
    for key, value in attributes.items():
        if key.startswith("ai.usage."):
            outer, _, inner = key.removeprefix("ai.usage.").partition(".")
            if inner:
                usage.setdefault(outer, {})[inner] = value
            else:
                usage[outer] = value
    return read_usage(usage)


def _read_langsmith(attributes: Attributes) -> Attributes:
    """Details of tokens, which LangSmith's exporter writes as JSON."""
    usage = as_mapping(read_plain(attributes.get("langsmith.usage_metadata"))) | {
        f"{side}_token_details": as_mapping(read_plain(attributes.get(name)))
        for side in ("input", "output")
        if (name := f"gen_ai.usage.{side}_token_details") in attributes
    }
    for side in ("input", "output"):
        usage.setdefault(f"{side}_tokens", attributes.get(f"gen_ai.usage.{side}_tokens"))
    return _name_counts(read_usage(usage))


_LIBRARIES = (
    _Library(
        "langfuse.observation.type",
        ("langfuse.observation.input", "langfuse.trace.input"),
        ("langfuse.observation.output", "langfuse.trace.output"),
        {"langfuse.observation.model.name": "gen_ai.request.model"},
        _read_langfuse,
    ),
    _Library(
        "mlflow.spanType",
        ("mlflow.spanInputs",),
        ("mlflow.spanOutputs",),
        {"mlflow.llm.model": "gen_ai.request.model", "mlflow.llm.provider": "gen_ai.provider.name"},
        _read_mlflow,
    ),
    _Library(
        "langsmith.span.kind", ("gen_ai.prompt",), ("gen_ai.completion",), {}, _read_langsmith
    ),
    _Library(
        "ai.operationId",
        ("ai.prompt.messages", "ai.prompt", "ai.toolCall.args"),
        ("ai.response.text", "ai.response.object", "ai.toolCall.result"),
        {"ai.toolCall.name": "gen_ai.tool.name", "ai.model.id": "gen_ai.request.model"},
        _read_vercel,
    ),
    _Library(
        "traceloop.span.kind",
        ("traceloop.entity.input",),
        ("traceloop.entity.output",),
        {},
    ),
)
_BY_KIND = {each.kind: each for each in _LIBRARIES}
