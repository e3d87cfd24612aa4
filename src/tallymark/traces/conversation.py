"""What was said around a model call, from the attributes and events of an OpenTelemetry span."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from tallymark.traces.messages import Message, parse, unpacked
from tallymark.traces.plain import items, label, mapping

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_ASKED = ("gen_ai.input.messages", "gen_ai.prompt")
_ANSWERED = ("gen_ai.output.messages", "gen_ai.completion")
_ASKED_INDEXED = ("gen_ai.prompt", "llm.input_messages")
_ANSWERED_INDEXED = ("gen_ai.completion", "llm.output_messages")
_WHOLE = ("pydantic_ai.all_messages", "all_messages_events")
_SYSTEM = "gen_ai.system_instructions"
_TAKEN = frozenset(
    (*_ASKED, *_ANSWERED, *_WHOLE, _SYSTEM, "events", "request_data", "response_data")
)
_INDEXED = tuple(f"{name}." for name in _ASKED_INDEXED + _ANSWERED_INDEXED)
_DETAILS = "gen_ai.client.inference.operation.details"


class Conversation(NamedTuple):
    """The messages that went in, the ones that came out, and the attributes they came from."""

    asked: list[Message]
    answered: list[Message]
    taken: frozenset[str]


def conversation(
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
    asked = _from_attributes(said, _ASKED, _ASKED_INDEXED, "user")
    answered = _from_attributes(said, _ANSWERED, _ANSWERED_INDEXED, "assistant")
    if not asked or not answered:
        told, replied = _from_events(events) or _from_bodies(said)
        asked, answered = asked or told, answered or replied
    if system := parse(said.get(_SYSTEM)):
        asked = [Message("system", "\n".join(each.text for each in system if each.text)), *asked]
    return Conversation(asked, answered, frozenset(said))


def unflattened(attributes: Mapping[str, Any], name: str) -> list[Any]:
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
    return items(_listed(tree))


def _listed(node: Any) -> Any:
    """Mappings whose keys are all indices as lists, at every depth."""
    if not isinstance(node, dict):
        return node
    if node and all(key.isascii() and key.isdigit() for key in node):
        # By number, but without int(), which refuses the thousands of digits of a hostile index.
        return [_listed(node[key]) for key in sorted(node, key=lambda key: (len(key), key))]
    return {key: _listed(value) for key, value in node.items()}


def _from_attributes(
    attributes: Mapping[str, Any], whole: tuple[str, ...], indexed: tuple[str, ...], role: str
) -> list[Message]:
    for name in indexed:
        if found := parse(unflattened(attributes, name), role):
            return found
    for name in whole:
        if found := parse(attributes.get(name), role):
            return found
    return []


def _from_events(
    events: Iterable[tuple[str, Mapping[str, Any]]],
) -> tuple[list[Message], list[Message]] | None:
    """Messages as events: `gen_ai.user.message`, `gen_ai.choice`, `gen_ai.content.prompt`..."""
    asked: list[Message] = []
    answered: list[Message] = []
    for name, body in events:
        if name == "gen_ai.content.prompt":
            asked += parse(body.get("gen_ai.prompt"), "user")
        elif name == "gen_ai.content.completion":
            answered += parse(body.get("gen_ai.completion"), "assistant")
        elif name == "gen_ai.choice":
            answered += parse({**body, "message": unpacked(body.get("message"))}, "assistant")
        elif name.startswith("gen_ai.") and name.endswith(".message"):
            asked += parse(dict(body), name.split(".")[1])
    return (asked, answered) if asked or answered else None


def _from_bodies(attributes: Mapping[str, Any]) -> tuple[list[Message], list[Message]]:
    """What pydantic-ai and Logfire keep: lists of events, all messages, request and response."""
    listed = [mapping(each) for each in items(unpacked(attributes.get("events")))]
    found = _from_events((label(each.get("event.name")) or "", each) for each in listed)
    if found is not None:
        return found
    for name in _WHOLE:
        if whole := [_named(each) for each in items(unpacked(attributes.get(name)))]:
            return parse(whole), []
    request = mapping(unpacked(attributes.get("request_data")))
    response = mapping(unpacked(attributes.get("response_data")))
    answer = response.get("message") or response.get("combined_chunk_content")
    return parse(request.get("messages")), parse(answer, "assistant")


def _named(event: Any) -> Any:
    """A message of `all_messages_events`, whose role may stand only in the event's name."""
    name = label(mapping(event).get("event.name"))
    return {"role": name.split(".")[1], **event} if name and name.count(".") > 1 else event
