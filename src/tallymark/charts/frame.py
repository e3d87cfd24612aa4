"""Shared parts of charts: scales, ticks, text widths, axes, and the table of values.

The drawing is the plot itself, as wide as its place: x is in percent and y in pixels, so text never
grows or shrinks with the page, and labels hang in the padding of `.plot`. The width of text
is computed for the narrowest screen, a phone. Colours are classes of `charts.css`, never values.
"""

from __future__ import annotations

import math
import sys
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path
from statistics import median_low

from tallymark.text import clean_line

Writer = Callable[[float], str]
NARROW = 270
"""Pixels that the plot has on a phone."""
LINE_HEIGHT = 15
ANCHORS = {"start": 0.0, "middle": 0.5, "end": 1.0}
"""Share of a text to the left of its anchor."""
_LETTER = 6.8
_FAR, _FARTHEST = 20, 10_000
"""Limits of interval ends, as multiples of the size of values: the larger of the first and the
median interval, but at most the second.
"""
_MOST = sys.float_info.max
_FOLDER = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Chart:
    """A drawing, and the same numbers as a table for those who cannot see or want to copy them."""

    svg: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()
    """Sentences on what is not drawn."""

    def write_html(self) -> str:
        """Write the drawing, notes on what it leaves out, and the folded table."""
        head = "".join(f'<th scope="col">{quote(name)}</th>' for name in self.head)
        rows = "".join(
            f'<tr><th scope="row">{quote(row[0])}</th>'
            + "".join(f"<td>{quote(cell)}</td>" for cell in row[1:])
            + "</tr>"
            for row in self.rows
        )
        notes = "".join(f'<p class="chart-note">{quote(note)}</p>' for note in self.notes)
        return (
            f'{self.svg}{notes}<details class="data"><summary>As a table</summary>'
            f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody>'
            "</table></div></details>"
        )


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps a value to its place: 0 at `low`, 1 at `high`."""

    low: float
    high: float
    ticks: Sequence[float]
    logarithmic: bool = False

    def place(self, value: float) -> float:
        low, high = self.low, self.high
        if self.logarithmic:
            low, high, value = math.log10(low), math.log10(high), math.log10(value)
        # Halves, because the difference of two huge values may not be a number any more.
        return min(max((value / 2 - low / 2) / (high / 2 - low / 2), 0.0), 1.0)


def make_scale(values: Iterable[float], most: int = 5, *, zero: bool = False) -> Scale:
    """Make a scale between round numbers with about `count` ticks."""
    known = [*values, *([0.0] if zero else [])] or [0.0, 1.0]
    low, high = min(known), max(known)
    size = max(abs(low), abs(high))
    if high / 2 - low / 2 <= max(size * 1e-9, 1e-290):
        margin = size * 0.1 if size > 1e-290 else 1.0
        low, high = (
            (0.0, 2 * margin)
            if zero and size < 1e-290
            else (max(low - margin, -_MOST), min(high + margin, _MOST))
        )
    step = _round_up((high / 2 - low / 2) / (most - 1) * 2)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    ticks = [tick for place in range(first, last + 1) if math.isfinite(tick := _times(place, step))]
    return Scale(min(low, ticks[0]), max(high, ticks[-1]), ticks)


def list_ends(points: Sequence[tuple[float, float, float]]) -> list[float]:
    """List the numbers that an axis should show, of values with intervals `(value, low, high)`.

    Ends that are very far off are left out, and drawn up to the edge: a single one at minus seven
    million would turn scores from 0 to 100 into one line.
    """
    size = max(abs(value) for value, _, _ in points)
    lengths = [max(value - low, high - value) for value, low, high in points]
    usual = median_low(list(filter(None, lengths)) or [0.0])
    most = min(_FAR * max(size, usual), _FARTHEST * size or math.inf)
    values = [value for value, _, _ in points]
    low, high = min(values) - most, max(values) + most
    return [*values, *(end for point in points for end in point[1:] if low <= end <= high)]


def make_log_scale(values: Sequence[float]) -> Scale:
    """Make a logarithmic scale between powers of ten, for positive values."""
    first = min(math.floor(math.log10(min(values))), 307)
    last = max(min(math.ceil(math.log10(max(values))), 308), first + 1)
    every = math.ceil((last - first) / 6)
    ticks = [float(f"1e{power}") for power in range(first, last + 1, every)]
    return Scale(ticks[0], float(f"1e{last}"), ticks, logarithmic=True)


def spans_decades(values: Sequence[float]) -> bool:
    """Return True if a logarithmic scale fits better."""
    return bool(values) and min(values) > 1e-300 and max(values) / min(values) >= 30


def _round_up(step: float) -> float:
    """Round up to 1, 2, 5 or 10 times a power of ten."""
    power = math.floor(math.log10(step))
    return next(
        found
        for digit in (1, 2, 5, 10)
        if (found := _times(digit, float(f"1e{power}"))) >= step * 0.999
    )


def _times(count: int, step: float) -> float:
    """Return a multiple of the step without rounding errors."""
    return float(f"{count * step:.12g}")


def quote(text: str) -> str:
    """Escape text for HTML and SVG."""
    return escape(clean_line(text, 400))


def measure(text: str) -> float:
    """Estimate the width of a text in pixels, rather too wide."""
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    return _LETTER * (len(text) - wide) + 12.5 * wide


def fit(text: str, width: float) -> str:
    """Shorten a text to a width in the middle, because names often differ at their ends."""
    text = clean_line(text, 400)
    kept, count = text, min(len(text), int(width / _LETTER))
    while measure(kept) > width and count:
        count -= 1
        kept = f"{text[: count - count // 3].rstrip()}…{text[len(text) - count // 3 :].lstrip()}"
    return kept


def px(value: float) -> str:
    """Format pixels to a tenth."""
    return f"{value:.1f}".removesuffix(".0")


def pct(share: float) -> str:
    """Format a place from 0 to 1 as x in percent."""
    return f"{100 * share:.2f}".rstrip("0").rstrip(".") + "%"


def element(name: str, *inside: str, **attributes: float | str) -> str:
    """Write an SVG element; numbers are pixels, attribute texts are escaped.

    `class_` is written `class`, and `text_anchor` `text-anchor`.
    """
    written = ""
    for key, value in attributes.items():
        text = escape(value) if isinstance(value, str) else px(value)
        written += f' {key.rstrip("_").replace("_", "-")}="{text}"'
    return f"<{name}{written}>{''.join(inside)}</{name}>" if inside else f"<{name}{written}/>"


def label(x: float | str, y: float, text: str, **attributes: float | str) -> str:
    """Draw a text at a place."""
    return element("text", escape(text), x=x, y=y, **attributes)


def tell(text: str) -> str:
    """Return the tooltip of an element."""
    return element("title", quote(text))


def draw_y_axis(scale: Scale, height: float, write: Writer) -> str:
    """Draw grid lines with their values to the left of the plot."""
    drawn = ""
    for tick in scale.ticks:
        y = height * (1 - scale.place(tick))
        drawn += element("line", x2="100%", y1=y, y2=y)
        drawn += label(-8, y + 4, write(tick), text_anchor="end")
    return drawn


def draw_x_axis(scale: Scale, y: float, write: Writer, width: float = NARROW) -> str:
    """Draw values below the plot, as many as fit."""
    drawn, free = "", -math.inf
    for tick in scale.ticks:
        text, place = write(tick), scale.place(tick)
        anchor = "start" if place < 0.02 else "end" if place > 0.98 else "middle"
        left = place * width - measure(text) * ANCHORS[anchor]
        if left >= free:
            drawn += label(pct(place), y, text, text_anchor=anchor)
            free = left + measure(text) + 10
    return drawn


def draw_path(height: float, shape: str, kind: str) -> str:
    """Draw a line or an area over the whole plot, 1000 units wide; strokes keep their width."""
    path = element("path", class_=kind, d=shape)
    box = f"0 0 1000 {px(height)}"
    return element("svg", path, viewBox=box, height=height, preserveAspectRatio="none")


def frame(title: str, says: str, height: float, body: str, room: str) -> str:
    """Wrap a drawing with its name and a description for screen readers.

    `room` holds classes of `.plot` that set the padding for labels.
    """
    named = f"{tell(title)}{element('desc', quote(says))}"
    chart = element("svg", named, body, class_="chart", height=height, role="img")
    return element("div", chart, class_=f"plot {room}")


def frame_nothing(title: str, says: str) -> str:
    """Return the text shown instead of an empty drawing."""
    return frame(title, says, 40, label("50%", 24, says, text_anchor="middle"), "bare flush")


def find_room(labels: Iterable[str]) -> str:
    """Return the class of `.plot` with enough padding for these labels at the left."""
    widest = max(map(measure, labels), default=0.0)
    return "near" if widest <= 30 else "mid" if widest <= 58 else "broad"


@cache
def read_style() -> str:
    """Read the style sheet of all charts."""
    return "".join(
        (_FOLDER / name).read_text(encoding="utf-8") for name in ("tokens.css", "charts.css")
    )
