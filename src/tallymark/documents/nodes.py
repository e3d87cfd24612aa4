"""The parts of a YAML file, which know where they stand."""

from __future__ import annotations

from typing import Any


class Node:
    """A part of the file. Line and column count from 1; line 0 means that there is no file."""

    __slots__ = ("column", "line", "size")

    def __init__(self, line: int = 0, column: int = 0) -> None:
        self.line = line
        self.column = column
        self.size = 1


class ScalarNode(Node):
    """A text, number or other single value, as it is written."""

    __slots__ = ("end_column", "end_line", "style", "tag", "text")

    def __init__(
        self, text: str, style: str = "", tag: str | None = None, line: int = 0, column: int = 0
    ) -> None:
        super().__init__(line, column)
        self.text = text
        self.style = style
        """A quote, `|`, `>`, or empty for plain."""
        self.tag = tag
        self.end_line = line
        self.end_column = column

    @property
    def length(self) -> int:
        """How many characters of its first line it takes, where it has only one."""
        return self.end_column - self.column if self.end_line == self.line else 1


class SequenceNode(Node):
    """A list."""

    __slots__ = ("items",)

    def __init__(self, line: int = 0, column: int = 0) -> None:
        super().__init__(line, column)
        self.items: list[Node] = []


class MappingNode(Node):
    """Keys, each with its node, and their values."""

    __slots__ = ("entries",)

    def __init__(self, line: int = 0, column: int = 0) -> None:
        super().__init__(line, column)
        self.entries: dict[str, tuple[ScalarNode, Node]] = {}

    def get(self, key: str) -> Node | None:
        """The value of a key; None when it is not there."""
        entry = self.entries.get(key)
        return None if entry is None else entry[1]


def make_nodes(value: Any) -> Node:
    """Plain data as nodes without places, so that a stored suite is read as a file is."""
    if isinstance(value, dict):
        mapping = MappingNode()
        mapping.entries = {
            key: (ScalarNode(key, '"'), make_nodes(each)) for key, each in value.items()
        }
        return mapping
    if isinstance(value, list):
        sequence = SequenceNode()
        sequence.items = [make_nodes(each) for each in value]
        return sequence
    if isinstance(value, str):
        return ScalarNode(value, '"')  # in quotes: "5" and "true" stay text
    words = {None: "null", True: "true", False: "false"}
    return ScalarNode(words[value] if value is None or isinstance(value, bool) else repr(value))
