"""Lines over time or any other order, with the interval as a band."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

from tallymark.charts.frame import (
    LINE_HEIGHT,
    NARROW,
    Chart,
    Scale,
    Writer,
    draw_path,
    draw_x_axis,
    draw_y_axis,
    element,
    find_room,
    fit,
    frame,
    frame_nothing,
    label,
    make_scale,
    pct,
    px,
)
from tallymark.text import UNDEFINED, format_count, format_tick, with_minus

_HEIGHT = 220


class LinePoint(NamedTuple):
    """A value at x; an undefined one leaves a gap."""

    x: float
    y: float | None
    interval: tuple[float, float] | None = None


class Line(NamedTuple):
    """A line; the first of a chart is the main one."""

    name: str
    points: Sequence[LinePoint]


def draw_lines(
    title: str,
    lines: Sequence[Line],
    write_x: Writer = format_tick,
    write_y: Writer = format_tick,
    *,
    zero: bool = False,
) -> Chart:
    """Draw lines whose points are ordered by x. With `zero`, the y axis starts at 0."""
    write_x, write_y = with_minus(write_x), with_minus(write_y)
    gaps = sum(point.y is None for line in lines for point in line.points)
    rows = [
        (line.name, write_x(p.x), UNDEFINED if p.y is None else write_y(p.y), _write(p, write_y))
        for line in lines
        for p in line.points
    ]
    return Chart(
        svg=_draw(title, lines, (write_x, write_y), zero),
        head=("Line", "At", "Value", "95 % interval"),
        rows=rows,
        notes=[f"{format_count(gaps, 'value')} undefined, not drawn."] if gaps else [],
    )


def _write(point: LinePoint, write: Writer) -> str:
    return "none" if point.interval is None else " to ".join(map(write, point.interval))


def _draw(title: str, lines: Sequence[Line], writers: tuple[Writer, Writer], zero: bool) -> str:
    write_x, write_y = writers
    known = [point for line in lines for point in line.points if point.y is not None]
    if not known:
        return frame_nothing(title, "There are no values.")
    xs = [point.x for point in known]
    x = Scale(min(xs), max(xs), _choose_ticks(xs))
    if x.low == x.high:
        x = Scale(x.low - 1, x.high + 1, [x.low])
    values = [v for p in known for v in (p.y, *(p.interval or ())) if v is not None]
    y = make_scale(values, zero=zero)
    if all(float(each).is_integer() for each in values):  # nothing is counted in halves
        y = Scale(y.low, y.high, [tick for tick in y.ticks if float(tick).is_integer()])
    body = draw_y_axis(y, _HEIGHT, write_y) + draw_x_axis(x, _HEIGHT + 18, write_x, NARROW / 2)
    body += "".join(_draw_band(stretch, x, y) for stretch in _split(lines[0].points))
    ends = []
    # The one meant is drawn last, on top.
    for line in reversed(lines):
        first = line is lines[0]
        for stretch in _split(line.points):
            places = [(x.place(p.x), _place_y(p.y, y)) for p in stretch]
            shape = _join([(1000 * across, down) for across, down in places])
            body += draw_path(_HEIGHT, shape, "line" if first else "other")
            if len(stretch) == 1:
                body += _draw_dot(*places[0], 3)
        if known_points := [point for stretch in _split(line.points) for point in stretch]:
            last = known_points[-1]
            ends.append((_place_y(last.y, y), f"{line.name} {write_y(last.y)}", first))
            if first:
                body += _draw_dot(x.place(last.x), ends[-1][0], 5)
    for (_, text, first), at in zip(ends, _spread([at for at, _, _ in ends]), strict=True):
        strong = "strong" if first else "plain"
        # A single line is named by the title.
        shown = text.removeprefix(f"{lines[0].name} ") if len(lines) == 1 else text
        body += label("100%", at + 4, fit(shown, 84), dx=10, class_=strong)
    says = f"At the end: {', '.join(text for _, text, _ in reversed(ends))}."
    return frame(title, says, _HEIGHT, body, f"{find_room(map(write_y, y.ticks))} right")


def _draw_dot(place: float, down: float, size: int) -> str:
    return element("circle", class_="dot", cx=pct(place), cy=down, r=size)


def _choose_ticks(xs: Sequence[float]) -> list[float]:
    """Choose ticks at both ends, a third and two thirds, always at values of x."""
    low, high = min(xs), max(xs)
    wanted = [low + (high - low) * third / 3 for third in range(4)]
    return sorted({min(xs, key=lambda value: abs(value - each)) for each in wanted})


def _place_y(value: float, scale: Scale) -> float:
    return _HEIGHT * (1 - scale.place(value))


class _Known(NamedTuple):
    x: float
    y: float
    interval: tuple[float, float] | None


def _split(points: Sequence[LinePoint]) -> list[list[_Known]]:
    """Split a line at undefined values."""
    found: list[list[_Known]] = [[]]
    for point in points:
        if point.y is None:
            found.append([])
        else:
            found[-1].append(_Known(point.x, point.y, point.interval))
    return [stretch for stretch in found if stretch]


def _join(places: Sequence[tuple[float, float]]) -> str:
    return "M" + " ".join(f"{px(across)} {px(down)}" for across, down in places)


def _draw_band(stretch: Sequence[_Known], x: Scale, y: Scale) -> str:
    bounded = [(1000 * x.place(p.x), p.interval) for p in stretch if p.interval is not None]
    if len(bounded) == 1:
        at, (low, high) = bounded[0]
        bounded = [(max(0, at - 4), (low, high)), (min(1000, at + 4), (low, high))]
    if not bounded:
        return ""
    top = [(at, _place_y(interval[1], y)) for at, interval in bounded]
    bottom = [(at, _place_y(interval[0], y)) for at, interval in reversed(bounded)]
    return draw_path(_HEIGHT, f"{_join([*top, *bottom])}Z", "band")


def _spread(heights: Sequence[float]) -> list[float]:
    """Return the heights of labels, moved apart where they would overlap."""
    found = list(heights)
    order = sorted(range(len(found)), key=found.__getitem__)
    for above, below in itertools.pairwise(order):
        found[below] = max(found[below], found[above] + LINE_HEIGHT)
    over = max(0.0, max(found, default=0.0) - _HEIGHT)
    return [each - over for each in found]
