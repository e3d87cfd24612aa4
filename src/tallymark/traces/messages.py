"""Chat messages in the shapes that instrumentations and logs write them.

Known are OpenAI's messages, Anthropic's content blocks, the parts of OpenTelemetry's GenAI
conventions, OpenInference's nested messages, and Inspect's. All become `ChatMessage`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tallymark.errors import TraceError
from tallymark.traces.plain import compact, decode, items, label, mapping, text

_CALLS = ("tool_call", "tool_use", "function_call")
_RESULTS = ("tool_call_response", "tool_result", "function_call_output")
_TEXTS = ("text", "input_text", "output_text")
_SILENT = (
    *("reasoning", "thinking", "redacted_thinking", "refusal", "data"),
    *("image", "image_url", "input_image", "audio", "input_audio", "video", "document"),
    *("file", "input_file", "blob", "uri", "media"),
)
_KINDS = _CALLS + _RESULTS + _TEXTS + _SILENT

_ROLES = {"human": "user", "ai": "assistant", "model": "assistant"}


class Call(NamedTuple):
    """A model's request to call a tool."""

    id: str | None
    name: str
    arguments: str
    """As JSON text."""


class Result(NamedTuple):
    """What a tool answered, as told to the model."""

    id: str | None
    text: str


class Message(NamedTuple):
    """One turn of a conversation; reasoning and media are left out."""

    role: str
    text: str = ""
    calls: tuple[Call, ...] = ()
    results: tuple[Result, ...] = ()

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


def parse(value: Any, role: str = "user") -> list[Message]:
    """The messages in a value: a list, one message, JSON text of either, or plain text."""
    value = unpacked(value)
    if isinstance(value, dict) and isinstance(value.get("messages"), list):
        value = value["messages"]
    if isinstance(value, list):
        return [_message(each, role) for each in value]
    return [_message(value, role)] if value else []


def unpacked(value: Any) -> Any:
    """JSON text as its value, when it is an object or array; everything else as it is."""
    if not isinstance(value, str) or not value.lstrip().startswith(("{", "[")):
        return value
    try:
        return decode(value.encode("utf-8", "replace"))
    except TraceError:
        return value


def last_text(messages: list[Message], role: str) -> str:
    """The last text that someone of this role said."""
    return next((each.text for each in reversed(messages) if each.role == role and each.text), "")


def said_metadata(asked: list[Message], answered: list[Message]) -> dict[str, Any]:
    """What a model call keeps of its conversation: all that it was told, if that is more than
    one message, and the tool calls it asked for.
    """
    kept: dict[str, Any] = {}
    if len(asked) > 1:
        kept["messages"] = [message.to_dict() for message in asked]
    if calls := [call._asdict() for message in answered for call in message.calls]:
        kept["tool_calls"] = calls
    return kept


def _message(value: Any, role: str) -> Message:
    if not isinstance(value, dict):
        return Message(role, text(value))
    if isinstance(value.get("message"), dict):
        value = {**value, **value["message"]}
    role = label(value.get("role")) or role
    role = _ROLES.get(role, role)
    content = next((value[key] for key in ("parts", "content", "contents") if value.get(key)), None)
    if value.get("type") in _CALLS + _RESULTS:  # OpenAI's responses list calls among messages
        content = [value]
    said, calls, results = _content(content)
    calls += [call for each in items(unpacked(value.get("tool_calls"))) if (call := _call(each))]
    if role == "tool" and not results:
        return Message(role, results=(Result(_first(value, "tool_call_id", "id"), said),))
    return Message(role, said, tuple(calls), tuple(results))


def _content(content: Any) -> tuple[str, list[Call], list[Result]]:
    """The text, tool calls and tool results in a message's content."""
    parts = _parts(unpacked(content))
    if parts is None:
        return text(content), [], []
    texts: list[str] = []
    calls: list[Call] = []
    results: list[Result] = []
    for part in parts:
        if part["type"] in _TEXTS:
            texts.append(text(part.get("text") or part.get("content")))
        elif part["type"] in _CALLS:
            calls += filter(None, [_call(part)])
        elif part["type"] in _RESULTS:
            results.append(_result(part))
    return "\n".join(filter(None, texts)), calls, results


def _parts(content: Any) -> list[dict[str, Any]] | None:
    """The typed parts of a content; None when it is something else, such as a JSON answer."""
    listed = content if isinstance(content, list) else [content]
    if not any(isinstance(each, dict) for each in listed):
        return None
    parts = [
        {"type": "text", "text": each}
        if isinstance(each, str)
        else mapping(mapping(each).get("message_content")) or mapping(each)
        for each in listed
    ]
    return parts if all(part.get("type") in _KINDS for part in parts) else None


def _call(value: Any) -> Call | None:
    value = mapping(value)
    value = mapping(value.get("tool_call")) or value
    function = value.get("function")
    inner = function if isinstance(function, dict) else value
    name = label(function) or label(inner.get("name"))
    if name is None:
        return None
    arguments = next((inner[key] for key in ("arguments", "input", "args") if key in inner), None)
    shown = arguments if isinstance(arguments, str) else compact(arguments or {})
    return Call(_first(value, "call_id", "id"), name, shown)


def _result(part: dict[str, Any]) -> Result:
    answer = next(
        (part[key] for key in ("response", "result", "content", "output") if key in part), None
    )
    return Result(_first(part, "tool_use_id", "tool_call_id", "call_id", "id"), _content(answer)[0])


def _first(value: dict[str, Any], *keys: str) -> str | None:
    return next((found for key in keys if (found := label(value.get(key)))), None)
