"""The shape of a file's name: the file must lie in the challenge's folder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tallymark.challenges.folder import find_name_problem
from tallymark.errors import suggest
from tallymark.suites.file.nodes import Node
from tallymark.suites.file.reader import MISSING, Reader
from tallymark.suites.file.shapes import Shape, TextShape

_TEXT = TextShape()


@dataclass(frozen=True)
class FileNameShape(Shape):
    """The name of a file in the challenge's folder, which must be there."""

    may_be_folder: bool = False

    def words(self) -> str:
        return "the name of a file in the challenge's folder"

    def read(self, node: Node, reader: Reader) -> Any:
        name = _TEXT.read(node, reader)
        if name is MISSING:
            return MISSING
        tidy = name.rstrip("/") if self.may_be_folder else name
        if (problem := find_name_problem(tidy)) is not None:
            return reader.wrong(node, problem)
        path = reader.source.folder / tidy
        # A link could lead out of the folder, which is all that a published challenge has.
        if path.is_symlink() or not (path.is_file() or (self.may_be_folder and path.is_dir())):
            near = suggest(tidy, _list_beside(reader))
            hint = f"did you mean '{near}'?" if near else "names start at the challenge's folder"
            return reader.wrong(node, f"there is no file '{tidy}'", hint)
        return tidy

    def schema(self) -> dict[str, Any]:
        return _TEXT.schema()


def _list_beside(reader: Reader) -> list[str]:
    return sorted(path.name for path in reader.source.folder.iterdir())
