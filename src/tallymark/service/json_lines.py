"""Bodies of JSON lines."""

from __future__ import annotations

from typing import Annotated

from tallymark.errors import TooLarge

Lines = Annotated[bytes, "application/x-ndjson"]
MOST_LINES = 100_000


def split_lines(body: bytes) -> list[tuple[int, bytes]]:
    """Return the lines that are not empty, with their numbers."""
    # Counted before anything is split: a few compressed bytes may be millions of line ends.
    if body.count(b"\n") <= 2 * MOST_LINES:
        found = [(n, line) for n, line in enumerate(body.split(b"\n"), 1) if line.strip()]
        if len(found) <= MOST_LINES:
            return found
    raise TooLarge(f"the body has more than {MOST_LINES:,} lines", hint="send it in parts")
