"""Lines: points in place, the band around the first, gaps where a value is undefined."""

from __future__ import annotations

from itertools import pairwise

import pytest
from tests.charts.svg_places import HOSTILE, check_harmless, find, texts

from tallymark.charts.lines import Line, LinePoint, draw_lines
from tallymark.text import MINUS


def test_a_line_and_its_band_are_where_their_numbers_are() -> None:
    """X goes from 0 to 4; y from 0 at 220 pixels to 100 at 0."""
    points = [LinePoint(0, 50, (0, 100)), LinePoint(1, 25, (0, 50)), LinePoint(4, 75, (50, 100))]
    chart = draw_lines("Rating", [Line("fit", points)])
    assert find(chart, "path", "line")[0]["d"] == "M0 110 250 165 1000 55"
    assert find(chart, "path", "band")[0]["d"] == "M0 0 250 110 1000 0 1000 110 250 220 0 220Z"
    assert find(chart, "circle", "dot")[-1] == {"class": "dot", "cx": "100%", "cy": "55", "r": "5"}
    assert texts(chart)[-1] == "75"
    assert "At the end: fit 75." in chart.svg


def test_below_zero_stands_the_sign_of_its_own() -> None:
    chart = draw_lines("Gain", [Line("Mean", [LinePoint(0, -20.0), LinePoint(1, 10.0)])])
    assert f"{MINUS}20" in chart.svg
    assert ">-" not in chart.svg
    assert chart.rows[0][2] == f"{MINUS}20"


def test_what_is_undefined_leaves_a_gap_and_is_said() -> None:
    points = [LinePoint(0, 1.0), LinePoint(1, 3.0), LinePoint(2, None), LinePoint(3, 2.0)]
    chart = draw_lines("Rating", [Line("fit", points)])
    assert [each["d"] for each in find(chart, "path", "line")] == ["M0 220 333.3 0", "M1000 110"]
    assert chart.notes == ["1 value undefined, not drawn."]
    assert chart.rows[2] == ("fit", "2", "undefined", "none")


def test_other_readings_are_dashed_and_their_names_keep_apart() -> None:
    lines = [Line(name, [LinePoint(0, 1.0), LinePoint(1, 2.0)]) for name in ("fit", "Elo", "mean")]
    chart = draw_lines("Rating", lines)
    assert len(find(chart, "path", "other")) == 2
    names = sorted(float(each["y"]) for each in find(chart, "text") if "dx" in each)
    assert len(names) == 3
    assert all(later - sooner >= 15 for sooner, later in pairwise(names))


@pytest.mark.parametrize("lines", [[], [Line("a", [LinePoint(0, None)])]])
def test_no_values_are_said(lines: list[Line]) -> None:
    assert texts(draw_lines("Rating", lines)) == ["There are no values."]


@pytest.mark.parametrize("count", [1, 2, 500])
def test_any_number_of_points_with_any_name(count: int) -> None:
    points = [LinePoint(n, 7.0, (6.0, 8.0)) for n in range(count)]
    chart = draw_lines("Rating", [Line(HOSTILE, points)])
    check_harmless(chart)
    assert len(chart.rows) == count
