"""The shape of `checks:` a list, or a mapping, of checks that must all pass, `or:` among them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tallymark.suites.checks.check import CheckSpec
from tallymark.suites.checks.table import CHECK_TYPES
from tallymark.suites.file.nodes import Mapping, Node, Scalar, Sequence
from tallymark.suites.file.reader import Reader, unknown_key
from tallymark.suites.file.shapes import Shape

if TYPE_CHECKING:
    from collections.abc import Iterator

_KINDS = (*CHECK_TYPES, "or")
_OR_HELP = "Alternatives, of which at least one must pass."


class CheckList(Shape):
    """Gives a list of `CheckSpec`s; a mapping stands for its checks, all of which must pass."""

    def words(self) -> str:
        return 'a list of checks, such as - match: "*4*"'

    def read(self, node: Node, reader: Reader) -> Any:
        if isinstance(node, Mapping):
            return list(_checks(node, reader))
        if not isinstance(node, Sequence):
            return self.refuse(node, reader)
        return [spec for specs in _items(node, reader) for spec in specs]

    def schema(self) -> dict[str, Any]:
        return {"$ref": "#/$defs/checks"}


def checks_schema() -> dict[str, Any]:
    """What `#/$defs` holds: lists and mappings refer to each other."""
    properties: dict[str, Any] = {}
    for kind, each in CHECK_TYPES.items():
        shape = each.shape.schema()
        if each.many:
            shape = {"anyOf": [shape, {"type": "array", "items": shape, "minItems": 1}]}
        properties[kind] = shape | {"description": each.help}
    check = {"$ref": "#/$defs/check"}
    alternatives = {"type": "array", "items": check, "minItems": 1, "description": _OR_HELP}
    return {
        "checks": {"anyOf": [{"type": "array", "items": check}, check]},
        "check": {
            "type": "object",
            "properties": properties | {"or": alternatives},
            "patternProperties": {"^x-": {}},
            "additionalProperties": False,
            "anyOf": [{"required": [kind]} for kind in _KINDS],
        },
    }


def _items(node: Sequence, reader: Reader) -> Iterator[list[CheckSpec]]:
    for number, item in enumerate(node.items, start=1):
        reader.path.append(f"#{number}")
        if isinstance(item, Mapping):
            yield list(_checks(item, reader))
        else:
            what = item.text if isinstance(item, Scalar) else ""
            hint = f'write - match: "*{what}*", or another check' if what else None
            reader.wrong(item, "expected a check", hint)
        reader.path.pop()


def _checks(node: Mapping, reader: Reader) -> Iterator[CheckSpec]:
    """The checks of one mapping, most often a single one."""
    known = False
    for key, (at, value) in node.entries.items():
        known = known or not key.startswith("x-")
        if key == "or":
            yield from reader.read(key, _ALTERNATIVES, value)
        elif key in CHECK_TYPES:
            reader.path.append(key)
            yield from _specs(key, at, value, reader)
            reader.path.pop()
        elif not key.startswith("x-"):
            unknown_key(at, _KINDS, reader)
    if not known:
        reader.wrong(node, "expected a check", f"the checks are {', '.join(_KINDS)}")


def _specs(kind: str, at: Scalar, value: Node, reader: Reader) -> Iterator[CheckSpec]:
    shape = CHECK_TYPES[kind].shape
    several = CHECK_TYPES[kind].many and isinstance(value, Sequence)
    if several and not value.items:  # type: ignore[attr-defined]
        reader.wrong(value, "the list is empty")
    for each in value.items if several else [value]:  # type: ignore[attr-defined]
        if isinstance(each, Scalar) and not each.text and not each.style:
            each.line, each.column, each.end_line = at.line, at.column, 0
        mistakes = reader.mistakes
        config = shape.read(each, reader)
        if reader.mistakes == mistakes:
            yield CheckSpec(kind, config, line=each.line, column=each.column)


class _Alternatives(Shape):
    def read(self, node: Node, reader: Reader) -> Any:
        if not isinstance(node, Sequence) or not node.items:
            reader.wrong(node, "expected a list of checks, one of which must pass")
            return []
        parts = [
            specs[0] if len(specs) == 1 else CheckSpec("all", parts=tuple(specs))
            for specs in _items(node, reader)
            if specs
        ]
        return [CheckSpec("or", parts=tuple(parts), line=node.line, column=node.column)]


_ALTERNATIVES = _Alternatives()
