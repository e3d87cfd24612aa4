"""The charts as data, and as drawings that follow the page's colours."""

from __future__ import annotations

import json

import pytest

from tallymark.charts import chart_specs
from tallymark.charts.svg import COLOURS, svg

POINTS = [
    chart_specs.RunPoint("A", 0.01, 80.0, 70.0, 90.0),
    chart_specs.RunPoint("B", 0.02, 60.0, 60.0, 60.0),
    chart_specs.RunPoint("C", 0.03, 90.0, 85.0, 95.0),
]


def test_runs_that_another_beats_on_both_are_marked() -> None:
    values = chart_specs.score_against_cost(POINTS)["data"]["values"]
    assert [(each["label"], each["beaten"]) for each in values] == [
        ("A", False),
        ("B", True),
        ("C", False),
    ]


def histogram(*values: float) -> list[dict[str, float]]:
    spec = chart_specs.latency_distribution([("A", values)])
    return [each for each in spec["data"]["values"] if "share" in each]


@pytest.mark.parametrize("values", [(1.0,), (0.0, 0.0), (1.0, 2.0, 3.0), (0.01, 0.02, 0.02, 60.0)])
def test_every_latency_is_in_one_bar(values: tuple[float, ...]) -> None:
    bars = histogram(*values)
    assert sum(bar["share"] for bar in bars) == pytest.approx(1.0)
    assert all(bar["start"] < bar["end"] for bar in bars)


def test_a_few_slow_answers_make_the_axis_logarithmic() -> None:
    even = chart_specs.latency_distribution([("A", [1.0, 2.0, 3.0])])
    skewed = chart_specs.latency_distribution([("A", [0.1, 0.2, 0.2, 60.0])])
    for spec, kind in ((even, "linear"), (skewed, "log")):
        assert spec["spec"]["layer"][0]["encoding"]["x"]["scale"]["type"] == kind


def test_a_spec_is_plain_data() -> None:
    cells = [chart_specs.CaseCell("A", "one", "#case-0", COLOURS["passed"])]
    for spec in (
        chart_specs.score_against_cost(POINTS),
        chart_specs.pass_matrix(["A"], ["one"], cells),
    ):
        assert json.loads(json.dumps(spec)) == spec


def test_a_drawing_uses_the_pages_colours_and_links_into_the_page() -> None:
    cells = [chart_specs.CaseCell("A", "one", "#case-0", COLOURS["failed"])]
    drawn = svg(chart_specs.pass_squares(cells), 'the "label" <b>')
    assert "var(--chart-failed)" in drawn
    assert not any(colour in drawn for colour in COLOURS.values())
    assert 'href="#case-0"' in drawn
    assert 'aria-label="the &quot;label&quot; &lt;b&gt;"' in drawn
    assert "http" not in drawn


def test_names_in_a_drawing_are_escaped() -> None:
    drawn = svg(chart_specs.latency_distribution([("<script>x", [1.0]), ("b", [2.0])]), "latency")
    assert "<script" not in drawn
    assert "&lt;script" in drawn
