"""From a YAML text to its nodes, in one pass, and what a plain scalar means.

That is by the core schema of YAML 1.2, so `no`, `on` and `12:30` are text.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import msgspec

from tallymark.documents.yaml_errors import (
    explain_control_character,
    explain_invalid_yaml,
    explain_unknown_alias,
    explain_unquoted_braces,
)
from tallymark.errors import InvalidInput, Problem, WorkFailed

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallymark.documents.source import Source


class Node(msgspec.Struct, eq=False):
    """A part of the file. Line and column count from 1; line 0 means that there is no file."""

    line: int = 0
    column: int = 0
    size: int = 1
    """Number of nodes, this one and all those in it."""


class ScalarNode(Node, eq=False):
    """A text, number or other single value, as it is written."""

    text: str = ""
    style: str = ""
    """A quote, `|`, `>`, or empty for plain."""
    tag: str | None = None
    end_line: int = 0
    end_column: int = 0

    @property
    def length(self) -> int:
        """Number of characters, if it has only one line; otherwise 1."""
        return self.end_column - self.column if self.end_line == self.line else 1


class SequenceNode(Node, eq=False):
    """A list."""

    items: list[Node] = msgspec.field(default_factory=list)


class MappingNode(Node, eq=False):
    """Keys, each with its node, and their values."""

    entries: dict[str, tuple[ScalarNode, Node]] = msgspec.field(default_factory=dict)

    def get(self, key: str) -> Node | None:
        """The value of a key; None when it is not there."""
        entry = self.entries.get(key)
        return None if entry is None else entry[1]


def make_nodes(value: Any) -> Node:
    """Plain data as nodes without places, so that a stored suite is read as a file is."""
    if isinstance(value, dict):
        entries = value.items()
        return MappingNode(
            entries={key: (ScalarNode(text=key, style='"'), make_nodes(v)) for key, v in entries}
        )
    if isinstance(value, list):
        return SequenceNode(items=[make_nodes(each) for each in value])
    if isinstance(value, str):
        return ScalarNode(text=value, style='"')  # in quotes: "5" and "true" stay text
    if isinstance(value, float) and not math.isfinite(value):
        return ScalarNode(text=f"{value:+}".replace("+nan", ".nan").replace("inf", ".inf"))
    words = {None: "null", True: "true", False: "false"}
    plain = words[value] if value is None or isinstance(value, bool) else repr(value)
    return ScalarNode(text=plain)


MAX_LEVELS = 100
MAX_NODES = 2_000_000
"""Aliases count as often as they are used."""
_PREFIX = "tag:yaml.org,2002:"
TAGS = frozenset(_PREFIX + name for name in ("str", "int", "float", "bool", "null", "seq", "map"))
_TEXT_TAGS = ("!", f"{_PREFIX}str")
_NULL = frozenset(("", "~", "null", "Null", "NULL"))
_TRUE = frozenset(("true", "True", "TRUE"))
_FALSE = frozenset(("false", "False", "FALSE"))
_MAY_BE_NUMBER = frozenset("+-.0123456789")
# By https://yaml.org/spec/1.2.2/#103-core-schema. Longer whole numbers are read as floats: Python
# takes quadratic time for them, and refuses those of more than 4,300 digits.
_INT = re.compile(r"[-+]?[0-9]{1,300}|0o[0-7]{1,100}|0x[0-9a-fA-F]{1,100}")
_FLOAT = re.compile(
    r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)"
    r"|\.(?:nan|NaN|NAN)"
)
# The opposite of what YAML calls printable: https://yaml.org/spec/1.2.2/#51-character-set
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
ScalarValue = str | int | float | bool | None


def parse_yaml(source: Source, holds: str = "suite") -> tuple[Node | None, list[Problem]]:
    """The root (None for an empty file), and the mistakes that do not hide the rest.

    `holds` is what messages call the thing that the file describes.
    """
    if odd := _UNPRINTABLE.search(source.text):
        raise InvalidInput([explain_control_character(source, odd)])
    # Takes 20 ms to load, which only those pay who read a file.
    try:
        from yaml.cyaml import CParser  # type: ignore[import-untyped]  # noqa: PLC0415
        from yaml.error import YAMLError  # type: ignore[import-untyped]  # noqa: PLC0415
    except ImportError:
        hint = "install PyYAML from a wheel instead; pip does so with --only-binary pyyaml"
        raise WorkFailed("PyYAML was built without libyaml, which reads YAML", hint=hint) from None
    builder = _NodeBuilder(source, holds)
    try:
        for event in iter(CParser(source.text).get_event, None):
            step = _NodeBuilder.STEPS.get(event.__class__.__name__)
            if step is not None:
                step(builder, event)
    except YAMLError as error:
        raise InvalidInput([explain_invalid_yaml(source, error)]) from None
    return builder.root, builder.problems


class _NodeBuilder:
    """Builds the nodes from libyaml's events, without the library's own tree.

    This preserves positions and keys as text, and limits nesting and aliases, with which a hostile
    file could exhaust memory.
    """

    def __init__(self, source: Source, holds: str) -> None:
        self.source = source
        self.holds = holds
        self.root: Node | None = None
        self.problems: list[Problem] = []
        self._open: list[tuple[SequenceNode | MappingNode, str | None]] = []
        self._keys: list[ScalarNode | None] = []
        self._anchors: dict[str, Node] = {}
        self._merges: list[list[tuple[ScalarNode, Node]]] = []
        self._size = 0
        self._documents = 0

    def _document(self, event: Any) -> None:
        self._documents += 1
        if self._documents > 1:
            message = f"a second document begins here; a file holds one {self.holds}"
            self._stop(event, message, "put it into a file of its own")

    def _scalar(self, event: Any) -> None:
        start, end = event.start_mark, event.end_mark
        node = ScalarNode(
            start.line + 1,
            start.column + 1,
            text=event.value,
            style=event.style or "",
            tag=event.tag,
            end_line=end.line + 1,
            end_column=end.column + 1,
        )
        if event.tag is not None:
            self._check_tag(node, event)
        if event.anchor is not None:
            self._anchors[event.anchor] = node
        self._add(node, event)

    def _begin(self, event: Any) -> None:
        start, mapping = event.start_mark, event.__class__.__name__ == "MappingStartEvent"
        kind = MappingNode if mapping else SequenceNode
        node = kind(start.line + 1, start.column + 1)
        if event.tag is not None:
            self._check_tag(node, event)
        if len(self._open) >= MAX_LEVELS:
            message = f"more than {MAX_LEVELS} levels of nesting"
            self._stop(event, message, f"a {self.holds} needs fewer than ten")
        self._open.append((node, event.anchor))
        self._keys.append(None)
        self._merges.append([])

    def _end(self, event: Any) -> None:
        node, anchor = self._open.pop()
        self._keys.pop()
        merges = self._merges.pop()
        if isinstance(node, MappingNode):  # only now: its own keys win, even after `<<`
            for key, merged in merges:
                self._merge(node, key, merged)
        if anchor is not None:
            self._anchors[anchor] = node
        self._add(node, event)

    def _alias(self, event: Any) -> None:
        node = self._anchors.get(event.anchor)
        if node is not None:
            # The node is shared, but a walk of the tree meets it again with all that is in it.
            self._add(node, event, node.size)
            return
        if any(anchor == event.anchor for _, anchor in self._open):
            self._stop(event, f"'*{event.anchor}' refers to the node that it is in")
        start = event.start_mark
        self.problems.append(explain_unknown_alias(self.source, start, event.anchor))
        # Most likely a pattern without its quotes: read it as that text, and look at the rest.
        text = f"*{event.anchor}"
        self._add(ScalarNode(start.line + 1, start.column + 1, text=text, style="'"), event)

    def _add(self, node: Node, event: Any, size: int = 1) -> None:
        """Add a finished node to its parent."""
        self._size += size
        if self._size > MAX_NODES:
            message = f"the file has more than {MAX_NODES:,} values, aliases counted as written out"
            hint = "keep many cases in a dataset: cases_from" if self.holds == "suite" else None
            self._stop(event, message, hint)
        if not self._open:
            self.root = node
            return
        parent = self._open[-1][0]
        parent.size += node.size
        if isinstance(parent, SequenceNode):
            parent.items.append(node)
        elif (key := self._keys[-1]) is None:
            if not isinstance(node, ScalarNode):
                problem = explain_unquoted_braces(self.source, node.line, node.column)
                self.problems.append(problem)
                node = ScalarNode(node.line, node.column, text="x-")  # such keys are ignored
            self._keys[-1] = node
        else:
            if key.text == "<<" and key.style == "":
                self._merges[-1].append((key, node))
            elif key.text in parent.entries:
                self._put_again(parent, key, node)
            else:
                parent.entries[key.text] = (key, node)
            self._keys[-1] = None

    def _put_again(self, parent: MappingNode, key: ScalarNode, node: Node) -> None:
        # Keys that could not be read are all called `x-`, and that was reported already.
        if key.text.startswith("x-"):
            parent.entries[key.text] = (key, node)
            return
        first = parent.entries[key.text][0]
        message = f"the key '{key.text}' is here twice: first on line {first.line}"
        place = self.source.place(key.line, key.column, key.length)
        self.problems.append(Problem(message, place, "delete or rename one of them"))

    def _merge(self, into: MappingNode, key: ScalarNode, merged: Node) -> None:
        """`<<: *defaults`: the keys that are not there already."""
        for node in merged.items if isinstance(merged, SequenceNode) else [merged]:
            if not isinstance(node, MappingNode):
                place = self.source.place(key.line, key.column, 2)
                self.problems.append(Problem("'<<' needs a mapping, such as *defaults", place))
                return
            for name, entry in node.entries.items():
                into.entries.setdefault(name, entry)

    def _check_tag(self, node: Node, event: Any) -> None:
        tag = str(event.tag)
        if tag != "!" and tag not in TAGS:
            start = event.start_mark
            shown = tag.replace("tag:yaml.org,2002:", "!!")
            place = self.source.place(start.line + 1, start.column + 1, len(shown))
            hint = "put text that starts with '!' in quotes"
            self.problems.append(Problem(f"the tag {shown} is not known here", place, hint))
            if isinstance(node, ScalarNode):
                node.tag = None

    def _stop(self, event: Any, message: str, hint: str | None = None) -> NoReturn:
        start = event.start_mark
        place = self.source.place(start.line + 1, start.column + 1)
        raise InvalidInput([*self.problems, Problem(message, place, hint)])

    STEPS: ClassVar[dict[str, Callable[[_NodeBuilder, Any], None]]] = {
        "DocumentStartEvent": _document,
        "ScalarEvent": _scalar,
        "SequenceStartEvent": _begin,
        "SequenceEndEvent": _end,
        "MappingStartEvent": _begin,
        "MappingEndEvent": _end,
        "AliasEvent": _alias,
    }


def scalar_value(text: str, style: str, tag: str | None) -> ScalarValue:
    """The value of a scalar as it is written; one that is quoted or tagged as text is text."""
    if tag in _TEXT_TAGS or (tag is None and style):
        return text
    if text in _NULL:
        return None
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    if text[0] not in _MAY_BE_NUMBER:
        return text
    if _INT.fullmatch(text):
        return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))
    if _FLOAT.fullmatch(text):
        return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
    return text
