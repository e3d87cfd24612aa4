"""Chat messages in the shapes that instrumentations and logs write them.

Known are OpenAI's messages, Anthropic's content blocks, the parts of OpenTelemetry's GenAI
conventions, OpenInference's nested messages, and Inspect's. All become `ChatMessage`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tallymark.errors import TraceError
from tallymark.traces.lenient_json import as_label, as_list, as_mapping, as_text, compact, decode

_CALLS = ("tool_call", "tool_use", "function_call", "tool-call")
_RESULTS = ("tool_call_response", "tool_result", "function_call_output", "tool-result")
_TEXTS = ("text", "input_text", "output_text")
_SILENT = (
    *("reasoning", "thinking", "redacted_thinking", "refusal", "data"),
    *("image", "image_url", "input_image", "audio", "input_audio", "video", "document"),
    *("file", "input_file", "blob", "uri", "media"),
)
_OF_TOOLS = _CALLS + _RESULTS
_KINDS = _OF_TOOLS + _TEXTS + _SILENT

_HOLDERS = ("messages", "choices", "generations")
_CONTENT = ("parts", "content", "contents", "text")
_LANGCHAIN = ("human", "ai", "system", "tool")
_ROLES = {"human": "user", "ai": "assistant", "model": "assistant"}


class ToolCall(NamedTuple):
    """A model's request to call a tool."""

    id: str | None
    name: str
    arguments: str
    """JSON text."""


class ToolResult(NamedTuple):
    """A tool's answer, as the model received it."""

    id: str | None
    text: str


class ChatMessage(NamedTuple):
    """One turn of a conversation; reasoning and media are left out."""

    role: str
    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    results: tuple[ToolResult, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain data for metadata, without what is empty."""
        plain: dict[str, Any] = {"role": self.role}
        if self.text:
            plain["content"] = self.text
        if self.calls:
            plain["tool_calls"] = [call._asdict() for call in self.calls]
        if self.results:
            plain["tool_results"] = [result._asdict() for result in self.results]
        return plain


def parse_messages(value: Any, role: str = "user") -> list[ChatMessage]:
    """The messages in a value: a list, one message, JSON text of either, or plain text."""
    value = unpack_json(value)
    if isinstance(value, dict):
        # A request with its messages, or a whole response of a model.
        held = (value[key] for key in _HOLDERS if isinstance(value.get(key), list))
        value = next(held, value)
    if isinstance(value, list):
        # LangChain asks for several answers at once, so it has lists of lists.
        listed = [inner for each in value for inner in (each if isinstance(each, list) else [each])]
        return [_read_message(each, role) for each in listed]
    return [_read_message(value, role)] if value else []


def unpack_json(value: Any) -> Any:
    """JSON text as its value, when it is an object or array; everything else as it is."""
    if not isinstance(value, str) or not value.lstrip().startswith(("{", "[")):
        return value
    try:
        return decode(value.encode("utf-8", "replace"))
    except TraceError:
        return value


def last_text(messages: list[ChatMessage], role: str) -> str:
    """The last text of a role."""
    return next((each.text for each in reversed(messages) if each.role == role and each.text), "")


def conversation_metadata(asked: list[ChatMessage], answered: list[ChatMessage]) -> dict[str, Any]:
    """Metadata of a model call: its messages if there are several, and the requested tool calls."""
    kept: dict[str, Any] = {}
    if len(asked) > 1:
        kept["messages"] = [message.to_dict() for message in asked]
    if calls := [call._asdict() for message in answered for call in message.calls]:
        kept["tool_calls"] = calls
    return kept


def _read_message(value: Any, role: str) -> ChatMessage:
    if not isinstance(value, dict):
        return ChatMessage(role, as_text(value))
    if isinstance(value.get("message"), dict):
        value = {**value, **value["message"]}
    if "lc" in value and isinstance(value.get("kwargs"), dict):  # how LangChain writes objects
        value = {**value, **value["kwargs"]}
    kind = as_label(value.get("type"))
    role = as_label(value.get("role")) or (kind if kind in _LANGCHAIN else None) or role
    role = _ROLES.get(role, role)
    content = next((value[key] for key in _CONTENT if value.get(key)), None)
    if value.get("type") in _OF_TOOLS:  # OpenAI's responses list calls among messages
        content = [value]
    said, calls, results = _read_content(content)
    calls += [
        call for each in as_list(unpack_json(value.get("tool_calls"))) if (call := _read_call(each))
    ]
    if role == "tool" and not results:
        return ChatMessage(
            role, results=(ToolResult(_find_first(value, "tool_call_id", "id"), said),)
        )
    return ChatMessage(role, said, tuple(calls), tuple(results))


def _read_content(content: Any) -> tuple[str, list[ToolCall], list[ToolResult]]:
    """The text, tool calls and tool results in a message's content."""
    opened = unpack_json(content)
    if isinstance(opened, str):
        return opened, [], []
    parts = _list_parts(opened)
    if parts is None:
        return as_text(content), [], []
    texts: list[str] = []
    calls: list[ToolCall] = []
    results: list[ToolResult] = []
    for part in parts:
        if part["type"] in _TEXTS:
            texts.append(as_text(part.get("text") or part.get("content")))
        elif part["type"] in _CALLS:
            calls += filter(None, [_read_call(part)])
        elif part["type"] in _RESULTS:
            results.append(_read_result(part))
    return "\n".join(filter(None, texts)), calls, results


def _list_parts(content: Any) -> list[dict[str, Any]] | None:
    """The typed parts of a content; None when it is something else, such as a JSON answer."""
    listed = content if isinstance(content, list) else [content]
    if not any(isinstance(each, dict) for each in listed):
        return None
    parts = [
        {"type": "text", "text": each}
        if isinstance(each, str)
        else as_mapping(as_mapping(each).get("message_content")) or as_mapping(each)
        for each in listed
    ]
    return parts if all(part.get("type") in _KINDS for part in parts) else None


def _read_call(value: Any) -> ToolCall | None:
    value = as_mapping(value)
    value = as_mapping(value.get("tool_call")) or value
    function = value.get("function")
    inner = function if isinstance(function, dict) else value
    name = as_label(function) or as_label(inner.get("name")) or as_label(inner.get("toolName"))
    if name is None:
        return None
    arguments = next((inner[key] for key in ("arguments", "input", "args") if key in inner), None)
    shown = arguments if isinstance(arguments, str) else compact(arguments or {})
    return ToolCall(_find_first(value, "call_id", "id", "toolCallId"), name, shown)


def _read_result(part: dict[str, Any]) -> ToolResult:
    answer = next(
        (part[key] for key in ("response", "result", "content", "output") if key in part), None
    )
    if isinstance(answer, dict) and "value" in answer:  # as Vercel's AI SDK has it
        answer = answer["value"]
    return ToolResult(
        _find_first(part, "tool_use_id", "tool_call_id", "call_id", "id", "toolCallId"),
        _read_content(answer)[0],
    )


def _find_first(value: dict[str, Any], *keys: str) -> str | None:
    return next((found for key in keys if (found := as_label(value.get(key)))), None)
