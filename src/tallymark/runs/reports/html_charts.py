"""The charts of the HTML report, each with a sentence on how to read it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from tallymark.charts.frame import Chart
from tallymark.charts.histogram import draw_histogram
from tallymark.charts.matrix import OUTCOMES, CaseColumn, draw_matrix
from tallymark.charts.score_cost import RunPoint, draw_score_cost
from tallymark.runs.problems import name_model
from tallymark.runs.reports.html_cases import CaseList, anchor, describe_outcome
from tallymark.runs.run import Run, scan_results
from tallymark.text import clean_line, format_count, format_seconds

MOST_RUNS = 12
"""Runs in one chart; more would be a thicket."""


class Figure(NamedTuple):
    """A chart as the page shows it."""

    title: str
    words: str
    chart: Chart
    legend: Sequence[tuple[str, str]] = ()
    wide: bool = False
    note: str = ""


class _CaseSquares(Sequence[CaseColumn]):
    """Every case of the runs, made when it is looked at: few of many are drawn."""

    def __init__(self, views: Sequence[Run], listed: CaseList) -> None:
        self._views = views
        self._listed = listed

    def __len__(self) -> int:
        return len(self._listed.names)

    def __getitem__(self, place: Any) -> Any:
        name, listed = self._listed.names[place], self._listed.cases
        shown = place < len(listed)
        return CaseColumn(
            clean_line(listed[place]["name"] if shown else name, 60),
            f"#{anchor(place)}" if shown else None,
            [describe_outcome(view.outcomes.get(name)) for view in self._views],
        )


def draw_figures(keys: Sequence[str], views: Sequence[Run], listed: CaseList) -> list[Figure]:
    """The charts that these runs give something to draw for."""
    pairs = list(zip(keys, views, strict=True))[:MOST_RUNS]
    drawn = (_draw_score_against_cost(pairs), _draw_latency(pairs), _draw_matrix(pairs, listed))
    left = len(views) - len(pairs)
    note = f"{format_count(left, 'more run')} not drawn." if left else ""
    return [figure._replace(note=note) for figure in drawn if figure is not None]


def _draw_score_against_cost(pairs: list[tuple[str, Run]]) -> Figure | None:
    """Only where there are two points to compare."""
    points = [
        RunPoint(key, view.metrics["total_cost"], view.record.score, view.interval, key)
        for key, view in pairs
    ]
    if sum(point.cost is not None and point.score is not None for point in points) < 2:
        return None
    title = "Score against cost"
    words = (
        "Up and to the left is better. Filled points are not beaten by any other on both; the "
        "dashed line joins them. Whiskers are 95 % intervals."
    )
    return Figure(title, words, draw_score_cost(points, title))


def _draw_latency(pairs: list[tuple[str, Run]]) -> Figure | None:
    series = [
        (
            _label_run(key, view, pairs),
            [r.latency for r in scan_results(view.results) if r.latency is not None],
        )
        for key, view in pairs
    ]
    if not any(values for _, values in series):
        return None
    chart = draw_histogram("Latency", series, "Seconds", format_seconds)
    return Figure("Latency", "How long the answers took. The line is the median.", chart)


def _label_run(key: str, view: Run, pairs: Sequence[object]) -> str:
    return f"{key}  {clean_line(name_model(view.record), 26)}" if len(pairs) > 1 else "all results"


def _draw_matrix(pairs: list[tuple[str, Run]], listed: CaseList) -> Figure | None:
    """Each square links to its case in the list."""
    if not listed.names:
        return None
    title = "Which cases pass"
    words = "One square for each case, the hardest first. Choose one to see its details."
    names = [key for key, _ in pairs] if len(pairs) > 1 else ["all results"]
    chart = draw_matrix(title, names, _CaseSquares([view for _, view in pairs], listed))
    legend = [(kind, outcome.word) for kind, outcome in OUTCOMES.items()]
    return Figure(title, words, chart, legend, wide=len(pairs) > 1)
