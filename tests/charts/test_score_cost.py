"""Score against cost: points, whiskers and the frontier at the right places."""

from __future__ import annotations

import pytest
from tests.charts.svg_places import HOSTILE, check_harmless, find, read, texts

from tallymark.charts.score_cost import RunPoint, draw_score_cost

POINTS = [
    RunPoint("A", 0.01, 80.0, (70.0, 90.0)),
    RunPoint("B", 0.02, 60.0),
    RunPoint("C", 0.03, 90.0, (85.0, 100.0)),
]


def test_points_are_where_their_numbers_are() -> None:
    """X goes from 0 to 0.03, y from 60 at 220 pixels to 100 at 0."""
    found = {
        (svg.attrib["x"], circle.attrib["cy"], circle.attrib["class"])
        for svg in read(draw_score_cost(POINTS)).iter("svg")
        for circle in svg.findall("circle")
    }
    assert found == {
        ("33.33%", "110", "dot"),
        ("66.67%", "220", "dot rest"),
        ("100%", "55", "dot"),
    }


def test_whiskers_go_from_low_to_high_with_caps() -> None:
    drawn = find(draw_score_cost(POINTS), "path", "rest")
    assert [each["d"] for each in drawn] == [
        "M0 165V55M-4 165H4M-4 55H4",
        "M0 82.5V0M-4 82.5H4M-4 0H4",
    ]


def test_an_interval_that_is_far_off_does_not_set_the_axis() -> None:
    wild = RunPoint("D", 0.02, 100.0, (-7_384_310.0, 100.0))
    chart = draw_score_cost([*POINTS, wild])
    assert "-7" not in "".join(texts(chart))
    drawn = [each["d"] for each in find(chart, "path", "rest")]
    assert "M0 220V0M-4 220H4M-4 0H4" in drawn  # down to the edge of the chart
    assert "M0 165V55M-4 165H4M-4 55H4" in drawn  # the others as without it


def test_the_frontier_steps_along_the_runs_that_none_beats() -> None:
    (front,) = find(draw_score_cost(POINTS), "path", "front")
    assert front["d"] == "M333.3 110H1000V55H1000"


@pytest.mark.parametrize(
    ("points", "filled"),
    [
        ([(1, 50), (1, 50)], 2),
        ([(1, 50), (1, 60)], 1),
        ([(1, 50), (2, 50)], 1),
        ([(1, 50), (2, 60)], 2),
        ([(2, 50), (1, 60)], 1),
    ],
)
def test_a_run_is_beaten_by_one_that_is_better_in_one_and_no_worse_in_the_other(
    points: list[tuple[float, float]], filled: int
) -> None:
    chart = draw_score_cost([RunPoint("x", cost, score) for cost, score in points])
    assert len(find(chart, "circle", "dot")) == filled


def test_costs_over_decades_are_drawn_by_powers_of_ten() -> None:
    chart = draw_score_cost([RunPoint("a", 0.001, 1.0), RunPoint("b", 1.0, 2.0)])
    assert "Total cost in US dollars, logarithmic" in texts(chart)
    assert {"$0.001", "$0.01", "$0.1", "$1"} <= set(texts(chart))


def test_a_free_run_is_at_zero_and_an_unknown_cost_is_said() -> None:
    chart = draw_score_cost([RunPoint("free", 0.0, 5.0), RunPoint("dear", None, 5.0)])
    assert len(find(chart, "circle")) == 1
    assert chart.notes == ["Not drawn, for lack of a score or a cost: dear."]
    assert chart.rows == [("free", "$0", "5.00", "none"), ("dear", "unknown", "5.00", "none")]


def test_nothing_to_draw_is_said() -> None:
    chart = draw_score_cost([RunPoint("a", 0.1, None)])
    assert texts(chart) == ["No run has both a score and a cost."]
    check_harmless(chart)


@pytest.mark.parametrize("width", [270, 1000])
def test_names_never_overlap(width: int) -> None:
    points = [RunPoint(f"name {n}", 0.01 * (n % 7), 50.0 + n % 5) for n in range(60)]
    boxes = []
    for svg in read(draw_score_cost(points)).iter("svg"):
        for text in svg.findall("text") if "x" in svg.attrib else ():
            wide = 6.8 * len(text.text or "")
            share = {"start": 0.0, "middle": 0.5, "end": 1.0}[text.attrib["text-anchor"]]
            at = width / 100 * float(svg.attrib["x"].rstrip("%")) + float(text.attrib["x"])
            boxes.append((at - share * wide, at + (1 - share) * wide, float(text.attrib["y"])))
    assert len(boxes) > 5
    for place, one in enumerate(boxes):
        for other in boxes[:place]:
            apart = one[1] <= other[0] + 0.1 or other[1] <= one[0] + 0.1
            assert apart or abs(one[2] - other[2]) >= 13


@pytest.mark.parametrize("count", [0, 1, 2, 500])
def test_any_number_of_runs_with_any_name(count: int) -> None:
    chart = draw_score_cost([RunPoint(HOSTILE, 10.0 ** (n % 9), n * 1e12) for n in range(count)])
    check_harmless(chart)
    assert len(find(chart, "circle")) == len(chart.rows) == count
    assert not {"\x00", "\u202e"} & {*chart.svg}


def test_names_cross_no_whisker_and_runs_that_are_compared_are_marked_whatever_is_there() -> None:
    crowd = [RunPoint("a name", 0.01 + n / 5000, 50.0, (1.0, 99.0)) for n in range(20)]
    chart = draw_score_cost([*crowd, RunPoint("A one", 0.012, 50.0, (1.0, 99.0), "A")])
    drawn = [(text.text, float(text.attrib["y"])) for text in read(chart).iter("text")]
    # Whiskers go from 2.2 to 217.8.
    assert not [y for name, y in drawn if name == "a name" and 2.2 < y < 217.8]
    assert "A" in texts(chart)
