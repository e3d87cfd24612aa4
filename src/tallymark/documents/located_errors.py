"""Mistakes that are found after reading, at the place of a key, or at one within a text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from tallymark.documents.nodes import MappingNode, Node, ScalarNode
from tallymark.documents.reader import SectionReader
from tallymark.documents.source import Source
from tallymark.errors import InvalidInput, Place, Problem

KeyPath = tuple[str, ...]


class LocatedErrors:
    """Reports mistakes at the key, or at the nearest key above it that is there."""

    def __init__(self, root: Node, reader: SectionReader) -> None:
        self.root = root
        self.reader = reader

    def node(self, path: KeyPath) -> Node | None:
        """What stands under the keys; None when it is not there."""
        node: Node | None = self.root
        for key in path:
            node = node.get(key) if isinstance(node, MappingNode) else None
        return node

    def place(self, path: KeyPath) -> Place:
        """Of the last of the keys that is there."""
        node, found = self.root, self.root
        for key in path:
            entry = node.entries.get(key) if isinstance(node, MappingNode) else None
            if entry is None:
                break
            found, node = entry
        length = found.length if isinstance(found, ScalarNode) else 1
        return self.reader.source.place(found.line, found.column, length)

    def wrong(self, path: KeyPath, message: str, hint: str | None = None) -> None:
        """Keep a mistake that has no place yet."""
        self.report(path, Problem(message, hint=hint))

    def report(self, path: KeyPath, problem: Problem) -> None:
        """Keep a mistake, with the keys that lead there."""
        where = f"{', '.join(path)}: " if path else ""
        self.reader.report(Problem(where + problem.message, self.place(path), problem.hint))

    def within(self, path: KeyPath, place: Place | None) -> Place:
        """A place in the text that stands under the keys, as a place in the file."""
        node = self.node(path)
        if not isinstance(node, ScalarNode):
            return self.place(path)
        return locate_in_source(place, node, self.reader.source)

    def find_texts(self, key: str, path: KeyPath = ()) -> Iterator[tuple[KeyPath, str]]:
        """Every text under a key of this name, at any depth below the path."""
        node = self.node(path)
        if isinstance(node, MappingNode):
            for each, (_, value) in node.entries.items():
                if each == key and isinstance(value, ScalarNode):
                    yield (*path, each), value.text
                yield from self.find_texts(key, (*path, each))

    def is_sound(self, *sections: str) -> bool:
        """True when all of these sections were read without a mistake."""
        return self.reader.troubled.isdisjoint(sections)

    def report_errors_of(
        self, path: KeyPath, act: Callable[[], object], keys: Iterable[str] = ()
    ) -> None:
        """Report what is raised, at the key that the message names if it names one.

        What already has a place in another file keeps it.
        """
        try:
            act()
        except InvalidInput as error:
            for problem in error.problems:
                key = next((key for key in keys if repr(key) in problem.message), None)
                if problem.place is not None and problem.place.source is not None:
                    self.reader.report(problem)
                else:
                    self.report(path if key is None else (*path, key), problem)


def locate_in_source(place: Place | None, written: ScalarNode, source: Source) -> Place:
    """From a place in a formula to the place in the file where that formula is written.

    The beginning of the formula where that cannot be told.
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
