"""The shape of `checks`: a list, or a mapping, of checks that must all pass, `or` among them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tallymark.documents.reader import Reader, report_unknown_key
from tallymark.documents.shapes import Key, ListShape, RecordShape, Shape, one_or_many
from tallymark.documents.yaml_parser import MappingNode, Node, ScalarNode, SequenceNode
from tallymark.suites.checks.check_definition import CheckSpec
from tallymark.suites.checks.check_types import CHECK_TYPES

if TYPE_CHECKING:
    from collections.abc import Iterator

CHECK_KEYS = (*CHECK_TYPES, "or")
_OR_HELP = "Alternatives, of which at least one must pass."


class CheckShape(Shape):
    """One mapping, most often with a single check; all of them must pass."""

    def schema(self) -> dict[str, Any]:
        checks = {
            kind: Key(one_or_many(each.shape) if each.many else each.shape, each.help)
            for kind, each in CHECK_TYPES.items()
        }
        return {
            **RecordShape("", {**checks, "or": Key(ListShape(CHECK, 1), _OR_HELP)}).schema(),
            "anyOf": [{"required": [kind]} for kind in CHECK_KEYS],
        }


class CheckListShape(Shape):
    """Gives a list of `CheckSpec`s; a mapping stands for its checks, all of which must pass."""

    called = 'a list of checks, such as - match: "*4*"'

    def read(self, node: Node, reader: Reader) -> Any:
        if isinstance(node, MappingNode):
            return list(_read_checks(node, reader))
        if not isinstance(node, SequenceNode):
            return self.refuse(node, reader)
        return [spec for specs in _read_items(node, reader) for spec in specs]

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [ListShape(CHECK), CHECK]}


CHECK = CheckShape()
CHECKS = CheckListShape()


def _read_items(node: SequenceNode, reader: Reader) -> Iterator[list[CheckSpec]]:
    for number, item in enumerate(node.items, start=1):
        reader.path.append(f"#{number}")
        if isinstance(item, MappingNode):
            yield list(_read_checks(item, reader))
        else:
            what = item.text if isinstance(item, ScalarNode) else ""
            hint = f'write - match: "*{what}*", or another check' if what else None
            reader.wrong(item, "expected a check", hint)
        reader.path.pop()


def _read_checks(node: MappingNode, reader: Reader) -> Iterator[CheckSpec]:
    """The checks of one mapping, most often a single one."""
    known = False
    for key, (at, value) in node.entries.items():
        known = known or not key.startswith("x-")
        if key == "or":
            yield from reader.read(key, _ALTERNATIVES, value)
        elif key in CHECK_TYPES:
            reader.path.append(key)
            yield from _read_specs(key, at, value, reader)
            reader.path.pop()
        elif not key.startswith("x-"):
            report_unknown_key(at, CHECK_KEYS, reader)
    if not known:
        reader.wrong(node, "expected a check", f"the checks are {', '.join(CHECK_KEYS)}")


def _read_specs(kind: str, at: ScalarNode, value: Node, reader: Reader) -> Iterator[CheckSpec]:
    shape = CHECK_TYPES[kind].shape
    several = CHECK_TYPES[kind].many and isinstance(value, SequenceNode)
    if several and not value.items:  # type: ignore[attr-defined]
        reader.wrong(value, "the list is empty")
    for each in value.items if several else [value]:  # type: ignore[attr-defined]
        if isinstance(each, ScalarNode) and not each.text and not each.style:
            each.line, each.column, each.end_line = at.line, at.column, 0
        mistakes = reader.mistakes
        config = shape.read(each, reader)
        if reader.mistakes == mistakes:
            yield CheckSpec(kind, config, line=each.line, column=each.column)


class _AlternativesShape(Shape):
    def read(self, node: Node, reader: Reader) -> Any:
        if not isinstance(node, SequenceNode) or not node.items:
            reader.wrong(node, "expected a list of checks, one of which must pass")
            return []
        parts = [
            specs[0] if len(specs) == 1 else CheckSpec("all", parts=tuple(specs))
            for specs in _read_items(node, reader)
            if specs
        ]
        return [CheckSpec("or", parts=tuple(parts), line=node.line, column=node.column)]


_ALTERNATIVES = _AlternativesShape()
