"""The text of a file, and places in it for messages."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tallymark.errors import InvalidInput, Place

MAX_SOURCE_BYTES = 50_000_000
BREAK = re.compile("\r\n|[\r\n\x85\u2028\u2029]")  # what YAML takes for the end of a line


@dataclass(frozen=True, eq=False)
class Source:
    """A named text whose lines can be pointed at."""

    text: str
    name: str | None = None
    folder: Path = Path()
    """Folder in which relative paths of the text start."""

    @cached_property
    def lines(self) -> list[str]:
        """The lines, without their ends."""
        return BREAK.split(self.text)

    def line(self, number: int) -> str:
        """The text of a line, counted from 1; empty beyond the end."""
        return self.lines[number - 1] if 0 < number <= len(self.lines) else ""

    def place(self, line: int, column: int | None = None, length: int = 1) -> Place:
        """Line and column from 1, with the text of the line; line 0 is no line at all."""
        if line == 0:
            return Place(self.name)
        return Place(self.name, line, column, max(1, length), self.line(line) or None)


def read_source(path: Path | str) -> Source:
    """Read a file; raise InvalidInput with the cause if it cannot be read."""
    path, name = Path(path), str(path)
    try:
        with path.open("rb") as file:
            # One byte more shows that it is too large; a device or a pipe may have no end.
            raw = file.read(MAX_SOURCE_BYTES + 1)
    except IsADirectoryError:
        raise InvalidInput(f"{name} is a folder", hint="name the file in it") from None
    except FileNotFoundError:
        raise InvalidInput(f"there is no file {name}", hint="check the path") from None
    except (OSError, ValueError) as error:
        cause = getattr(error, "strerror", None) or str(error)
        raise InvalidInput(f"{name} cannot be read: {cause}") from None
    if len(raw) > MAX_SOURCE_BYTES:
        raise InvalidInput(
            f"{name} has more than {MAX_SOURCE_BYTES // 1_000_000} MB", hint="split it up"
        )
    try:
        text = raw.decode("utf-8-sig")  # with or without a byte order mark
    except UnicodeDecodeError as error:
        wide = raw[:2] in (b"\xff\xfe", b"\xfe\xff")
        what = "is UTF-16 text" if wide else f"is not UTF-8 text (byte {error.start + 1})"
        raise InvalidInput(f"{name} {what}", hint="save it as UTF-8") from None
    return Source(text, name, path.parent)
