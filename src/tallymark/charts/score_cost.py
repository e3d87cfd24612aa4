"""Score against cost: a point for each run with the interval of its score, and the frontier."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tallymark.charts.frame import (
    ANCHORS,
    LINE_HEIGHT,
    NARROW,
    Chart,
    Scale,
    draw_path,
    draw_x_axis,
    draw_y_axis,
    element,
    find_room,
    fit,
    frame,
    frame_nothing,
    label,
    list_ends,
    make_log_scale,
    make_scale,
    measure,
    pct,
    px,
    spans_decades,
    tell,
)
from tallymark.text import (
    format_count,
    format_money,
    format_money_tick,
    format_score,
    format_tick,
    list_some,
    with_minus,
)

_HEIGHT = 220
_MOST_LABELS = 40
_DOT = 6.0
_write_score, _write_tick = with_minus(format_score), with_minus(format_tick)
Box = tuple[float, float, float, float, float]
"""The x that grows with the page, then left, right, top and bottom in pixels around it."""


class RunPoint(NamedTuple):
    """A run; without a score or a cost it is listed but not drawn."""

    label: str
    cost: float | None
    score: float | None
    interval: tuple[float, float] | None = None
    mark: str = ""
    """A letter always drawn beside the point; the label only if there is room."""


class _Drawn(NamedTuple):
    label: str
    cost: float
    score: float
    low: float
    high: float
    mark: str


def draw_score_cost(points: Sequence[RunPoint], title: str = "Score against cost") -> Chart:
    """Draw score against cost; runs on the Pareto frontier are filled and joined.

    A run is off the frontier if another costs no more and scores no less, and is better in one.
    """
    known = [
        _Drawn(
            point.label,
            point.cost,
            point.score,
            *(point.interval or (point.score,) * 2),
            point.mark,
        )
        for point in points
        if point.cost is not None and point.score is not None
    ]
    front = find_frontier(known)
    missing = [p.label for p in points if p.cost is None or p.score is None]
    notes = [f"Not drawn, for lack of a score or a cost: {list_some(missing)}."] if missing else []
    return Chart(
        svg=_draw(title, known, front),
        head=("Run", "Total cost", "Score", "95 % interval"),
        rows=[
            (p.label, format_money(p.cost), _write_score(p.score), _write_interval(p))
            for p in points
        ],
        notes=notes,
    )


def _write_interval(point: RunPoint) -> str:
    return "none" if point.interval is None else " to ".join(map(_write_score, point.interval))


def find_frontier(points: Sequence[_Drawn]) -> list[_Drawn]:
    """Return the points on the Pareto frontier, by cost."""
    found: list[_Drawn] = []
    for point in sorted(points, key=lambda p: (p.cost, -p.score)):
        best = found[-1] if found else None
        if best is None or point.score > best.score or point[1:3] == best[1:3]:
            found.append(point)
    return found


def _draw(title: str, points: list[_Drawn], front: list[_Drawn]) -> str:
    if not points:
        return frame_nothing(title, "No run has both a score and a cost.")
    costs, scores = [point.cost for point in points], [point.score for point in points]
    logarithmic = spans_decades(costs)
    x = (
        make_log_scale(costs)
        if logarithmic
        else make_scale(costs, 4, zero=0 <= min(costs) <= max(costs) / 2)
    )
    y = make_scale(list_ends([(point.score, point.low, point.high) for point in points]))
    caption = "Total cost in US dollars" + (", logarithmic" if logarithmic else "")
    body = draw_y_axis(y, _HEIGHT, _write_tick) + draw_x_axis(x, _HEIGHT + 18, format_money_tick)
    body += label("100%", _HEIGHT + 36, caption, text_anchor="end")
    body += draw_path(_HEIGHT, _trace_frontier(front, x, y), "front")
    beaten = [point for point in points if point not in front]
    # The frontier comes last, on top of the others; its labels get their room after marks alone.
    ordered = [*beaten, *front]
    size = 5 if len(points) <= _MOST_LABELS else 4
    body += "".join(_draw_whisker(point, x, y) for point in ordered if point.low != point.high)
    labels = _place_labels(sorted([*front, *beaten], key=lambda each: not each.mark), x, y)
    for point in ordered:
        says = f"{point.label}: {_write_score(point.score)} for {format_money(point.cost)}"
        kind = "dot" if point in front else "dot rest"
        dot = element("circle", tell(says), class_=kind, r=size, cy=_place_y(point.score, y))
        body += element("svg", dot, labels.get(id(point), ""), x=pct(x.place(point.cost)))
    says = (
        f"{format_count(len(points), 'run')}, scores {_write_score(min(scores))} to "
        f"{_write_score(max(scores))}, costs {format_money(min(costs))} to "
        f"{format_money(max(costs))}. Not beaten: {list_some([p.label for p in front])}."
    )
    return frame(title, says, _HEIGHT, body, f"{find_room(map(_write_tick, y.ticks))} foot")


def _place_y(value: float, scale: Scale) -> float:
    return _HEIGHT * (1 - scale.place(value))


def _trace_frontier(front: Sequence[_Drawn], x: Scale, y: Scale) -> str:
    """Draw the frontier as steps: each score is reached at the cost of its run."""
    shape = ""
    for point in front:
        across, down = px(1000 * x.place(point.cost)), px(_place_y(point.score, y))
        shape += f"H{across}V{down}" if shape else f"M{across} {down}"
    return f"{shape}H1000"


def _draw_whisker(point: _Drawn, x: Scale, y: Scale) -> str:
    low, high = px(_place_y(point.low, y)), px(_place_y(point.high, y))
    path = element("path", class_="rest", d=f"M0 {low}V{high}M-4 {low}H4M-4 {high}H4")
    return element("svg", path, x=pct(x.place(point.cost)))


def _place_labels(points: Sequence[_Drawn], x: Scale, y: Scale) -> dict[int, str]:
    """Place names beside their points where nothing overlaps; the table has all names."""
    taken: list[Box] = []
    for point in points:
        at, down = x.place(point.cost) * NARROW, _place_y(point.score, y)
        taken.append((at, -_DOT, _DOT, down - _DOT, down + _DOT))
        taken.append((at, -4, 4, _place_y(point.high, y), _place_y(point.low, y)))
    found: dict[int, str] = {}
    for point in points[:_MOST_LABELS]:
        at, text = x.place(point.cost) * NARROW, point.mark or fit(point.label, 110)
        places = _list_places(point, y)
        boxes = [_find_box(text, at, *place) for place in places]
        free = [
            nth
            for nth, box in enumerate(boxes)
            if _is_inside(box) and not any(_collide(box, other) for other in taken)
        ]
        if free or point.mark:
            nth = free[0] if free else 0
            anchor, dx, baseline = places[nth]
            taken.append(boxes[nth])
            kind = {"class_": "strong"} if point.mark else {}
            found[id(point)] = label(dx, baseline, text, text_anchor=anchor, **kind)
    return found


def _find_box(text: str, at: float, anchor: str, dx: float, baseline: float) -> Box:
    left = dx - measure(text) * ANCHORS[anchor]
    return at, left, left + measure(text), baseline - LINE_HEIGHT + 4, baseline + 3


def _is_inside(box: Box) -> bool:
    at, left, right, _, bottom = box
    return at + left >= -20 and at + right <= NARROW + 12 and bottom < _HEIGHT + 7


def _list_places(point: _Drawn, y: Scale) -> list[tuple[str, float, float]]:
    """List possible places of a label: anchor and distance from the point."""
    down = _place_y(point.score, y)
    beside = [(a, dx, down + up) for a, dx in (("start", 9), ("end", -9)) for up in (-6, 16)]
    above, below = _place_y(point.high, y) - 9, _place_y(point.low, y) + 18
    return [*beside, ("middle", 0, above), ("middle", 0, below)]


def _collide(one: Box, other: Box) -> bool:
    """Return True if two boxes overlap on a phone; wider screens only add distance."""
    first, second = sorted((one, other))
    apart = first[0] + first[2] <= second[0] + second[1]
    return not (apart or one[4] <= other[3] or other[4] <= one[3])
