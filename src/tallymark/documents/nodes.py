"""The parts of a YAML file, which know where they stand."""

from __future__ import annotations

import math
from typing import Any

import msgspec


class Node(msgspec.Struct, eq=False):
    """A part of the file. Line and column count from 1; line 0 means that there is no file."""

    line: int = 0
    column: int = 0
    size: int = 1
    """How many nodes it is, with those in it."""


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
        """How many characters of its first line it takes, where it has only one."""
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
