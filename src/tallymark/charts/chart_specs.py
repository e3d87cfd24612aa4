"""The charts of a report as Vega-Lite specs: plain data, so that a page and a file show the same.

Colours are names of CSS variables in disguise (see `svg.py`): the report decides how they look in
light and in dark.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any, NamedTuple

from tallymark.charts.svg import COLOURS, FONT_SIZE

ChartSpec = dict[str, Any]
CHART_WIDTH = 340
MOST_RUNS = 12
"""Runs in one chart; more would be a thicket."""
MOST_CASES = 100
"""Cases in the matrix of several runs, and below in the squares of a single one."""
MOST_SQUARES = 240
_BINS = 28
_TEXT, _LINE, _MARK = COLOURS["text"], COLOURS["line"], COLOURS["mark"]


class RunPoint(NamedTuple):
    """A run in the chart of score against cost."""

    label: str
    cost: float
    score: float
    low: float
    high: float


class CaseCell(NamedTuple):
    """One case of one run in the matrix."""

    run: str
    case: str
    link: str | None
    colour: str


def score_against_cost(points: Sequence[RunPoint]) -> ChartSpec:
    """One point for each run, with the interval of its score; runs that no other beats are filled.

    A run is beaten when another costs no more and scores no less, and is better in one of both.
    """
    values = [point._asdict() | {"beaten": _is_beaten(point, points)} for point in points]
    x = {"field": "cost", "type": "quantitative", "title": "Total cost in US dollars"}
    y = {"field": "score", "type": "quantitative", "title": "Score"}
    scale = {"zero": False, "padding": 24, "nice": False}
    label = {
        "type": "text",
        "align": "left",
        "dx": 9,
        "dy": -9,
        "fontSize": FONT_SIZE,
        "fill": _TEXT,
    }
    return _frame_chart(
        {
            "width": CHART_WIDTH,
            "height": min(420, max(230, 75 * len(points))),
            "data": {"values": values},
            "encoding": {"x": x | {"scale": scale, "axis": {"tickCount": 5}}},
            "layer": [
                {
                    "mark": {"type": "rule", "stroke": _MARK, "strokeWidth": 2, "opacity": 0.45},
                    "encoding": {
                        "y": y | {"field": "low", "scale": scale},
                        "y2": {"field": "high"},
                    },
                },
                {
                    "mark": {"type": "point", "size": 90, "stroke": _MARK, "strokeWidth": 2},
                    "encoding": {
                        "y": y,
                        "fill": {
                            "condition": {"test": "datum.beaten", "value": COLOURS["ground"]},
                            "value": _MARK,
                        },
                    },
                },
                {"mark": label, "encoding": {"y": y, "text": {"field": "label"}}},
            ],
        }
    )


def _is_beaten(one: RunPoint, points: Sequence[RunPoint]) -> bool:
    return any(
        other.cost <= one.cost
        and other.score >= one.score
        and (other.cost < one.cost or other.score > one.score)
        for other in points
    )


def latency_distribution(latencies: Sequence[tuple[str, Sequence[float]]]) -> ChartSpec:
    """A histogram for each run over one axis, with its median; logarithmic where a few are slow."""
    known = sorted(value for _, values in latencies for value in values)
    middle, longest = known[len(known) // 2], known[-1]
    logarithmic = known[0] > 0 and longest > 12 * middle
    edges = _log_edges(known[0], longest) if logarithmic else _even_edges(longest)
    bars, medians = [], []
    for label, values in latencies:
        bars += [row | {"run": label} for row in _histogram(values, edges)]
        medians.append({"run": label, "median": sorted(values)[(len(values) - 1) // 2]})
    x = {
        "type": "quantitative",
        "title": "Seconds" + (" (logarithmic)" if logarithmic else ""),
        "scale": {"type": "log" if logarithmic else "linear", "domain": [edges[0], edges[-1]]},
        "axis": {"grid": False, "tickCount": 6, "format": "~g"},
    }
    return _frame_chart(
        {
            "data": {"values": bars + medians},
            "facet": {
                "row": {
                    "field": "run",
                    "sort": [label for label, _ in latencies],
                    "title": None,
                    "header": {"labelOrient": "top", "labelAnchor": "start", "labelPadding": 2}
                    if len(latencies) > 1
                    else None,
                }
            },
            "spacing": 10,
            "spec": {
                "width": CHART_WIDTH + 50,  # the other chart has labels beside its axis
                "height": 150 if len(latencies) == 1 else 64,
                "layer": [
                    {
                        "mark": {"type": "rect", "fill": _MARK, "opacity": 0.75},
                        "encoding": {
                            "x": x | {"field": "start"},
                            "x2": {"field": "end"},
                            "y": {"field": "share", "type": "quantitative", "axis": None},
                            "y2": {"datum": 0},
                        },
                    },
                    {
                        "mark": {"type": "rule", "stroke": _TEXT, "strokeDash": [3, 3]},
                        "encoding": {"x": {"field": "median", "type": "quantitative"}},
                    },
                ],
            },
        }
    )


def _even_edges(longest: float) -> list[float]:
    step = (longest or 1.0) / _BINS
    return [step * place for place in range(_BINS + 1)]


def _log_edges(shortest: float, longest: float) -> list[float]:
    low, high = math.log(shortest), math.log(longest)
    return [math.exp(low + (high - low) * place / _BINS) for place in range(_BINS + 1)]


def _histogram(values: Sequence[float], edges: Sequence[float]) -> list[dict[str, float]]:
    counts = [0] * (len(edges) - 1)
    for value in values:
        counts[min(max(bisect_right(edges, value) - 1, 0), len(counts) - 1)] += 1
    return [
        {"start": edges[place], "end": edges[place + 1], "share": count / len(values)}
        for place, count in enumerate(counts)
        if count
    ]


def pass_matrix(runs: Sequence[str], cases: Sequence[str], cells: Sequence[CaseCell]) -> ChartSpec:
    """A square for each case of each run, coloured by its outcome; it links to the case."""
    few = len(cases) <= 40
    bare = {"ticks": False, "domain": False, "title": None}
    x = {"field": "case", "sort": list(cases), "axis": bare | _SLANTED_LABELS if few else None}
    y = {"field": "run", "sort": list(runs), "axis": bare | {"labelLimit": 200}}
    step = 26 if few else 9
    return _draw_squares([cell._asdict() for cell in cells], x, y, step, 26)


def pass_squares(cells: Sequence[CaseCell]) -> ChartSpec:
    """The same for a single run: its cases row by row."""
    across = 20 if len(cells) > 60 else 12
    values = [
        cell._asdict() | {"column": place % across, "row": place // across}
        for place, cell in enumerate(cells)
    ]
    x, y = ({"field": field, "axis": None} for field in ("column", "row"))
    return _draw_squares(values, x, y, CHART_WIDTH // across, CHART_WIDTH // across)


_SLANTED_LABELS = {"labelAngle": -40, "labelLimit": 120}


def _draw_squares(
    values: list[ChartSpec], x: ChartSpec, y: ChartSpec, width: int, height: int
) -> ChartSpec:
    return _frame_chart(
        {
            "width": {"step": width},
            "height": {"step": height},
            "data": {"values": values},
            "mark": {
                "type": "rect",
                "stroke": COLOURS["ground"],
                "strokeWidth": 2 if width > 12 else 1,
                "cornerRadius": 4 if width > 12 else 1,
            },
            "encoding": {
                "x": x | {"type": "nominal"},
                "y": y | {"type": "nominal"},
                "fill": {"field": "colour", "type": "nominal", "scale": None},
                "href": {"field": "link"},
            },
        }
    )


def _frame_chart(spec: ChartSpec) -> ChartSpec:
    text = {"labelColor": _TEXT, "titleColor": _TEXT}
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "background": None,
        "padding": 4,
        "config": {
            "aria": False,
            "font": "system-ui, sans-serif",
            "view": {"stroke": None},
            "axis": {
                "labelFontSize": FONT_SIZE,
                "titleFontSize": FONT_SIZE,
                "titleFontWeight": "normal",
                "domainColor": _LINE,
                "tickColor": _LINE,
                "gridColor": _LINE,
                **text,
            },
            "header": {"labelFontSize": FONT_SIZE, **text},
        },
        **spec,
    }
