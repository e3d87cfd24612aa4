"""Shapes of the values in documents: one table reads files and makes their JSON Schema.

A shape reads a node into plain data, reports every mistake in it, and describes the same as JSON
Schema. A key that is not in the table does not exist, for the reader and for editors.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tallymark.documents.reader import MISSING, Reader, describe_node, report_unknown_key, to_plain
from tallymark.documents.source import Source
from tallymark.documents.yaml_parser import (
    MappingNode,
    Node,
    ScalarNode,
    ScalarValue,
    SequenceNode,
    make_nodes,
    scalar_value,
)
from tallymark.errors import suggest
from tallymark.text import format_digits


def read_scalar(node: Node) -> ScalarValue:
    """The value of a scalar; None, which is also what an empty one has, for any other node."""
    return scalar_value(node.text, node.style, node.tag) if isinstance(node, ScalarNode) else None


class Shape:
    """A kind of value in a document."""

    called: str
    """For messages: `expected a whole number above 0`."""

    def words(self) -> str:
        """Its name in messages, where that differs within its kind."""
        return self.called

    def read(self, node: Node, reader: Reader) -> Any:
        """The value as plain data, or MISSING when it was refused."""
        raise NotImplementedError

    def schema(self) -> dict[str, Any]:
        """Its JSON Schema, in which parts are still shapes and keys."""
        raise NotImplementedError

    def refuse(self, node: Node, reader: Reader) -> Any:
        """Report a value of the wrong kind."""
        hint = None
        if isinstance(self, TextShape) and isinstance(node, ScalarNode) and node.text:
            hint = f'write "{node.text}"'
        return reader.wrong(node, f"expected {self.words()}, but {describe_node(node)}", hint)


@dataclass(frozen=True)
class TextShape(Shape):
    """Text; empty only where that means something."""

    called: str = "text"
    may_be_empty: bool = False
    rules: Mapping[str, Any] = field(default_factory=dict)
    """JSON Schema of the rules that later code checks."""

    def read(self, node: Node, reader: Reader) -> Any:
        if isinstance(node, ScalarNode):
            value = scalar_value(node.text, node.style, node.tag)
            if isinstance(value, str):
                if value.strip() or self.may_be_empty:
                    return value
                return reader.wrong(node, f"expected {self.called}, but it is empty")
        return self.refuse(node, reader)

    def schema(self) -> dict[str, Any]:
        filled = {} if self.may_be_empty else {"pattern": r"\S"}
        return {"type": "string", **filled, **self.rules}


@dataclass(frozen=True)
class NumberShape(Shape):
    """A finite number within bounds."""

    low: float | None = None
    high: float | None = None
    whole: bool = False
    above: float | None = None
    """The value must be more than this."""

    def words(self) -> str:
        what = "a whole number" if self.whole else "a number"
        if self.above is not None:
            return f"{what} above {format_digits(self.above)}"
        if self.low is not None and self.high is not None:
            return f"{what} from {format_digits(self.low)} to {format_digits(self.high)}"
        return what if self.low is None else f"{what}, {format_digits(self.low)} or more"

    def read(self, node: Node, reader: Reader) -> Any:
        value = read_scalar(node)
        # True is an int to Python, and no number to a user.
        if isinstance(value, bool) or not isinstance(value, int if self.whole else int | float):
            return self.refuse(node, reader)
        fits = (
            math.isfinite(value)
            and (self.low is None or value >= self.low)
            and (self.high is None or value <= self.high)
            and (self.above is None or value > self.above)
        )
        if fits:
            return value
        # A number that is not finite is shown as it is written.
        shown = format_digits(value) if math.isfinite(value) else repr(value)
        return reader.wrong(node, f"{shown} is not {self.words()}")

    def schema(self) -> dict[str, Any]:
        bounds = {"minimum": self.low, "maximum": self.high, "exclusiveMinimum": self.above}
        kind = "integer" if self.whole else "number"
        return {"type": kind} | {key: end for key, end in bounds.items() if end is not None}


@dataclass(frozen=True)
class FlagShape(Shape):
    """true or false."""

    called = "true or false"

    def read(self, node: Node, reader: Reader) -> Any:
        value = read_scalar(node)
        return value if isinstance(value, bool) else self.refuse(node, reader)

    def schema(self) -> dict[str, Any]:
        return {"type": "boolean"}


@dataclass(frozen=True)
class ChoiceShape(Shape):
    """One of a few words."""

    options: tuple[str, ...]

    def words(self) -> str:
        return f"one of {', '.join(self.options)}"

    def read(self, node: Node, reader: Reader) -> Any:
        value = read_scalar(node)
        if value in self.options:
            return value
        if not isinstance(value, str):
            return self.refuse(node, reader)
        near = suggest(value, self.options)
        hint = f"did you mean '{near}'?" if near else f"choose from {', '.join(self.options)}"
        return reader.wrong(node, f"'{value[:40]}' is not known here", hint)

    def schema(self) -> dict[str, Any]:
        return {"enum": list(self.options)}


@dataclass(frozen=True)
class AnyShape(Shape):
    """Any data, or any data in one kind of node."""

    kind: type[Node] = Node
    called: str = "data"

    def read(self, node: Node, reader: Reader) -> Any:
        return to_plain(node, reader) if isinstance(node, self.kind) else self.refuse(node, reader)

    def schema(self) -> dict[str, Any]:
        kinds: dict[type[Node], dict[str, Any]] = {
            MappingNode: {"type": "object"},
            ScalarNode: {"type": ["string", "number", "boolean", "null"]},
        }
        return kinds.get(self.kind, {})


@dataclass(frozen=True)
class OrNullShape(Shape):
    """Another shape, or nothing at all."""

    shape: Shape

    def words(self) -> str:
        return f"{self.shape.words()} or null"

    def read(self, node: Node, reader: Reader) -> Any:
        empty = isinstance(node, ScalarNode) and read_scalar(node) is None
        return None if empty else self.shape.read(node, reader)

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [self.shape, {"type": "null"}]}


@dataclass(frozen=True)
class ListShape(Shape):
    """A list of one shape."""

    item: Shape
    at_least: int = 0

    def words(self) -> str:
        return f"a list, each of {self.item.words()}"

    def read(self, node: Node, reader: Reader) -> Any:
        if not isinstance(node, SequenceNode):
            return self.refuse(node, reader)
        if len(node.items) < self.at_least:
            return reader.wrong(node, "the list is empty")
        return [
            reader.read(f"#{number}", self.item, item)
            for number, item in enumerate(node.items, start=1)
        ]

    def schema(self) -> dict[str, Any]:
        least = {"minItems": self.at_least} if self.at_least else {}
        return {"type": "array", "items": self.item} | least


@dataclass(frozen=True)
class MapShape(Shape):
    """A mapping with keys of the user's own."""

    value: Shape

    def words(self) -> str:
        return f"a mapping, each value {self.value.words()}"

    def read(self, node: Node, reader: Reader) -> Any:
        if not isinstance(node, MappingNode):
            return self.refuse(node, reader)
        return {key: reader.read(key, self.value, each) for key, (_, each) in node.entries.items()}

    def schema(self) -> dict[str, Any]:
        return {"type": "object", "additionalProperties": self.value}


