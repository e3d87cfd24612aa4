"""Pieces that hang between two values."""

from __future__ import annotations

import pytest
from tests.charts.svg_places import HOSTILE, check_harmless, find, texts

from tallymark.charts.waterfall import Piece, draw_waterfall
from tallymark.text import MINUS, format_score, format_seconds


def test_pieces_hang_where_they_begin_and_end() -> None:
    pieces = [Piece("all", 0, 2), Piece("plan", 0.5, 1.5, "model", 1)]
    chart = draw_waterfall("Trace", pieces, format_seconds)
    (plan,) = find(chart, "rect", "model")
    assert (plan["x"], plan["width"], plan["y"]) == ("25%", "50%", "49")
    assert texts(chart)[:2] == ["0 s", "2.00 s"]
    assert chart.rows[1] == ("plan", "0.50 s", "1.50 s", "1.00 s")


def test_what_is_lost_hangs_too() -> None:
    chart = draw_waterfall("Points", [Piece("score", 100, 80, "failed")], format_score)
    assert find(chart, "rect")[0]["width"] == "100%"
    assert chart.rows == [("score", "100.00", "80.00", f"{MINUS}20.00")]


def test_an_end_that_is_not_known_is_said_and_not_drawn() -> None:
    chart = draw_waterfall("Trace", [Piece("all", 0, 1), Piece("open", 0.5, None)], format_seconds)
    assert len(find(chart, "rect")) == 1
    assert "unknown" in texts(chart)
    assert chart.rows[1] == ("open", "0.50 s", "unknown", "unknown")


def test_a_piece_without_length_can_be_seen() -> None:
    (rect,) = find(draw_waterfall("Trace", [Piece("a", 1, 1)], format_seconds), "rect")
    assert rect["width"] == "0.6%"


@pytest.mark.parametrize("count", [0, 1, 2, 500])
def test_any_number_of_pieces_with_any_name(count: int) -> None:
    pieces = [Piece(HOSTILE, n, n + 1, depth=n) for n in range(count)]
    chart = draw_waterfall(HOSTILE, pieces, format_seconds)
    check_harmless(chart)
    assert len(find(chart, "rect")) == min(count, 200)
    assert list(chart.notes) == (["300 more pieces not drawn."] if count == 500 else [])
