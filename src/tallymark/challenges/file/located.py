"""Where the keys of a file stand, for mistakes that are found after reading it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from tallymark.challenges.file.plain import SectionReader
from tallymark.errors import InvalidInput, Place, Problem
from tallymark.suites.file.formula_text import locate_in_source
from tallymark.suites.file.nodes import MappingNode, Node, ScalarNode

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
