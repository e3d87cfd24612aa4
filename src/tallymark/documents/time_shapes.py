"""Shapes of times: how long, and when."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tallymark.documents.nodes import Node
from tallymark.documents.reader import Reader
from tallymark.documents.shapes import Shape, read_scalar

_DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?")
_SECONDS = (86_400, 3_600, 60, 1)


def parse_duration(text: str) -> float | None:
    """The seconds of a text such as 90s, 15m, 1h30m, 2d; None where it is no such text."""
    # The pattern fits nothing at all too.
    parts = _DURATION.fullmatch(text.replace(" ", "")) if text else None
    if parts is None:
        return None
    return sum(float(part or 0) * size for part, size in zip(parts.groups(), _SECONDS, strict=True))


@dataclass(frozen=True)
class DurationShape(Shape):
    """Seconds, or a text such as 90s, 15m, 1h30m, 2d."""

    called = "seconds, or a time such as 15m or 1h30m"

    def read(self, node: Node, reader: Reader) -> Any:
        value = read_scalar(node)
        if isinstance(value, str) and (seconds := parse_duration(value)) is not None:
            value = seconds
        if isinstance(value, bool) or not isinstance(value, int | float):
            return self.refuse(node, reader)
        if not 0 < value <= 366 * _SECONDS[0]:
            return reader.wrong(node, "a time lies above 0, and is at most a year")
        return float(value)

    def schema(self) -> dict[str, Any]:
        return {"type": ["number", "string"]}


@dataclass(frozen=True)
class MomentShape(Shape):
    """A moment as ISO 8601 writes it; without a zone it is UTC."""

    called = "a moment such as 2030-05-01T12:00Z"

    def read(self, node: Node, reader: Reader) -> Any:
        value = read_scalar(node)
        if not isinstance(value, str):
            return self.refuse(node, reader)
        try:
            moment = datetime.fromisoformat(value)
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            return self.refuse(node, reader)

    def schema(self) -> dict[str, Any]:
        return {"type": "string"}