@dataclass(frozen=True)
class KindShape(Shape):
    """Different shapes for a scalar, a list and a mapping."""

    scalar: Shape | None = None
    sequence: Shape | None = None
    mapping: Shape | None = None

    @property
    def _shapes(self) -> list[Shape]:
        return [each for each in (self.scalar, self.sequence, self.mapping) if each is not None]

    def words(self) -> str:
        return " or ".join(each.words() for each in self._shapes)

    def read(self, node: Node, reader: Reader) -> Any:
        kinds = {ScalarNode: self.scalar, SequenceNode: self.sequence, MappingNode: self.mapping}
        shape = kinds[type(node)]
        return self.refuse(node, reader) if shape is None else shape.read(node, reader)

    def schema(self) -> dict[str, Any]:
        return {"anyOf": self._shapes}


def one_or_many(item: Shape, at_least: int = 1) -> KindShape:
    """A value, or a list of them."""
    alone = {"scalar": item} if not isinstance(item, RecordShape) else {"mapping": item}
    return KindShape(sequence=ListShape(item, at_least), **alone)


def record_or_short(key: str, called: str, keys: dict[str, Key]) -> KindShape:
    """A mapping, or for short the value of one of its keys."""
    return KindShape(scalar=keys[key].shape, mapping=RecordShape(called, keys))


@dataclass(frozen=True)
class Key:
    """A key of a record: what may stand there, and what it is for."""

    shape: Shape
    help: str
    required: bool = False
    default: Any = None
    """The value without the key; None if there is none, or if it depends."""


@dataclass(frozen=True)
class RecordShape(Shape):
    """A mapping with known keys; keys that start with `x-` are the user's own."""

    called: str
    keys: dict[str, Key]
    also: Callable[[MappingNode, Reader], None] | None = None
    """Reports what is wrong between keys."""
    rules: dict[str, Any] = field(default_factory=dict)
    """JSON Schema of the demands of `also`, as far as a schema can express them."""

    elsewhere: dict[str, str] = field(default_factory=dict)
    """Keys that people write here, with the place where they belong."""
    required: list[str] = field(init=False)
    """The keys that must be there."""

    def __post_init__(self) -> None:
        required = [key for key, known in self.keys.items() if known.required]
        object.__setattr__(self, "required", required)

    def read(self, node: Node, reader: Reader) -> Any:
        if not isinstance(node, MappingNode):
            return self.refuse(node, reader)
        values = {}
        misspelt = False
        for key, (at, each) in node.entries.items():
            known = self.keys.get(key)
            if known is not None:
                value = reader.read(key, known.shape, each, at)
                if value is not MISSING:
                    values[key] = value
            elif not key.startswith("x-"):
                report_unknown_key(at, self.keys, reader, self.elsewhere)
                misspelt = True
        lacking = [key for key in self.required if key not in values]
        if not misspelt:  # else what is missing is most likely there under another name
            for key in lacking:
                if key not in node.entries:
                    reader.wrong(node, f"the key '{key}' is missing")
            if self.also is not None:
                self.also(node, reader)
        return MISSING if lacking else values

    def schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": self.keys,
            "patternProperties": {"^x-": {}},
            "additionalProperties": False,
            **({"required": self.required} if self.required else {}),
            **self.rules,
        }


