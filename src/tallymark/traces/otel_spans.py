"""One OpenTelemetry span as one of ours.

Reads the GenAI conventions of OpenTelemetry in their current and older names, the additions of
pydantic-ai and Logfire, and OpenInference; `otel_libraries` translates others. Each field has a
table of attributes, of which the first that is present wins. Other attributes go to the span's
metadata, definitions of tools among them, which are not calls.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from tallymark.traces import token_counts
from tallymark.traces.chat_messages import conversation_metadata, last_text, unpack_json
from tallymark.traces.lenient_json import (
    as_amount,
    as_label,
    as_list,
    as_mapping,
    as_text,
    compact,
)
from tallymark.traces.otel_conversation import (
    ANSWERED,
    Conversation,
    find_first_answer,
    find_last_question,
    read_conversation,
    unflatten,
)
from tallymark.traces.otel_libraries import translate
from tallymark.traces.trace import Span, SpanType

_TOOL_NAME = ("gen_ai.tool.name", "tool.name", "mcp.tool.name", "traceloop.entity.name")
_NAMES_TOOL = _TOOL_NAME[:3]
"""A span with one of these is always a tool call; an entity may be anything."""
_TOOL_INPUT = (
    *("gen_ai.tool.call.arguments", "tool_arguments", "input.value"),
    *("tool.parameters", "traceloop.entity.input"),
)
_TOOL_OUTPUT = (
    "gen_ai.tool.call.result",
    "tool_response",
    "output.value",
    "traceloop.entity.output",
)
_INPUT = ("input.value", "gen_ai.retrieval.query.text", "traceloop.entity.input")
_OUTPUT = ("final_result", "output.value", "traceloop.entity.output", "return")
_MODEL = (
    *("gen_ai.response.model", "gen_ai.request.model", "llm.model_name"),
    *("embedding.model_name", "llm.request.model", "model_name"),
)
_COST = (
    *("gen_ai.usage.cost", "gen_ai.usage.total_cost", "gen_ai.cost.total_cost"),
    *("operation.cost", "llm.cost.total"),
)
_DOCUMENTS = ("retrieval.documents", "reranker.output_documents", "gen_ai.retrieval.documents")
PROVIDER = ("gen_ai.provider.name", "gen_ai.system", "llm.provider", "llm.system")
_TAKEN = frozenset(
    _TOOL_NAME + _TOOL_INPUT + _TOOL_OUTPUT + _INPUT + _OUTPUT + _MODEL + _COST + _DOCUMENTS
    + tuple(token_counts.ATTRIBUTES)
    + ("logfire.json_schema", "logfire.msg", "input.mime_type", "output.mime_type")
)  # fmt: skip

_OPERATIONS: dict[str, SpanType] = {
    "chat": "generation",
    "completion": "generation",
    "text_completion": "generation",
    "generate_content": "generation",
    "execute_tool": "tool",
    "retrieval": "retrieval",
    "event": "event",
}
_INFERENCE: dict[str, SpanType] = {
    "LLM": "generation",
    "TOOL": "tool",
    "RETRIEVER": "retrieval",
    "RERANKER": "retrieval",
}
_MODEL_CALL = ("gen_ai.request.model", "gen_ai.response.model", "llm.model_name")
_AGENT = ("agent_name", "gen_ai.agent.name", "final_result", "pydantic_ai.all_messages")


class OtelEvent(NamedTuple):
    """Something that happened during an OpenTelemetry span."""

    name: str
    attributes: dict[str, Any]


# gc=False: plain data without circles, which the garbage collector need not walk.
class OtelSpan(msgspec.Struct, gc=False):
    """An OpenTelemetry span as any of its encodings gives it."""

    trace_id: str
    span_id: str
    parent_id: str | None = None
    name: str = ""
    start_ns: int = 0
    end_ns: int = 0
    failed: bool = False
    message: str = ""
    """The message of the span's status."""
    attributes: dict[str, Any] = msgspec.field(default_factory=dict)
    events: list[OtelEvent] = msgspec.field(default_factory=list)

    def first(self, names: tuple[str, ...]) -> Any:
        """The first attribute of these that is present."""
        attributes = self.attributes
        for name in names:
            if (found := attributes.get(name)) is not None:
                return found
        return None


def to_span(otel: OtelSpan) -> Span:
    """Our span; a price is not looked up here, and totals of agents are still on it."""
    return convert_span(translate_span(otel))


def translate_span(otel: OtelSpan) -> OtelSpan:
    """Change the span to the names of the conventions."""
    otel.attributes = translate(otel.name, otel.attributes)
    if otel.attributes.get("langfuse.observation.level") == "ERROR":
        otel.failed = True
        otel.message = as_text(otel.attributes.get("langfuse.observation.status_message"))
    return otel


def convert_span(otel: OtelSpan) -> Span:
    """Our span from one in the conventions' names."""
    talk = read_conversation(otel.attributes, otel.events)
    kind = find_span_type(otel)
    fields = _read_tool(otel) if kind == "tool" else _read_talk(otel, talk, kind)
    return Span(
        span_id=otel.span_id,
        name=otel.name,
        span_type=kind,
        parent_id=otel.parent_id,
        model=as_label(otel.first(_MODEL)),
        start_ms=otel.start_ns / 1e6 if otel.start_ns else None,
        duration_ms=max(0, otel.end_ns - otel.start_ns) / 1e6 if otel.start_ns else 0.0,
        status="error" if otel.failed else "ok",
        error=_describe_error(otel) if otel.failed else None,
        **token_counts.read_attributes(otel.attributes).as_fields(),
        cost=as_amount(otel.first(_COST)),
        metadata=_collect_metadata(otel, talk, kind),
        **fields,
    )


