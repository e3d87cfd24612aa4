"""Bars of dimensions: each from 0 to the most it can be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tallymark.charts.frame import (
    Chart,
    Writer,
    element,
    fit,
    frame,
    frame_nothing,
    label,
    pct,
    tell,
)
from tallymark.text import UNDEFINED, format_tick, with_minus

COLOURS = ("emerald", "gold", "coral", "purple", "sky", "teal", "indigo", "rose")
"""As documents name them; any other is drawn in grey."""
_ROW = 28
LABEL_ROOM = 122


class Bar(NamedTuple):
    """A dimension and its value; without one its row says so."""

    name: str
    value: float | None
    colour: str = ""
    interval: tuple[float, float] | None = None


def draw_bars(title: str, bars: Sequence[Bar], most: float, write: Writer = format_tick) -> Chart:
    """Values below 0 and above `most` end at the edge; the number beside them is right."""
    write = with_minus(write)
    texts = [UNDEFINED if bar.value is None else write(bar.value) for bar in bars]
    says = ", ".join(f"{bar.name} {text}" for bar, text in zip(bars, texts, strict=True))
    body = "".join(
        _draw_row(bar, row, most, text)
        for row, (bar, text) in enumerate(zip(bars, texts, strict=True))
    )
    return Chart(
        svg=frame(title, f"Of {write(most)}: {says}.", _ROW * len(bars), body, "rows")
        if bars
        else frame_nothing(title, "There are no dimensions."),
        head=("Dimension", "Value", "95 % interval"),
        rows=[
            (bar.name, text, " to ".join(map(write, bar.interval)) if bar.interval else "none")
            for bar, text in zip(bars, texts, strict=True)
        ],
    )


def _draw_row(bar: Bar, row: int, most: float, text: str) -> str:
    y = row * _ROW + _ROW / 2
    name = label(-10, y + 4, fit(bar.name, LABEL_ROOM), text_anchor="end")
    drawn = element("g", tell(bar.name), name)
    drawn += element("rect", class_="track", width="100%", y=y - 4, height=8, rx=2)
    if bar.value is not None:
        colour = bar.colour.lower() if bar.colour.lower() in COLOURS else "plain"
        wide = pct(_place(bar.value, most))
        drawn += element("rect", class_=colour, width=wide, y=y - 4, height=8, rx=2)
    if bar.interval is not None:
        low, high = (pct(_place(value, most)) for value in bar.interval)
        for left, right, up in ((low, high, 0), (low, low, 5), (high, high, 5)):
            drawn += element("line", class_="ends", x1=left, x2=right, y1=y - up, y2=y + up)
    return drawn + label("100%", y + 4, fit(text, 66), dx=10, class_="strong")


def _place(value: float, most: float) -> float:
    return min(max(value / most, 0.0), 1.0)
