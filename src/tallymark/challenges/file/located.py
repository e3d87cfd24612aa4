"""Where the keys of a file stand, for mistakes that are found after reading it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from tallymark.challenges.file.plain import SectionReader
from tallymark.errors import InvalidInput, Place, Problem
from tallymark.suites.file.formula_text import moved
from tallymark.suites.file.nodes import Mapping, Node, Scalar

Path = tuple[str, ...]


class Located:
    """Reports mistakes at the key, or at the nearest key above it that is there."""

    def __init__(self, root: Node, reader: SectionReader) -> None:
        self.root = root
        self.reader = reader

    def node(self, path: Path) -> Node | None:
        """What stands under the keys; None when it is not there."""
        node: Node | None = self.root
        for key in path:
            node = node.get(key) if isinstance(node, Mapping) else None
        return node

    def place(self, path: Path) -> Place:
        """Of the last of the keys that is there."""
        node, found = self.root, self.root
        for key in path:
            entry = node.entries.get(key) if isinstance(node, Mapping) else None
            if entry is None:
                break
            found, node = entry
        length = found.length if isinstance(found, Scalar) else 1
        return self.reader.source.place(found.line, found.column, length)

    def wrong(self, path: Path, message: str, hint: str | None = None) -> None:
        """Keep a mistake that has no place yet."""
        self.report(path, Problem(message, hint=hint))

    def report(self, path: Path, problem: Problem) -> None:
        """Keep a mistake, with the keys that lead there."""
        where = f"{', '.join(path)}: " if path else ""
        self.reader.report(Problem(where + problem.message, self.place(path), problem.hint))

    def within(self, path: Path, place: Place | None) -> Place:
        """A place in the text that stands under the keys, as a place in the file."""
        node = self.node(path)
        if not isinstance(node, Scalar):
            return self.place(path)
        return moved(place, node, self.reader.source)

    def named(self, key: str, path: Path = ()) -> Iterator[tuple[Path, str]]:
        """Every text under a key of this name, at any depth below the path."""
        node = self.node(path)
        if isinstance(node, Mapping):
            for each, (_, value) in node.entries.items():
                if each == key and isinstance(value, Scalar):
                    yield (*path, each), value.text
                yield from self.named(key, (*path, each))

    def sound(self, *sections: str) -> bool:
        """True when all of these sections were read without a mistake."""
        return self.reader.troubled.isdisjoint(sections)

    def report_errors_of(
        self, path: Path, act: Callable[[], object], keys: Iterable[str] = ()
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
