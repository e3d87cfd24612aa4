"""Shapes of evaluator options, and options that several evaluators share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tallymark.challenges.challenge_folder import find_name_problem
from tallymark.documents.reader import MISSING, Reader
from tallymark.documents.shapes import (
    DurationShape,
    FlagShape,
    Key,
    ListShape,
    NumberShape,
    Shape,
    TextShape,
)
from tallymark.documents.yaml_parser import Node
from tallymark.errors import suggest

_TEXT = TextShape()


@dataclass(frozen=True)
class FileNameShape(Shape):
    """The name of a file in the challenge's folder, which must be there."""

    may_be_folder: bool = False
    secret: bool = False
    """Competitors must never get it."""
    called = "the name of a file in the challenge's folder"

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
            near = suggest(tidy, sorted(path.name for path in reader.source.folder.iterdir()))
            hint = f"did you mean '{near}'?" if near else "names start at the challenge's folder"
            return reader.wrong(node, f"there is no file '{tidy}'", hint)
        return tidy

    def schema(self) -> dict[str, Any]:
        return _TEXT.schema()


NAMES = ListShape(TextShape("a name"))
METRICS = Key(NAMES, "Names of its own metrics, for formulas.")
"""Every evaluator has it."""
TRUTH = Key(FileNameShape(secret=True), "The file with the truth: JSON or YAML; else a text.")
PASS_AT = Key(
    NumberShape(low=0, high=1000),
    "Without dimensions, the score that an attempt succeeds with.",
    default=1000,
)


def dimension(default: str) -> Key:
    """The option `dimension`."""
    return Key(TextShape(), "The dimension that it scores.", default=default)


def limits(*, time_s: float, memory_mb: int) -> dict[str, Key]:
    """Options of evaluators that run code in the sandbox."""
    memory = NumberShape(low=16, high=64_000, whole=True)
    return {
        "time": Key(DurationShape(), "How long one run may take.", default=time_s),
        "memory": Key(memory, "Megabytes that it may use.", default=memory_mb),
        "packages": Key(
            FlagShape(), "May it import the packages that are installed here?", default=False
        ),
    }
