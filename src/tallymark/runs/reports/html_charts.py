"""The charts of the HTML report, each with a sentence and a table that say the same."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from tallymark.charts import chart_specs
from tallymark.charts.svg import COLOURS, svg
from tallymark.runs.reports.html_cases import CaseList, anchor, case_outcome
from tallymark.runs.run import Run
from tallymark.text import clean_line, format_count, format_money, format_score, format_seconds

Figure = dict[str, Any]
OUTCOMES = (
    ("passed", "Passed"),
    ("flaky", "Sometimes"),
    ("failed", "Failed"),
    ("error", "Errors"),
    ("none", "Not run"),
)
"""How a case can end in a run, and what the page calls it."""


def draw_figures(keys: Sequence[str], views: Sequence[Run], listed: CaseList) -> list[Figure]:
    """The charts that these runs give something to draw for."""
    pairs = list(zip(keys, views, strict=True))[: chart_specs.MOST_RUNS]
    drawn = [_draw_score_against_cost(pairs), _draw_latency(pairs), _draw_matrix(pairs, listed)]
    left_out = len(views) - len(pairs)
    for figure in drawn:
        if figure is not None and left_out:
            figure["notes"].append(f"{format_count(left_out, 'more run')} not drawn.")
    return [figure for figure in drawn if figure is not None]


def _label_run(key: str, view: Run, several: bool = True) -> str:
    return f"{key}  {clean_line(view.record.model, 26)}" if several else "all results"


def _draw_score_against_cost(pairs: list[tuple[str, Run]]) -> Figure | None:
    """Only where there are two points to compare."""
    points, missing = [], []
    for key, view in pairs:
        record, cost = view.record, view.metrics["total_cost"]
        if record.score is None or cost is None:
            missing.append(key)
            continue
        low, high = view.interval or (record.score, record.score)
        points.append(chart_specs.RunPoint(key, cost, record.score, low, high))
    if len(points) < 2:
        return None
    words = "Up and to the left is better. Filled points are not beaten by any other on both."
    notes = [f"Not drawn, for lack of a score or a cost: {', '.join(missing)}."] if missing else []
    return {
        "title": "Score against cost",
        "words": words,
        "notes": notes,
        "wide": False,
        "svg": svg(
            chart_specs.score_against_cost(points), "Score against cost; the table has it all."
        ),
        "header": ("Run", "Total cost", "Score", "95 % interval"),
        "rows": [
            (_label_run(key, view), format_money(p.cost), format_score(p.score), _format_range(p))
            for key, view in pairs
            for p in points
            if p.label == key
        ],
    }


def _format_range(point: chart_specs.RunPoint) -> str:
    if point.low == point.high:
        return "-"
    return f"{format_score(point.low)} to {format_score(point.high)}"


def _draw_latency(pairs: list[tuple[str, Run]]) -> Figure | None:
    several = len(pairs) > 1
    known = [
        (
            _label_run(key, view, several),
            sorted(r.latency for r in view.results if r.latency is not None),
        )
        for key, view in pairs
    ]
    known = [(label, values) for label, values in known if values]
    if not known:
        return None
    return {
        "title": "Latency",
        "words": "How long the answers took. The dashed line is the median.",
        "notes": [],
        "wide": False,
        "svg": svg(chart_specs.latency_distribution(known), "Latencies; the table has it all."),
        "header": ("Run", "Median", "95 % within", "Longest"),
        "rows": [
            (label, *(format_seconds(_quantile(values, q)) for q in (0.5, 0.95, 1.0)))
            for label, values in known
        ],
    }


def _quantile(ordered: Sequence[float], q: float) -> float:
    """The least value that the share `q` does not exceed."""
    return ordered[math.ceil(q * len(ordered)) - 1]


def _draw_matrix(pairs: list[tuple[str, Run]], listed: CaseList) -> Figure | None:
    """The cases, or some chosen evenly from all; each square links to its case in the list."""
    if not listed.names:
        return None
    several = len(pairs) > 1
    chosen = _choose_evenly(
        len(listed.names), chart_specs.MOST_CASES if several else chart_specs.MOST_SQUARES
    )
    names = [listed.names[place] for place in chosen]
    cells = [
        chart_specs.CaseCell(
            key,
            clean_line(name, 60),
            f"#{anchor(place)}" if place < len(listed.cases) else None,
            COLOURS[case_outcome(view.cases.get(name))],
        )
        for place, name in zip(chosen, names, strict=True)
        for key, view in pairs
    ]
    total = len(listed.names)
    notes = [f"{len(names)} of {total:,} cases, chosen evenly."] if len(names) < total else []
    labels = [clean_line(name, 60) for name in names]
    spec = (
        chart_specs.pass_matrix([key for key, _ in pairs], labels, cells)
        if several
        else chart_specs.pass_squares(cells)
    )
    return {
        "title": "Which cases pass",
        "words": "One square for each case, the hardest first. Choose one to see its details.",
        "legend": OUTCOMES,
        "notes": notes,
        "wide": several,
        "svg": svg(spec, "Outcomes by run and case; the list of cases below has it all."),
        "header": ("Run", *(title for _, title in OUTCOMES)),
        "rows": [
            _count_outcomes(_label_run(key, view, several), view, total) for key, view in pairs
        ],
    }


def _choose_evenly(total: int, most: int) -> list[int]:
    """At most so many places, at equal distances."""
    count = min(total, most)
    return [place * total // count for place in range(count)]


def _count_outcomes(label: str, view: Run, total: int) -> tuple[str, ...]:
    found = Counter(case_outcome(case) for case in view.cases.values())
    found["none"] = total - len(view.cases)
    return (label, *(f"{found[name]:,}" for name, _ in OUTCOMES))
