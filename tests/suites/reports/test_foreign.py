"""Text that others wrote cannot move a cursor, break XML or fill a page."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallymark.suites.reports.foreign import clean, cut, one_line


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
    assert cut("abcdef", 4) == "abcd… (2 more characters)"
    assert cut("abcd", 4) == "abcd"
    assert cut("x" * 5_000_000, 10) == "xxxxxxxxxx… (4,999,990 more characters)"


@given(st.text(st.characters(codec=None)), st.integers(1, 50))
def test_one_line_is_one_line_and_fits(text: str, most: int) -> None:
    line = one_line(text, most)
    assert len(line) <= most
    assert "\n" not in line
    line.encode("utf-8")