def count_span(otel: OtelSpan, kept: frozenset[str]) -> Span:
    """The span without its texts, for counting; its metadata has the attributes in `kept`."""
    kind = find_span_type(otel)
    attributes = otel.attributes
    return Span(
        span_id=otel.span_id,
        name=otel.name,
        span_type=kind,
        parent_id=otel.parent_id,
        model=as_label(otel.first(_MODEL)),
        tool_name=_find_tool_name(otel) if kind == "tool" else None,
        start_ms=otel.start_ns / 1e6 if otel.start_ns else None,
        duration_ms=max(0, otel.end_ns - otel.start_ns) / 1e6 if otel.start_ns else 0.0,
        status="error" if otel.failed else "ok",
        error=_describe_error(otel) if otel.failed else None,
        **token_counts.read_attributes(otel.attributes).as_fields(),
        cost=as_amount(otel.first(_COST)),
        metadata={name: attributes[name] for name in kept.intersection(attributes)},
    )


def find_asked(otel: OtelSpan) -> str:
    """The input of a span that is no tool call."""
    return find_last_question(otel.attributes, otel.events) or as_text(otel.first(_INPUT))


def find_answered(otel: OtelSpan) -> str:
    """The output of a model call."""
    said = find_first_answer(otel.attributes, otel.events)
    return said or as_text(otel.first(_OUTPUT))


def find_provider(span: Span) -> str | None:
    """The provider of the model, on which its price depends."""
    said = span.metadata
    return next((found for n in PROVIDER if n in said and (found := as_label(said[n]))), None)


def find_span_type(otel: OtelSpan) -> SpanType:
    """The type that the span names, otherwise the one its attributes imply."""
    attributes = otel.attributes
    inference = as_label(attributes.get("openinference.span.kind"))
    if inference:
        return _INFERENCE.get(inference.upper(), "span")
    operation = as_label(attributes.get("gen_ai.operation.name")) or as_label(
        attributes.get("llm.request.type")
    )
    if operation:
        return _OPERATIONS.get(operation, "span")
    if (
        attributes.get("traceloop.span.kind") == "tool"
        or attributes.get("mcp.method.name") == "tools/call"
        or any(name in attributes for name in _NAMES_TOOL)
    ):
        return "tool"
    if attributes.get("logfire.span_type") == "log":
        return "event"
    calls_model = any(name in attributes for name in _MODEL_CALL)
    return "generation" if calls_model and otel.first(_AGENT) is None else "span"


def _read_tool(otel: OtelSpan) -> dict[str, Any]:
    """A tool call; without a name attribute, the span's name without its verb is the tool's."""
    given, answer = otel.first(_TOOL_INPUT), otel.first(_TOOL_OUTPUT)
    tool_input = None if given is None else as_text(given)
    tool_output = None if answer is None else as_text(answer)
    return {
        "tool_name": _find_tool_name(otel),
        "tool_input": tool_input,
        "tool_output": tool_output,
        "input": tool_input or "",
        "output": tool_output or "",
    }


def _find_tool_name(otel: OtelSpan) -> str:
    return as_label(otel.first(_TOOL_NAME)) or otel.name.removeprefix("execute_tool ")


def _read_talk(otel: OtelSpan, talk: Conversation, kind: SpanType) -> dict[str, Any]:
    """Input and output: from the messages, otherwise from plain attributes."""
    asked = last_text(talk.asked, "user") or as_text(otel.first(_INPUT))
    answered = next((message.text for message in talk.answered if message.text), "")
    if not talk.answered or (kind != "generation" and otel.first(_OUTPUT) is not None):
        answered = as_text(otel.first(_OUTPUT))
    if kind == "retrieval" and not answered and (documents := _list_documents(otel)):
        answered = compact(documents)
    seen = talk.answered or otel.failed or otel.first((*ANSWERED, *_OUTPUT)) is not None
    return {"input": asked, "output": answered, "output_seen": bool(seen) or kind != "generation"}


def _list_documents(otel: OtelSpan) -> list[Any]:
    for name in _DOCUMENTS:
        found = unflatten(otel.attributes, name) or as_list(unpack_json(otel.attributes.get(name)))
        if found:
            return [as_mapping(as_mapping(each).get("document")) or each for each in found]
    return []


def _describe_error(otel: OtelSpan) -> str:
    """The reason of a failure: from the status, an exception, or the type of error."""
    raised = [event.attributes for event in otel.events if event.name == "exception"]
    exceptions = [
        ": ".join(filter(None, (as_text(each.get(f"exception.{n}")) for n in ("type", "message"))))
        for each in raised
    ]
    kind = as_label(otel.attributes.get("error.type"))
    return next(filter(None, (otel.message, *exceptions, kind)), "failed")


def _collect_metadata(otel: OtelSpan, talk: Conversation, kind: SpanType) -> dict[str, Any]:
    rest = {
        key: value
        for key, value in otel.attributes.items()
        if key not in _TAKEN and key not in talk.taken and not key.startswith(_DOCUMENTS)
    }
    if kind == "generation":
        rest |= conversation_metadata(talk.asked, talk.answered)
    if kind == "retrieval" and (documents := _list_documents(otel)):
        rest["documents"] = documents
    return rest
