"""Reads documents into plain data and collects every mistake with its place."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallymark.documents.source import Source, read_source
from tallymark.documents.yaml_parser import (
    MappingNode,
    Node,
    ScalarNode,
    SequenceNode,
    parse_yaml,
    scalar_value,
)
from tallymark.errors import InvalidInput, Place, Problem, suggest
from tallymark.text import shorten

if TYPE_CHECKING:
    from tallymark.documents.shapes import Shape


MAX_PROBLEMS = 100
MISSING: Any = object()
"""Stands for a value that was refused."""


class Reader:
    """Reads a document and collects every mistake with its place and the keys that lead there."""

    def __init__(
        self,
        source: Source,
        root: Node | None = None,
        problems: Iterable[Problem] = (),
        warnings: Iterable[Problem] = (),
    ) -> None:
        self.source = source
        self.root = MappingNode() if root is None else root
        self.problems = list(problems)
        self.warnings = tuple(warnings)
        """Problems of text that was read but should be written otherwise."""
        self.mistakes = len(self.problems)
        """Number of mistakes, with those beyond the limit of what is reported."""
        self.path: list[str] = []
        self.troubled: set[str] = set()
        """The first keys that led to mistakes while reading; "" for the document's own mapping."""

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
        self.troubled.add(self.path[0] if self.path else "")
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
        """True when no more mistakes are collected."""
        # More than are reported: they are found by sections, and the first in the file are shown.
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

    def find(self, *keys: str) -> Node | None:
        """The node under the keys; None when it is not there."""
        node: Node | None = self.root
        for key in keys:
            node = node.get(key) if isinstance(node, MappingNode) else None
        return node

    def find_texts(self, key: str, *above: str) -> Iterator[tuple[tuple[str, ...], str]]:
        """Every text under a key of this name, at any depth below others, with all its keys."""
        node = self.find(*above)
        if isinstance(node, MappingNode):
            for each, (_, value) in node.entries.items():
                if each == key and isinstance(value, ScalarNode):
                    yield (*above, each), value.text
                yield from self.find_texts(key, *above, each)

    def place(self, *keys: str) -> Place:
        """The place of the last of the keys that is there."""
        node, found = self.root, self.root
        for key in keys:
            entry = node.entries.get(key) if isinstance(node, MappingNode) else None
            if entry is None:
                break
            found, node = entry
        length = found.length if isinstance(found, ScalarNode) else 1
        return self.source.place(found.line, found.column, length)

    def place_within(self, place: Place | None, *keys: str) -> Place:
        """A place in the text that stands under the keys, as a place in the file."""
        node = self.find(*keys) or self.find(*keys[:-1])
        if isinstance(node, ScalarNode):
            return locate_in_source(place, node, self.source)
        return self.place(*keys)

    def is_sound(self, *sections: str) -> bool:
        """True when all of these sections were read without a mistake."""
        return self.troubled.isdisjoint(sections)

    def wrong_at(self, keys: Iterable[str], message: str, hint: str | None = None) -> None:
        """Keep a mistake that was found after reading, at the nearest key that is there."""
        keys = tuple(keys)
        self.report(Problem(f"{', '.join(keys)}: {message}", self.place(*keys), hint))

    def errors_at(self, *keys: str, named: Iterable[str] = ()) -> AbstractContextManager[None]:
        """Keep what is raised, at these keys, or below them at the `named` one it speaks of."""

        def tell(problem: Problem) -> None:
            below = [key for key in named if repr(key) in problem.message][:1]
            self.wrong_at((*keys, *below), problem.message, problem.hint)

        return self._keep_errors(tell)

    def report_within(self, error: InvalidInput, *keys: str, hint: str | None = None) -> None:
        """Keep what is wrong with the text under these keys, where it stands in that text."""
        for problem in error.problems:
            message = f"{', '.join(keys)}: {problem.message}"
            place = self.place_within(problem.place, *keys)
            self.report(Problem(message, place, problem.hint or hint))

    def errors_of(self, node: Node) -> AbstractContextManager[None]:
        """Keep what is raised, at a node."""
        return self._keep_errors(lambda problem: self.wrong(node, problem.message, problem.hint))

    @contextmanager
    def _keep_errors(self, tell: Callable[[Problem], object]) -> Iterator[None]:
        try:
            yield
        except InvalidInput as error:
            for problem in error.problems:
                # A place in another file stays as it is.
                foreign = problem.place is not None and problem.place.source is not None
                self.report(problem) if foreign else tell(problem)