@dataclass(frozen=True)
class TypedShape(Shape):
    """A mapping with `type` and the options of that type; the type alone where it needs none."""

    names: Iterable[str]
    options: Callable[[str], Mapping[str, Key]]
    """The options of a type by its name; called only for types in use, which may need an import."""
    called = "a mapping with 'type'"

    def read(self, node: Node, reader: Reader) -> Any:
        if isinstance(node, ScalarNode):
            node = MappingNode(node.line, node.column, entries={"type": (node, node)})
        if not isinstance(node, MappingNode):
            return self.refuse(node, reader)
        types, named = ChoiceShape(tuple(self.names)), node.get("type")
        if named is None:
            return reader.wrong(node, "the key 'type' is missing", f"write {types.words()}")
        name = reader.read("type", types, named)
        return MISSING if name is MISSING else self._make_record(name).read(node, reader)

    def schema(self) -> dict[str, Any]:
        records = {name: self._make_record(name) for name in self.names}
        alone = [name for name, each in records.items() if each.required == ["type"]]
        return {"anyOf": [*([{"enum": alone}] if alone else []), *records.values()]}

    def _make_record(self, name: str) -> RecordShape:
        kind = Key(ChoiceShape((name,)), "The other keys are its options.", required=True)
        return RecordShape(
            f"a mapping with the options of {name}", {"type": kind, **self.options(name)}
        )


def read_value(shape: Shape, value: Any, called: str) -> Any:
    """Plain data that came from elsewhere, by a shape; InvalidInput has every mistake in it."""
    reader = Reader(Source("", called), make_nodes(value))
    read = shape.read(reader.root, reader)
    reader.check()
    return read


def make_schema(title: str, shape: Shape, named: Mapping[str, Shape]) -> dict[str, Any]:
    """Make the JSON Schema of a document; the `named` parts stand in its `$defs`."""
    names = {id(each): name for name, each in named.items()}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        **_write_schema(shape.schema(), names),
        "$defs": {name: _write_schema(each.schema(), names) for name, each in named.items()},
    }


def make_inline_schema(shape: Shape) -> dict[str, Any]:
    """Make the JSON Schema of a document that does not contain itself, as one piece."""
    schema: dict[str, Any] = _write_schema(shape, {})
    return schema


def _write_schema(part: Any, names: Mapping[int, str]) -> Any:
    if isinstance(part, Key):
        default = {} if part.default is None else {"default": part.default}
        return {**_write_schema(part.shape, names), "description": part.help, **default}
    if isinstance(part, Shape):
        name = names.get(id(part))
        if name is not None:
            return {"$ref": f"#/$defs/{name}"}
        return _write_schema(part.schema(), names)
    if isinstance(part, dict):
        return {key: _write_schema(each, names) for key, each in part.items()}
    return [_write_schema(each, names) for each in part] if isinstance(part, list) else part


_DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?")
_SECONDS = (86_400, 3_600, 60, 1)


def parse_duration(text: str) -> float | None:
    """The seconds of a text such as 90s, 15m, 1h30m, 2d; None where it is no such text."""
    # The pattern fits nothing at all too.
    parts = _DURATION.fullmatch(text.replace(" ", "")) if text else None
    if parts is None:
        return None
    return sum(float(part or 0) * size for part, size in zip(parts.groups(), _SECONDS, strict=True))


@dataclass(frozen=True)
class DurationShape(Shape):
    """Seconds, or a text such as 90s, 15m, 1h30m, 2d."""

    called = "seconds, or a time such as 15m or 1h30m"

    def read(self, node: Node, reader: Reader) -> Any:
        value = read_scalar(node)
        if isinstance(value, str) and (seconds := parse_duration(value)) is not None:
            value = seconds
        if isinstance(value, bool) or not isinstance(value, int | float):
            return self.refuse(node, reader)
        if not 0 < value <= 366 * _SECONDS[0]:
            return reader.wrong(node, "a time lies above 0, and is at most a year")
        return float(value)

    def schema(self) -> dict[str, Any]:
        return {"type": ["number", "string"]}


@dataclass(frozen=True)
class MomentShape(Shape):
    """A moment as ISO 8601 writes it; without a zone it is UTC."""

    called = "a moment such as 2030-05-01T12:00Z"

    def read(self, node: Node, reader: Reader) -> Any:
        value = read_scalar(node)
        if not isinstance(value, str):
            return self.refuse(node, reader)
        try:
            moment = datetime.fromisoformat(value)
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            return self.refuse(node, reader)

    def schema(self) -> dict[str, Any]:
        return {"type": "string"}
