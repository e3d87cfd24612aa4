"""Sparkline for a row of a table: the last values, the newest marked."""

from __future__ import annotations

from collections.abc import Sequence

from tallymark.charts.frame import (
    Chart,
    Writer,
    draw_path,
    element,
    label,
    pct,
    px,
    tell,
)
from tallymark.text import UNDEFINED, format_tick, with_minus

_HEIGHT = 24
_EDGE = 4


def draw_sparkline(
    title: str, values: Sequence[float | None], write: Writer = format_tick
) -> Chart:
    """Draw values, oldest first; undefined ones leave gaps."""
    write = with_minus(write)
    known = [value for value in values if value is not None]
    low, high = min(known, default=0.0), max(known, default=0.0)
    stretches: list[list[str]] = [[]]
    across, down = 0.0, 0.0
    for number, value in enumerate(values):
        if value is None:
            stretches.append([])
            continue
        across = 1000 * number / max(len(values) - 1, 1)
        share = 0.5 if low == high else (value / 2 - low / 2) / (high / 2 - low / 2)
        down = _HEIGHT - _EDGE - (_HEIGHT - 2 * _EDGE) * share
        stretches[-1].append(f"{px(across)} {px(down)}")
    body = draw_path(_HEIGHT, "".join(f"M{' '.join(each)}" for each in stretches if each), "line")
    body += element("circle", cx=pct(across / 1000), cy=down, r=2.5)
    texts = [UNDEFINED if value is None else write(value) for value in values]
    says = f"{title}: {f'{texts[0]} to {texts[-1]}' if texts else 'no values'}"
    return Chart(
        svg=element(
            "svg", tell(says), body if known else label(0, 16, "none"), class_="spark", role="img"
        ),
        head=("", "Value"),
        rows=[(str(number), text) for number, text in enumerate(texts, 1)],
    )
