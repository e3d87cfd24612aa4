"""Bars of dimensions: lengths, colours by name, and what is undefined."""

from __future__ import annotations

import pytest
from tests.charts.svg_places import HOSTILE, check_harmless, find, texts

from tallymark.charts.bars import Bar, draw_bars


def test_bars_are_as_long_as_their_values() -> None:
    bars = [Bar("Speed", 455, "Sky", (400, 500)), Bar("Style", 1)]
    chart = draw_bars("By dimension", bars, 1000)
    assert find(chart, "rect", "sky") == [
        {"class": "sky", "width": "45.5%", "y": "10", "height": "8", "rx": "2"}
    ]
    assert find(chart, "rect", "plain")[0]["width"] == "0.1%"
    whisker = find(chart, "line", "ends")
    assert (whisker[0]["x1"], whisker[0]["x2"]) == ("40%", "50%")


@pytest.mark.parametrize(("value", "width"), [(-5, "0%"), (0, "0%"), (2000, "100%")])
def test_a_bar_ends_at_the_edge(value: float, width: str) -> None:
    chart = draw_bars("t", [Bar("a", value, "gold")], 1000)
    assert find(chart, "rect", "gold")[0]["width"] == width


def test_a_dimension_without_a_value_has_no_bar_and_says_so() -> None:
    chart = draw_bars("t", [Bar("Style", None, "gold")], 1000)
    assert find(chart, "rect", "gold") == []
    assert texts(chart) == ["Style", "undefined"]
    assert chart.rows == [("Style", "undefined", "none")]


def test_a_colour_that_is_not_known_is_grey() -> None:
    assert find(draw_bars("t", [Bar("a", 1, '"><b>')], 10), "rect")[1]["class"] == "plain"


@pytest.mark.parametrize("count", [0, 1, 500])
def test_any_number_of_dimensions_with_any_name(count: int) -> None:
    check_harmless(draw_bars("t", [Bar(HOSTILE, 1e300)] * count, 1000))
