"""What may stand in a challenge file besides the shapes of suites: choices, files and times."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tallymark.challenges.folder import wrong_name
from tallymark.errors import nearest
from tallymark.suites.file.nodes import Node, Scalar
from tallymark.suites.file.reader import MISSING, Reader
from tallymark.suites.file.scalars import scalar_value
from tallymark.suites.file.shapes import Shape, Text

_DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?")
_SECONDS = (86_400, 3_600, 60, 1)
_TEXT = Text()


def _value(node: Node) -> Any:
    return scalar_value(node.text, node.style, node.tag) if isinstance(node, Scalar) else None


@dataclass(frozen=True)
class Choice(Shape):
    """One of a few words."""

    options: tuple[str, ...]

    def words(self) -> str:
        return f"one of {', '.join(self.options)}"

    def read(self, node: Node, reader: Reader) -> Any:
        value = _value(node)
        if value in self.options:
            return value
        if not isinstance(value, str):
            return self.refuse(node, reader)
        near = nearest(value, self.options)
        hint = f"did you mean '{near}'?" if near else f"choose from {', '.join(self.options)}"
        return reader.wrong(node, f"'{value[:40]}' is not known here", hint)

    def schema(self) -> dict[str, Any]:
        return {"enum": list(self.options)}


@dataclass(frozen=True)
class FileName(Shape):
    """The name of a file in the challenge's folder, which must be there."""

    may_be_folder: bool = False

    def words(self) -> str:
        return "the name of a file in the challenge's folder"

    def read(self, node: Node, reader: Reader) -> Any:
        name = _TEXT.read(node, reader)
        if name is MISSING:
            return MISSING
        tidy = name.rstrip("/") if self.may_be_folder else name
        if (problem := wrong_name(tidy)) is not None:
            return reader.wrong(node, problem)
        path = reader.source.folder / tidy
        if path.is_symlink() or not (path.is_file() or (self.may_be_folder and path.is_dir())):
            near = nearest(tidy, _beside(reader))
            hint = f"did you mean '{near}'?" if near else "names start at the challenge's folder"
            return reader.wrong(node, f"there is no file '{tidy}'", hint)
        return tidy

    def schema(self) -> dict[str, Any]:
        return _TEXT.schema()


def _beside(reader: Reader) -> list[str]:
    return sorted(path.name for path in reader.source.folder.iterdir())


@dataclass(frozen=True)
class Duration(Shape):
    """Seconds, or a text such as 90s, 15m, 1h30m, 2d."""

    def words(self) -> str:
        return "seconds, or a time such as 15m or 1h30m"

    def read(self, node: Node, reader: Reader) -> Any:
        value = _value(node)
        if (
            isinstance(value, str)
            and value
            and (parts := _DURATION.fullmatch(value.replace(" ", "")))
        ):
            value = sum(
                float(part or 0) * size for part, size in zip(parts.groups(), _SECONDS, strict=True)
            )
        if isinstance(value, bool) or not isinstance(value, int | float):
            return self.refuse(node, reader)
        if not 0 < value <= 366 * _SECONDS[0]:
            return reader.wrong(node, "a time lies above 0, and is at most a year")
        return float(value)

    def schema(self) -> dict[str, Any]:
        return {"type": ["number", "string"]}


@dataclass(frozen=True)
class Moment(Shape):
    """A moment as ISO 8601 writes it; without a zone it is UTC."""

    def words(self) -> str:
        return "a moment such as 2030-05-01T12:00Z"

    def read(self, node: Node, reader: Reader) -> Any:
        value = _value(node)
        if not isinstance(value, str):
            return self.refuse(node, reader)
        try:
            moment = datetime.fromisoformat(value)
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            return self.refuse(node, reader)

    def schema(self) -> dict[str, Any]:
        return {"type": "string"}
