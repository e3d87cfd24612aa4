"""Histograms: every value in one bar, bars as tall as their counts."""

from __future__ import annotations

import statistics

import pytest
from tests.charts.svg_places import HOSTILE, check_harmless, find, read, texts

from tallymark.charts.frame import Chart
from tallymark.charts.histogram import draw_histogram, find_median


def draw(*series: tuple[str, list[float]]) -> Chart:
    return draw_histogram("Latency", series, "Seconds", lambda value: f"{value:g} s")


def counts(chart: Chart) -> list[int]:
    said = [rect[0].text or "" for rect in read(chart).iter("rect")]
    return [int(each.split()[0].replace(",", "")) for each in said]


def test_bars_are_where_their_values_are() -> None:
    """The axis goes from 0 to 15 in 6 bars; the tallest has 114 of 146 pixels, with its count."""
    chart = draw(("all", [1.7, 1.7, 14.0]))
    first, last = find(chart, "rect")
    assert (first["x"], first["y"], first["height"]) == ("0.5%", "32", "114")
    assert (last["x"], last["height"]) == ("83.83%", "57")
    assert {"2", "1"} <= set(texts(chart))
    (median,) = find(chart, "line", "median")
    assert median["x1"] == median["x2"] == "11.33%"


def test_many_values_make_more_bars_and_values_that_are_close_their_own_axis() -> None:
    assert "0" not in texts(draw(("all", [80.0, 90.0, 95.0])))
    assert len(find(draw(("all", [float(n) for n in range(1000)])), "rect")) == 28


@pytest.mark.parametrize(
    "values", [[1.0], [0.0, 0.0], [1.0, 2.0, 3.0], [0.01, 0.02, 0.02, 60.0], [-3.0, 1e15]]
)
def test_every_value_is_in_one_bar(values: list[float]) -> None:
    chart = draw(("all", values))
    assert sum(counts(chart)) == len(values)
    check_harmless(chart)


def test_a_few_slow_answers_make_the_axis_logarithmic() -> None:
    assert "Seconds" in texts(draw(("A", [1.0, 2.0, 3.0])))
    assert "Seconds, logarithmic" in texts(draw(("A", [0.1, 0.2, 0.2, 60.0])))


def test_several_series_share_the_axis_and_have_their_names() -> None:
    chart = draw(("A fast", [1.0]), ("B slow", [3.0, 4.0]), ("C none", []))
    assert {"A fast", "B slow", "median 1 s", "median 3.5 s"} <= set(texts(chart))
    assert chart.notes == ["Without any value: C none."]
    assert chart.rows[1] == ("B slow", "2", "3 s", "3.5 s", "4 s", "4 s")


def test_no_values_are_said() -> None:
    assert texts(draw()) == texts(draw(("A", []))) == ["There are no values."]


def test_hostile_names_and_many_values() -> None:
    chart = draw((HOSTILE, [n / 7 for n in range(500)]), ("b", [2.0]))
    check_harmless(chart)
    assert sum(counts(chart)) == 501


@pytest.mark.parametrize("values", [[3.0], [1.0, 2.0], [1.0, 2.0, 9.0], [1.0, 2.0, 3.0, 4.0]])
def test_the_median_is_the_one_that_everybody_computes(values: list[float]) -> None:
    median = statistics.median(values)
    chart = draw(("all", values))
    assert chart.rows[0][3] == f"{median:g} s"
    assert f"median {median:g} s" in texts(chart)
    assert find_median(values) == median


def test_most_values_are_within_what_is_said() -> None:
    assert draw(("all", [float(n) for n in range(1, 101)])).rows[0][4] == "95 s"
