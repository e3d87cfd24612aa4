"""Scales, ticks, text that keeps to its room, and the table behind a drawing."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.charts.svg_places import HOSTILE

from tallymark.charts.frame import (
    Chart,
    Scale,
    draw_x_axis,
    fit,
    make_log_scale,
    make_scale,
    measure,
    read_style,
    spans_decades,
)


@pytest.mark.parametrize(
    ("values", "ticks"),
    [
        ([20.9, 96.3], [20, 40, 60, 80, 100]),
        ([0.0, 0.3], [0, 0.1, 0.2, 0.3]),
        ([5.0, 5.0], [4.5, 5, 5.5]),
        ([0.0], [-1, -0.5, 0, 0.5, 1]),
        ([], [0, 0.5, 1]),
        ([-4e15, 9e15], [-5e15, 0, 5e15, 1e16]),
    ],
)
def test_ticks_are_round_and_hold_all_values(values: list[float], ticks: list[float]) -> None:
    found = make_scale(values)
    assert set(ticks) <= set(found.ticks)
    assert (found.low, found.high) == (ticks[0], ticks[-1])


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=5), st.booleans())
def test_any_numbers_have_a_scale_with_few_ticks(values: list[float], zero: bool) -> None:
    scale = make_scale(values, zero=zero)
    assert 1 <= len(scale.ticks) <= 12
    assert all(math.isfinite(tick) for tick in scale.ticks)
    assert all(0 <= scale.place(value) <= 1 for value in values)
    assert scale.low < scale.high


@given(st.lists(st.floats(min_value=1e-300, allow_infinity=False), min_size=1))
def test_any_numbers_above_zero_have_a_logarithmic_scale(values: list[float]) -> None:
    scale = make_log_scale(values)
    assert 1 <= len(scale.ticks) <= 8
    assert all(0 <= scale.place(value) <= 1 for value in values)


def test_a_logarithmic_scale_goes_by_powers_of_ten() -> None:
    scale = make_log_scale([0.02, 30.0])
    assert list(scale.ticks) == [0.01, 0.1, 1, 10, 100]
    assert scale.place(1.0) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("values", "expected"), [([0.01, 0.3], True), ([0.01, 0.02], False), ([0.0, 9.0], False)]
)
def test_only_decades_are_drawn_by_powers(values: list[float], expected: bool) -> None:
    assert spans_decades(values) is expected


def test_places_of_huge_values_do_not_overflow() -> None:
    assert Scale(-1.7e308, 1.7e308, ()).place(0.0) == 0.5


@given(st.text(max_size=80), st.integers(min_value=40, max_value=200))
def test_text_keeps_to_its_room(text: str, width: int) -> None:
    assert measure(fit(text, width)) <= width


def test_a_long_name_keeps_its_end() -> None:
    assert fit("a-very-long-name-of-a-case-17", 100) == "a-very-lo…e-17"
    assert fit("short", 100) == "short"


def test_values_below_the_plot_have_room_on_a_phone() -> None:
    scale = Scale(0, 100, range(0, 101, 5))
    drawn = draw_x_axis(scale, 10, lambda value: f"{value:,.2f} dollars")
    places = [float(place) for place in re.findall(r'x="([\d.]+)%"', drawn)]
    assert places[0] == 0
    assert 2 <= len(places) <= 3


def test_the_table_is_escaped_and_the_notes_are_said() -> None:
    chart = Chart("<svg/>", ("Run", "Score"), [(HOSTILE, "1")], ("One run <b>less</b>.",))
    page = chart.write_html()
    assert "<script" not in page
    assert "<b>" not in page
    assert '<th scope="row">&lt;/text&gt;' in page
    assert "One run &lt;b&gt;less&lt;/b&gt;." in page


def test_colours_are_tokens_and_each_is_there_in_light_and_in_dark() -> None:
    tokens, style = read_style().split("/* The svg is the plot", 1)
    assert not re.search(r"#[0-9a-f]{3,8}|rgb|hsl", style)
    known = set(re.findall(r"(--[\w-]+):", tokens))
    used = set(re.findall(r"var\((--[\w-]+)", style)) - {"--dim"}
    assert used <= known
    colours = [line for line in tokens.splitlines() if "#" in line]
    assert all(re.search(r"light-dark\(#[0-9a-f]{6}, #[0-9a-f]{6}\)", line) for line in colours)
    assert "@media print" in tokens
