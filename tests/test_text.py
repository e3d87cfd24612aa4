"""Numbers, lines and tables as people read them; text that others wrote cannot do harm."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallymark.text import (
    Table,
    add_known,
    align_numbers,
    clean,
    clean_excerpt,
    clean_line,
    format_count,
    format_difference,
    format_digits,
    format_moment,
    format_money,
    format_p_value,
    format_percent,
    format_score,
    format_seconds,
    format_share,
    format_utc_moment,
    list_some,
    quote_some,
    shorten,
    shorten_line,
)


@pytest.mark.parametrize(
    ("write", "value", "text"),
    [
        (format_score, 4519.774, "4519.77"),
        (format_score, 0, "0.00"),
        (format_score, -12.345, "-12.35"),
        (format_score, 0.012345, "0.01235"),
        (format_score, 3e15, "3e+15"),
        (format_score, None, "undefined"),
        (format_money, 0.0177, "$0.0177"),
        (format_money, 12.5, "$12.50"),
        (format_money, 1234.5, "$1,234.50"),
        (format_money, 0.000123, "$0.00012"),
        (format_money, -0.5, "-$0.5000"),
        (format_money, 0, "$0"),
        (format_money, None, "unknown"),
        (format_seconds, 0.084, "84 ms"),
        (format_seconds, 0.84, "0.84 s"),
        (format_seconds, 95, "95 s"),
        (format_seconds, None, "unknown"),
        (format_percent, 80, "80.0%"),
        (format_percent, None, "unknown"),
        (format_p_value, 0.0004, "< 0.001"),
        (format_p_value, 0.0314, "0.031"),
        (format_p_value, 1, "1.00"),
        (format_p_value, None, "unknown"),
        (format_utc_moment, 1_760_000_000, "2025-10-09 08:53 UTC"),
        (format_utc_moment, None, "unknown"),
        (format_moment, 1_760_000_000, "2025-10-09 08:53"),
        (format_share, 0.8, "80 %"),
        (format_share, None, "-"),
        (format_digits, 4519.774, "4519.774"),
        (format_digits, None, "-"),
    ],
)
def test_numbers(write: Callable[[float | None], str], value: float | None, text: str) -> None:
    assert write(value) == text


@pytest.mark.parametrize(
    ("parts", "total"),
    [
        ([0.1, 0.1, 0.1], 0.3),
        ([0.1, 0.2, None], None),
        ([1 / 3], 1 / 3),
        ([1, 2**60], 2**60 + 1),
        ([], 0),
    ],
)
def test_sums_are_exact(parts: list[float | None], total: float | None) -> None:
    assert add_known(parts) == total


def test_differences_have_a_sign() -> None:
    assert format_difference(format_money, 0.5) == "+$0.5000"
    assert format_difference(format_score, -2.0) == "-2.00"
    assert format_difference(format_score, None) == "undefined"


@pytest.mark.parametrize(("count", "text"), [(0, "0 cases"), (1, "1 case"), (1200, "1,200 cases")])
def test_things_are_counted(count: int, text: str) -> None:
    assert format_count(count, "case") == text


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("plain", "plain"),
        ("naïve 漢字 🎉", "naïve 漢字 🎉"),
        ("two\r\nlines\rthree", "two\nlines\nthree"),
        ("\x1b[31mred\x1b[0m", "[31mred[0m"),
        ("nul\x00 bell\x07 c1\x9b", "nul bell c1"),
        ("half \ud83d pair", "half  pair"),
        ("turned \u202egnp.exe", "turned gnp.exe"),
        ("\ufffe\uffff", ""),
    ],
)
def test_what_is_harmful_goes(text: str, cleaned: str) -> None:
    assert clean(text) == cleaned


def test_what_is_cut_says_how_much() -> None:
    assert clean_excerpt("abcdef", 4) == "abcd… (2 more characters)"
    assert clean_excerpt("abcd", 4) == "abcd"
    assert clean_excerpt("x" * 5_000_000, 10) == "xxxxxxxxxx… (4,999,990 more characters)"


@given(st.text(st.characters(codec=None)), st.integers(1, 50))
def test_one_line_is_one_line_and_fits(text: str, most: int) -> None:
    line = clean_line(text, most)
    assert len(line) <= most
    assert "\n" not in line
    line.encode("utf-8")


@pytest.mark.parametrize(
    ("text", "shown"), [("", ""), ("abcde", "abcde"), ("abcdef", "ab..."), ("äöüäöüä", "äö...")]
)
def test_a_long_text_is_shortened(text: str, shown: str) -> None:
    assert shorten(text, 5) == shown


@pytest.mark.parametrize(
    ("texts", "line"),
    [
        ([], ""),
        (["a"], "a"),
        (["a", "b", "c"], "a; b; c"),
        (["a", "b", "c", "d", "e"], "a; b; c; and 2 more"),
        (["x" * 40], "x" * 40),
        (["x" * 41], "x" * 37 + "..."),
    ],
)
def test_a_long_list_is_cut(texts: list[str], line: str) -> None:
    assert list_some(texts, between="; ", most=3) == line


def test_quoted_texts_keep_their_closing_quote() -> None:
    assert quote_some(["a\n", "x" * 38, "y" * 39]) == rf"'a\n', '{'x' * 38}', '{'y' * 35}...'"


def test_a_line_of_ours_is_one_line_and_fits() -> None:
    assert shorten_line(" a\n b ") == "a b"
    assert shorten_line("abcdef", 5) == "ab..."


def test_columns_are_aligned() -> None:
    assert str(Table(("NAME", "N"), [("a", "1"), ("bcdef", "10")], right=("N",))).split("\n") == [
        "NAME    N",
        "a       1",
        "bcdef  10",
    ]
    assert align_numbers([("case", "mean"), ("a", "0.5")]) == ["case  mean", "a      0.5"]
    assert align_numbers([]) == []
