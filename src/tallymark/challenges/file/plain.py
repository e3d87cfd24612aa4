"""Plain data out of a JSON or YAML file, with the place of every mistake."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tallymark.errors import InvalidInput, Problem
from tallymark.suites.file.nodes import Node
from tallymark.suites.file.parsing import parse_yaml
from tallymark.suites.file.reader import Reader, to_plain
from tallymark.suites.file.source import Source, read_source


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
