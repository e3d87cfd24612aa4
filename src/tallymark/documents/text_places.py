"""From a place in a text of a document to the place in the file where that text is written."""

from __future__ import annotations

from collections.abc import Iterator

from tallymark.documents.nodes import ScalarNode
from tallymark.documents.source import Source
from tallymark.errors import Place


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
