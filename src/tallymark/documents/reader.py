"""Reading nodes and files into plain data, while every mistake is kept with its place."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallymark.documents.nodes import MappingNode, Node, ScalarNode, SequenceNode
from tallymark.documents.source import Source, read_source
from tallymark.documents.yaml_parser import parse_yaml, scalar_value
from tallymark.errors import InvalidInput, Problem, suggest
from tallymark.text import shorten

if TYPE_CHECKING:
    from tallymark.documents.shapes import Shape

MAX_PROBLEMS = 100
MISSING: Any = object()
"""Stands for a value that was refused."""


class Reader:
    """Reads nodes, and keeps every mistake with its place and the keys that lead there."""

    def __init__(self, source: Source, problems: Iterable[Problem] = ()) -> None:
        self.source = source
        self.problems = list(problems)
        self.mistakes = len(self.problems)
        """How many there are, those included that are too many to tell."""
        self.path: list[str] = []

    def read(self, key: str, shape: Shape, node: Node, at: ScalarNode | None = None) -> Any:
        """Read what lies under a key; `at` is where the key stands."""
        # An empty value has no place of its own: it is shown at its key.
        if at is not None and isinstance(node, ScalarNode) and not node.text and not node.style:
            node.line, node.column = at.line, at.column
            node.end_line, node.end_column = at.end_line, at.end_column
        self.path.append(key)
        value = shape.read(node, self)
        self.path.pop()
        return value

    def wrong(self, node: Node, message: str, hint: str | None = None) -> Any:
        """Keep a mistake; gives MISSING, for the value that is not there."""
        length = node.length if isinstance(node, ScalarNode) else 1
        where = f"{', '.join(self.path)}: " if self.path else ""
        place = self.source.place(node.line, node.column, length)
        self.report(Problem(where + message, place, hint))
        return MISSING

    def report(self, problem: Problem) -> None:
        """Keep a mistake that has its place already."""
        self.mistakes += 1
        if not self.full:
            self.problems.append(problem)

    @property
    def full(self) -> bool:
        """True when more mistakes were found than anybody reads."""
        # More than are told: they are found section by section, and the first in the file count.
        return len(self.problems) >= 10 * MAX_PROBLEMS

    def check(self) -> None:
        """Raise everything that was found, in the order of the file."""
        if not self.problems:
            return
        ordered = sorted(self.problems, key=_position)
        more = self.mistakes - MAX_PROBLEMS
        if more > 0:
            ordered[MAX_PROBLEMS:] = [Problem(f"and {more} more mistakes")]
        raise InvalidInput(ordered)


def _position(problem: Problem) -> tuple[int, int]:
    place = problem.place
    return (0, 0) if place is None else (place.line or 0, place.column or 0)


def describe_node(node: Node) -> str:
    """What a node is, in words."""
    if isinstance(node, MappingNode):
        return "this is a mapping"
    if isinstance(node, SequenceNode):
        return "this is a list"
    assert isinstance(node, ScalarNode)  # noqa: S101 (there are three kinds of nodes)
    value = scalar_value(node.text, node.style, node.tag)
    shown = shorten(node.text, 40)
    if value is None:
        return "nothing is written here"
    if isinstance(value, bool):
        return f"{shown} is a truth value"
    return f"{shown} is a number" if isinstance(value, int | float) else f"'{shown}' is text"


def to_plain(node: Node, reader: Reader) -> Any:
    """Any node as plain data that JSON can hold."""
    if isinstance(node, MappingNode):
        return {key: to_plain(value, reader) for key, (_, value) in node.entries.items()}
    if isinstance(node, SequenceNode):
        return [to_plain(item, reader) for item in node.items]
    assert isinstance(node, ScalarNode)  # noqa: S101 (there are three kinds of nodes)
    value = scalar_value(node.text, node.style, node.tag)
    if isinstance(value, float) and not math.isfinite(value):
        return reader.wrong(node, f"{node.text} is not a finite number")
    return value


def report_unknown_key(at: ScalarNode, known: Iterable[str], reader: Reader) -> None:
    """Report a key that is in no table, with the nearest one that is."""
    keys = list(known)
    # A file with a million wrong keys would spend its time on hints that nobody sees.
    near = None if reader.full else suggest(at.text.replace("-", "_"), keys)
    hint = f"did you mean '{near}'?" if near else f"the keys here are {', '.join(keys)}"
    reader.wrong(at, f"unknown key '{shorten(at.text, 40)}'", hint)


def read_plain(path: Path, holds: str) -> Any:
    """What a file says, as JSON has it; `holds` is what messages call it."""
    root, reader = read_nodes(path, holds)
    value = to_plain(root, reader)
    reader.check()
    return value


class SectionReader(Reader):
    """Knows which sections have a mistake, so that nothing is said about what they lack."""

    def __init__(self, source: Source, problems: Iterable[Problem] = ()) -> None:
        super().__init__(source, problems)
        self.troubled: set[str] = set()
        """The first keys that lead to mistakes; "" for those of the file's own mapping."""

    def wrong(self, node: Node, message: str, hint: str | None = None) -> Any:
        self.troubled.add(self.path[0] if self.path else "")
        return super().wrong(node, message, hint)


def read_nodes(path: Path, holds: str) -> tuple[Node, SectionReader]:
    """The nodes of a file, and the reader that keeps its mistakes."""
    source = read_source(path)
    if path.suffix == ".json":  # YAML has no tabs between tokens, and JSON has none in its texts
        source = Source(source.text.replace("\t", " "), source.name, source.folder)
    root, problems = parse_yaml(source, holds)
    if root is None:
        raise InvalidInput(f"{path} is empty")
    return root, SectionReader(source, problems)
