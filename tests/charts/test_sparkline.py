"""A line in a row: its path, its end, its gaps."""

from __future__ import annotations

import pytest
from tests.charts.svg_places import check_harmless, find, texts

from tallymark.charts.sparkline import draw_sparkline


def test_the_lowest_is_at_the_bottom_and_the_newest_is_marked() -> None:
    chart = draw_sparkline("last 3 runs", [10, 30, 20])
    assert find(chart, "path")[0]["d"] == "M0 20 500 4 1000 12"
    assert find(chart, "circle")[0] == {"cx": "100%", "cy": "12", "r": "2.5"}
    assert "last 3 runs: 10 to 20" in chart.svg


@pytest.mark.parametrize(
    ("values", "shape"),
    [([5.0], "M0 12"), ([5, 5], "M0 12 1000 12"), ([1, None, 2], "M0 20M1000 4")],
)
def test_one_value_equal_ones_and_gaps(values: list[float | None], shape: str) -> None:
    chart = draw_sparkline("runs", values)
    assert find(chart, "path")[0]["d"] == shape
    check_harmless(chart)


@pytest.mark.parametrize("values", [[], [None]])
def test_no_values_are_said(values: list[None]) -> None:
    chart = draw_sparkline("runs", values)
    assert texts(chart) == ["none"]
    assert find(chart, "circle") == []
    check_harmless(chart)
