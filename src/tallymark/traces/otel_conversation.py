"""Messages of a model call, from the attributes and events of an OpenTelemetry span."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from tallymark.traces.chat_messages import ChatMessage, last_text, parse_messages, unpack_json
from tallymark.traces.lenient_json import as_label, as_list, as_mapping

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_ASKED = ("gen_ai.input.messages", "gen_ai.prompt")
ANSWERED = ("gen_ai.output.messages", "gen_ai.completion")
_ASKED_INDEXED = ("gen_ai.prompt", "llm.input_messages")
_ANSWERED_INDEXED = ("gen_ai.completion", "llm.output_messages")
_WHOLE = ("pydantic_ai.all_messages", "all_messages_events")
_SYSTEM = "gen_ai.system_instructions"
_TAKEN = frozenset(
    (*_ASKED, *ANSWERED, *_WHOLE, _SYSTEM, "events", "request_data", "response_data")
)
_INDEXED = tuple(f"{name}." for name in _ASKED_INDEXED + _ANSWERED_INDEXED)
_ANSWERS = frozenset((*ANSWERED, *_WHOLE, "events", "response_data"))
_DETAILS = "gen_ai.client.inference.operation.details"


class Conversation(NamedTuple):
    """The messages that went in, the ones that came out, and the attributes they came from."""

    asked: list[ChatMessage]
    answered: list[ChatMessage]
    taken: frozenset[str]


def read_conversation(
    attributes: Mapping[str, Any], events: Iterable[tuple[str, Mapping[str, Any]]]
) -> Conversation:
    """The messages, from the first place that has any: attributes, events, then request bodies."""
    events = list(events)
    for name, details in events:
        # Newer conventions put the messages on this event, under the names of the attributes.
        if name == _DETAILS:
            attributes = {**attributes, **details}
    said = {k: v for k, v in attributes.items() if k in _TAKEN or k.startswith(_INDEXED)}
    if not said and not events:
        return Conversation([], [], frozenset())
    asked = _read_attributes(said, _ASKED, _ASKED_INDEXED, "user")
    answered = _read_attributes(said, ANSWERED, _ANSWERED_INDEXED, "assistant")
    if not asked or not answered:
        told, replied = _read_events(events) or _read_bodies(said)
        asked, answered = asked or told, answered or replied
    if system := parse_messages(said.get(_SYSTEM)):
        asked = [
            ChatMessage("system", "\n".join(each.text for each in system if each.text)),
            *asked,
        ]
    return Conversation(asked, answered, frozenset(said))


def find_last_question(
    attributes: Mapping[str, Any], events: Iterable[tuple[str, Mapping[str, Any]]]
) -> str:
    """The last text of the user, without reading the rest of a long conversation."""
    if (
        not events
        and _TAKEN.isdisjoint(attributes)
        and not any(name.startswith(_INDEXED) for name in attributes)
    ):
        return ""
    listed = list(_list_messages(attributes, _ASKED, _ASKED_INDEXED))
    if not listed and not events and "events" not in attributes:
        listed = list(_list_messages(attributes, _WHOLE[:1], ()))
    for some in listed:
        for each in reversed(some):
            if isinstance(each, dict) and as_label(each.get("role")) not in (None, "user"):
                continue
            if said := last_text(parse_messages([each]), "user"):
                return said
    return last_text(read_conversation(attributes, events).asked, "user")


def find_first_answer(
    attributes: Mapping[str, Any], events: Iterable[tuple[str, Mapping[str, Any]]]
) -> str:
    """The first text of an answer, without reading the rest."""
    for listed in _list_messages(attributes, ANSWERED, _ANSWERED_INDEXED):
        for each in parse_messages(listed, "assistant"):
            if each.text:
                return each.text
    answered = read_conversation(attributes, events).answered
    return next((each.text for each in answered if each.text), "")


def _list_messages(
    attributes: Mapping[str, Any], whole: tuple[str, ...], indexed: tuple[str, ...]
) -> Iterator[list[Any]]:
    """The messages of one side, not read yet, from every place that has a list of them."""
    for name in indexed:
        if f"{name}.0.role" in attributes or f"{name}.0.message.role" in attributes:
            yield unflatten(attributes, name)
    for name in whole:
        listed = unpack_json(attributes.get(name))
        if isinstance(listed, list) and listed and all(isinstance(each, dict) for each in listed):
            yield listed


def mentions_tools(
    attributes: Mapping[str, Any], events: Iterable[tuple[str, Mapping[str, Any]]]
) -> bool:
    """False if a model certainly requested no tool."""
    if any(_names_tool(name) or _names_tool(body) for name, body in events):
        return True
    return any(
        _names_tool(key) or _names_tool(value)
        for key, value in attributes.items()
        if key in _ANSWERS or key.startswith(_ANSWERED_INDEXED)
    )


def _names_tool(value: Any) -> bool:
    text = value if isinstance(value, str) else str(value)
    return "tool" in text or "function" in text


def unflatten(attributes: Mapping[str, Any], name: str) -> list[Any]:
    """The list behind indexed attributes: `name.0.role`, `name.0.content`, `name.1.role`..."""
    prefix = f"{name}."
    tree: dict[str, Any] = {}
    for key, value in attributes.items():
        if key.startswith(prefix):
            *path, last = key.removeprefix(prefix).split(".")
            node = tree
            for step in path:
                child = node.get(step)
                if not isinstance(child, dict):
                    child = node[step] = {}
                node = child
            node.setdefault(last, value)
    return as_list(_to_lists(tree))


def _to_lists(node: Any) -> Any:
    """Mappings whose keys are all indices as lists, at every depth."""
    if not isinstance(node, dict):
        return node
    if node and all(key.isascii() and key.isdigit() for key in node):
        # By number, but without int(), which refuses the thousands of digits of a hostile index.
        return [_to_lists(node[key]) for key in sorted(node, key=lambda key: (len(key), key))]
    return {key: _to_lists(value) for key, value in node.items()}


def _read_attributes(
    attributes: Mapping[str, Any], whole: tuple[str, ...], indexed: tuple[str, ...], role: str
) -> list[ChatMessage]:
    for name in indexed:
        if found := parse_messages(unflatten(attributes, name), role):
            return found
    for name in whole:
        if found := parse_messages(attributes.get(name), role):
            return found
    return []


def _read_events(
    events: Iterable[tuple[str, Mapping[str, Any]]],
) -> tuple[list[ChatMessage], list[ChatMessage]] | None:
    """Messages as events: `gen_ai.user.message`, `gen_ai.choice`, `gen_ai.content.prompt`..."""
    asked: list[ChatMessage] = []
    answered: list[ChatMessage] = []
    for name, body in events:
        if name == "gen_ai.content.prompt":
            asked += parse_messages(body.get("gen_ai.prompt"), "user")
        elif name == "gen_ai.content.completion":
            answered += parse_messages(body.get("gen_ai.completion"), "assistant")
        elif name == "gen_ai.choice":
            answered += parse_messages(
                {**body, "message": unpack_json(body.get("message"))}, "assistant"
            )
        elif name.startswith("gen_ai.") and name.endswith(".message"):
            asked += parse_messages(dict(body), name.split(".")[1])
    return (asked, answered) if asked or answered else None


def _read_bodies(attributes: Mapping[str, Any]) -> tuple[list[ChatMessage], list[ChatMessage]]:
    """Messages of pydantic-ai and Logfire: lists of events, all messages, request and response."""
    listed = [as_mapping(each) for each in as_list(unpack_json(attributes.get("events")))]
    found = _read_events((as_label(each.get("event.name")) or "", each) for each in listed)
    if found is not None:
        return found
    for name in _WHOLE:
        if whole := [_add_role(each) for each in as_list(unpack_json(attributes.get(name)))]:
            return parse_messages(whole), []
    request = as_mapping(unpack_json(attributes.get("request_data")))
    response = as_mapping(unpack_json(attributes.get("response_data")))
    answer = response.get("message") or response.get("combined_chunk_content")
    return parse_messages(request.get("messages")), parse_messages(answer, "assistant")


def _add_role(event: Any) -> Any:
    """A message of `all_messages_events`, whose role may stand only in the event's name."""
    name = as_label(as_mapping(event).get("event.name"))
    return {"role": name.split(".")[1], **event} if name and name.count(".") > 1 else event