def _position(problem: Problem) -> tuple[int, int]:
    place = problem.place
    return (0, 0) if place is None else (place.line or 0, place.column or 0)


def describe_node(node: Node) -> str:
    """Describe a node for messages: `shown is a number`, `this is a list`."""
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


def report_unknown_key(
    at: ScalarNode, known: Iterable[str], reader: Reader, elsewhere: Mapping[str, str] | None = None
) -> None:
    """Report a key that is in no table, with the nearest one, or the place it belongs to."""
    keys = list(known)
    if elsewhere is not None and (where := elsewhere.get(at.text)) is not None:
        reader.wrong(at, f"unknown key '{at.text}'", f"write it as {where}")
        return
    # A file with a million wrong keys would spend its time on hints that are never shown.
    near = None if reader.full else suggest(at.text.replace("-", "_"), keys)
    hint = f"did you mean '{near}'?" if near else f"the keys here are {', '.join(keys)}"
    reader.wrong(at, f"unknown key '{shorten(at.text, 40)}'", hint)


def open_document(given: Path | Source, holds: str) -> Reader:
    """A reader of a file or a text; `holds` is what messages call the thing that it describes."""
    source = given if isinstance(given, Source) else read_source(given)
    if (source.name or "").endswith(".json"):
        # YAML has no tabs between tokens, and JSON has none in its texts.
        source = Source(source.text.replace("\t", " "), source.name, source.folder)
    warnings = list[Problem]()
    try:
        root, problems = parse_yaml(source, holds)
    except InvalidInput as error:
        if holds != "suite":
            raise
        root, problems = None, list(error.problems)
    if problems and holds == "suite":
        # Rare, and so it is loaded only now.
        from tallymark.documents.unquoted_texts import read_unquoted  # noqa: PLC0415

        root, problems, warnings = read_unquoted(source, holds)
    if root is None:
        raise InvalidInput("the file is empty", place=source.place(0))
    return Reader(source, root, problems, warnings)


def read_plain(path: Path, holds: str) -> Any:
    """The content of a file as JSON values."""
    reader = open_document(path, holds)
    value = to_plain(reader.root, reader)
    reader.check()
    return value


def locate_in_source(place: Place | None, written: ScalarNode, source: Source) -> Place:
    """Convert a place in a formula to the place in the file in which the formula is written.

    Gives the beginning of the formula where the place cannot be found.
    """
    start = source.place(written.line, written.column, written.length)
    if place is None or place.line is None or place.column is None:
        return start
    lines = written.text.split("\n")
    offset = sum(len(line) + 1 for line in lines[: place.line - 1]) + place.column - 1
    for at, piece, line, column in _split_pieces(written, source):
        if at <= offset <= at + len(piece):
            return source.place(line, column + offset - at, place.length)
    return start


def _split_pieces(written: ScalarNode, source: Source) -> Iterator[tuple[int, str, int, int]]:
    """The formula line by line as it is written: offset in the formula, text, line, column."""
    quote = 1 if written.style in ("'", '"') else 0
    block = written.style in ("|", ">")
    at = 0
    for line in range(written.line + block, written.end_line + 1):
        text = source.line(line)
        if not block and line == written.end_line:
            text = text[: written.end_column - 1 - quote]
        skipped = written.column - 1 + quote if line == written.line else 0
        piece = text[skipped:].strip()
        found = written.text.find(piece, at)
        if not piece or found < 0:
            continue  # an empty line, or one with escapes in it
        yield found, piece, line, text.index(piece, skipped) + 1
        at = found + len(piece)
