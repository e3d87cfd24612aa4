"""Write a page with every kind of chart, with few, many and awkward numbers.

python -m scripts.chart_gallery OUT.html
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

from tallymark.charts.frame import Chart, quote, read_style
from tallymark.charts.histogram import draw_histogram
from tallymark.charts.lines import Line, LinePoint, draw_lines
from tallymark.charts.matrix import OUTCOMES, CaseColumn, draw_matrix
from tallymark.charts.score_cost import RunPoint, draw_score_cost
from tallymark.charts.sparkline import draw_sparkline
from tallymark.text import format_seconds

HOSTILE = (
    "</text><script>alert(1)</script> \u202egnol dna 日本語の名前 & \"quoted\" 'name' " + "x" * 80
)
PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Charts</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><style>{style}
body {{ margin: 16px auto; max-width: 1120px; padding: 0 16px; background: var(--ground);
  color: var(--text); font: 14px/1.45 var(--sans);
  display: grid; gap: 16px;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 480px), 1fr)); }}
figure {{
  margin: 0; padding: 14px; min-width: 0; border: 1px solid var(--line); border-radius: 10px; }}
h2 {{ margin: 0 0 8px; font-size: 15px; }}</style><body>{figures}</body></html>
"""


def draw_all(random: Random) -> Iterator[tuple[str, Chart]]:
    """The charts, each with a word on what is awkward about it."""
    yield from _draw_points(random)
    yield from _draw_series(random)
    yield from _draw_rows(random)


def _draw_points(random: Random) -> Iterator[tuple[str, Chart]]:
    six = [
        RunPoint("A careful v13", 0.0364, 92.24, (86.0, 96.3)),
        RunPoint("B careful v14", 0.0412, 81.74, (72.6, 89.4)),
        RunPoint("hasty v13", 0.0113, 38.67, (27.5, 49.9)),
        RunPoint("thrifty v12", 0.0079, 32.1, (20.9, 43.5)),
        RunPoint("careful v12", 0.0371, 92.15, (85.9, 96.2)),
        RunPoint("literal v13", 0.029, 76.2, (66.3, 85.8)),
        RunPoint("no price", None, 80.0),
    ]
    many = [
        RunPoint(f"run {n}", 10 ** random.uniform(-4, 2), random.gauss(60, 15)) for n in range(500)
    ]
    yield "six runs", draw_score_cost(six)
    yield "keys", draw_score_cost([p._replace(label="ABCDEFG"[n]) for n, p in enumerate(six)])
    yield "none", draw_score_cost([RunPoint("a", None, None)])
    yield "one, free", draw_score_cost([RunPoint("echo", 0.0, 100.0)])
    yield "equal", draw_score_cost([RunPoint("one", 0.01, 50.0), RunPoint("two", 0.01, 50.0)])
    yield "500 over decades", draw_score_cost(many)
    yield (
        "huge, small and hostile",
        draw_score_cost([RunPoint(HOSTILE, 1e-7, -4e12), RunPoint("b", 3e5, 5e15, (1e12, 9e15))]),
    )


def _draw_series(random: Random) -> Iterator[tuple[str, Chart]]:
    took = [random.lognormvariate(0, 0.4) for _ in range(500)]
    slow = [value**3 / 3 for value in took]
    for word, series in (
        ("one series", [("all results", took)]),
        ("three, one slow, one empty", [("A", took), (HOSTILE, slow), ("C", [])]),
        ("one value", [("all results", [1.2])]),
        ("equal", [("all results", [0.0, 0.0])]),
        ("none", []),
    ):
        yield word, draw_histogram("Latency", series, "Seconds", format_seconds)
    fit = [1000 + 150 * math.sin(n / 15) + n for n in range(46)]
    walk = [value + random.gauss(0, 12) for value in fit]
    band = [LinePoint(n, y, (y - 400 / (n + 2), y + 400 / (n + 2))) for n, y in enumerate(fit)]
    elo = Line("Elo", [LinePoint(n, y) for n, y in enumerate(walk)])
    holes = [p._replace(y=None, interval=None) if p.x in (9, 10, 30) else p for p in band]
    for word, lines in (
        ("with a band", [Line("fit", band), elo]),
        ("with gaps and a long name", [Line(HOSTILE, holes), Line("same", band)]),
        ("one point", [Line("fit", band[:1])]),
        ("two equal points", [Line("fit", [LinePoint(0, 5.0), LinePoint(1, 5.0)])]),
        ("none", [Line("fit", [LinePoint(0, None)])]),
        ("500 points", [Line("fit", [LinePoint(n, random.gauss(0, 1e-6)) for n in range(500)])]),
    ):
        yield word, draw_lines("Rating over time", lines, write_y=lambda y: f"{y:,.4g}")
    yield "sparkline", draw_sparkline("last 8 runs", [88.0, 89, None, 90, 87, 92, 91, 81.7])
    yield "sparkline, one value", draw_sparkline("last run", [81.7])
    yield "sparkline, none", draw_sparkline("no run", [])


def _draw_rows(random: Random) -> Iterator[tuple[str, Chart]]:
    kinds = list(OUTCOMES)
    for runs, cases in ((1, 7), (1, 500), (4, 12), (4, 60), (12, 500), (2, 1), (1, 0)):
        columns = [
            CaseColumn(
                HOSTILE if n == 1 else f"case-number-{n}",
                f"#case-{n}",
                random.choices(kinds, (60, 8, 20, 6, 6), k=runs),
            )
            for n in range(cases)
        ]
        yield f"{runs} by {cases}", draw_matrix("Which cases pass", "ABCDEFGHIJKL"[:runs], columns)


def write_gallery() -> str:
    """The page."""
    figures = "".join(
        f"<figure><h2>{quote(word)}</h2>{chart.write_html()}</figure>"
        for word, chart in draw_all(Random(7))
    )
    return PAGE.format(style=read_style(), figures=figures)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(write_gallery(), encoding="utf-8")
