"""Pieces that hang between two values: spans over time, or where the points of a score went."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tallymark.charts.bars import LABEL_ROOM
from tallymark.charts.frame import (
    NARROW,
    Chart,
    Scale,
    Writer,
    draw_x_axis,
    element,
    fit,
    frame,
    frame_nothing,
    label,
    pct,
    tell,
)
from tallymark.text import UNKNOWN, format_count, with_minus

_ROW = 24
_TOP = 20
_MOST = 200
_INDENT = 10


class Piece(NamedTuple):
    """From one value to another; with an end that is not known its row says so."""

    name: str
    start: float
    end: float | None
    kind: str = ""
    """A class of `charts.css`: `model`, `tool`, `retrieval`, `failed`, `passed`."""
    depth: int = 0


def draw_waterfall(title: str, pieces: Sequence[Piece], write: Writer) -> Chart:
    """A row for each piece, over one axis."""
    write = with_minus(write)
    if not pieces:
        return Chart(frame_nothing(title, "There are no pieces."), ("Name",), ())
    ends = [value for piece in pieces for value in (piece.start, piece.end) if value is not None]
    low, high = min(ends), max(ends)
    # Pieces begin and end at values of their own, so the axis shows its ends, not round numbers.
    scale = Scale(low, high, [low, low / 2 + high / 2, high])
    if low == high:
        scale = Scale(low, low + 1, [low])
    drawn = pieces[:_MOST]
    body = draw_x_axis(scale, 12, write, NARROW / 3)
    body += "".join(_draw_row(piece, row, scale, write) for row, piece in enumerate(drawn))
    says = f"{format_count(len(pieces), 'piece')} from {write(low)} to {write(high)}."
    left = len(pieces) - len(drawn)
    return Chart(
        svg=frame(title, says, _TOP + _ROW * len(drawn), body, "rows"),
        head=("Name", "Start", "End", "Length"),
        rows=[
            (
                piece.name,
                write(piece.start),
                UNKNOWN if piece.end is None else write(piece.end),
                UNKNOWN if piece.end is None else write(piece.end - piece.start),
            )
            for piece in pieces
        ],
        notes=[f"{format_count(left, 'more piece')} not drawn."] if left else [],
    )


def _draw_row(piece: Piece, row: int, scale: Scale, write: Writer) -> str:
    top = _TOP + row * _ROW
    indent = _INDENT * min(piece.depth, 5)
    name = label(indent - LABEL_ROOM - 8, top + 16, fit(piece.name, LABEL_ROOM - indent))
    drawn = element("line", x1=-LABEL_ROOM - 8, x2="100%", y1=top, y2=top)
    drawn += element("g", tell(piece.name), name)
    start = scale.place(piece.start)
    if piece.end is None:
        drawn += element("line", class_="cut", x1=pct(start), x2="100%", y1=top + 12, y2=top + 12)
        return drawn + label("100%", top + 16, UNKNOWN, dx=10)
    end, took = scale.place(piece.end), write(piece.end - piece.start)
    drawn += element(
        "rect",
        tell(f"{piece.name}: {took}"),
        class_=piece.kind or "plain",
        x=pct(min(start, end, 0.994)),
        width=pct(max(abs(end - start), 0.006)),
        y=top + 5,
        height=14,
        rx=2,
    )
    return drawn + label("100%", top + 16, fit(took, 66), dx=10)
