"""Histograms of one or more series over one axis, each with its median."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence

from tallymark.charts.frame import (
    Chart,
    Scale,
    Writer,
    draw_x_axis,
    element,
    fit,
    frame,
    frame_nothing,
    label,
    make_log_scale,
    make_scale,
    pct,
    tell,
)
from tallymark.text import format_count, format_tick, with_minus

_FEWEST_BINS, _MOST_BINS = 6, 28
_FEW_BINS, _LINE = 14, 16
"""Up to this many bars are labelled with counts."""
Series = tuple[str, Sequence[float]]
_write_tick = with_minus(format_tick)


def draw_histogram(title: str, series: Sequence[Series], unit: str, write: Writer) -> Chart:
    """Draw a row of bars for each series, on a logarithmic axis if a few values are far out."""
    write = with_minus(write)
    drawn = [(name, sorted(values)) for name, values in series if values]
    empty = [name for name, values in series if not values]
    return Chart(
        svg=_draw(title, drawn, unit, write),
        head=("", "Values", "Least", "Median", "95 % within", "Most"),
        rows=[
            (name, f"{len(v):,}", *map(write, (v[0], find_median(v), _find_most(v, 0.95), v[-1])))
            for name, v in drawn
        ],
        notes=[f"Without any value: {', '.join(empty)}."] if empty else [],
    )


def find_median(ordered: Sequence[float]) -> float:
    """Return the median; values are halved before they are added, so that nothing overflows."""
    low, high = ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]
    return low / 2 + high / 2


def _find_most(ordered: Sequence[float], share: float) -> float:
    """Return the quantile at a share from 0 to 1."""
    return ordered[math.ceil(share * len(ordered)) - 1]


def _draw(title: str, series: Sequence[tuple[str, list[float]]], unit: str, write: Writer) -> str:
    if not series:
        return frame_nothing(title, "There are no values.")
    scale = _choose_scale([value for _, values in series for value in values])
    edges = _cut(scale, max(len(values) for _, values in series))
    several = len(series) > 1
    height, gap = (56, 30) if several else (130, 16)
    body, says = "", ""
    for row, (name, values) in enumerate(series):
        bottom, median = (row + 1) * (height + gap), find_median(values)
        at, told = scale.place(median), f"median {write(median)}"
        bars, counts = _draw_bars(values, edges, bottom, height)
        body += bars
        body += element(
            "line", class_="median", x1=pct(at), x2=pct(at), y1=bottom - height - 2, y2=bottom
        )
        body += counts  # over the line, with a halo
        anchor = "start" if at < 0.2 else "end" if at > 0.8 else "middle"
        if several:
            body += label(0, bottom - height - 7, fit(name, 150), class_="strong")
            at, anchor = 1.0, "end"
        body += label(pct(at), bottom - height - 7, told, text_anchor=anchor)
        body += element("line", class_="axis", x2="100%", y1=bottom, y2=bottom)
        count = format_count(len(values), "value")
        says += f"{name}: {count} from {write(values[0])} to {write(values[-1])}, {told}. "
    whole = len(series) * (height + gap)
    caption = unit + (", logarithmic" if scale.logarithmic else "")
    body += draw_x_axis(scale, whole + 18, _write_tick)
    body += label("100%", whole + 36, caption, text_anchor="end")
    return frame(title, says, whole, body, "flush foot")


def _choose_scale(values: list[float]) -> Scale:
    ordered = sorted(values)
    if ordered[0] > 1e-300 and ordered[-1] > 12 * find_median(ordered):
        return make_log_scale(ordered)
    return make_scale(ordered, 6, zero=0 <= ordered[0] <= ordered[-1] / 2)


def _cut(scale: Scale, values: int) -> list[float]:
    """Return the edges of equally wide bars, more for more values."""
    bins = min(max(_FEWEST_BINS, math.ceil(2 * math.sqrt(values))), _MOST_BINS)
    low, high = scale.low, scale.high
    if scale.logarithmic:
        low, high = math.log10(low), math.log10(high)
    edges = [low + (high / bins - low / bins) * place for place in range(bins)] + [high]
    return [10**edge for edge in edges] if scale.logarithmic else edges


def _draw_bars(
    values: Sequence[float], edges: Sequence[float], bottom: float, height: float
) -> tuple[str, str]:
    """Draw the bars, with counts above them where they fit."""
    bins = len(edges) - 1
    room = _LINE if bins <= _FEW_BINS else 0
    counts = [0] * bins
    for value in values:
        counts[min(max(bisect_right(edges, value) - 1, 0), bins - 1)] += 1
    drawn, told = "", ""
    for place, count in enumerate(counts):
        if count:
            tall = max(2.0, (height - room) * count / max(counts))
            low, high = (_write_tick(float(f"{edge:.3g}")) for edge in edges[place : place + 2])
            drawn += element(
                "rect",
                tell(f"{count:,} from {low} to {high}"),
                x=pct((place + 0.03) / bins),
                width=pct(0.94 / bins),
                y=bottom - tall,
                height=tall,
            )
            if room:
                middle = pct((place + 0.5) / bins)
                told += label(middle, bottom - tall - 4, f"{count:,}", text_anchor="middle")
    return drawn, told
