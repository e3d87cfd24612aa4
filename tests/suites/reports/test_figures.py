"""Numbers as people write them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tallymark.suites.reports import figures


@pytest.mark.parametrize(
    ("write", "value", "text"),
    [
        (figures.score, 4519.774, "4519.77"),
        (figures.score, 0, "0.00"),
        (figures.score, -12.345, "-12.35"),
        (figures.score, 0.012345, "0.01235"),
        (figures.score, 3e15, "3e+15"),
        (figures.score, None, "undefined"),
        (figures.money, 0.0177, "$0.0177"),
        (figures.money, 12.5, "$12.50"),
        (figures.money, 1234.5, "$1,234.50"),
        (figures.money, 0.000123, "$0.00012"),
        (figures.money, -0.5, "-$0.5000"),
        (figures.money, 0, "$0"),
        (figures.money, None, "unknown"),
        (figures.seconds, 0.084, "84 ms"),
        (figures.seconds, 0.84, "0.84 s"),
        (figures.seconds, 95, "95 s"),
        (figures.seconds, None, "unknown"),
        (figures.percent, 80, "80.0%"),
        (figures.percent, None, "unknown"),
        (figures.p_value, 0.0004, "< 0.001"),
        (figures.p_value, 0.0314, "0.031"),
        (figures.p_value, 1, "1.00"),
        (figures.p_value, None, "unknown"),
        (figures.moment, 1_760_000_000, "2025-10-09 08:53 UTC"),
        (figures.moment, None, "unknown"),
    ],
)
def test_numbers(write: Callable[[float | None], str], value: float | None, text: str) -> None:
    assert write(value) == text


def test_differences_have_a_sign() -> None:
    assert figures.signed(figures.money, 0.5) == "+$0.5000"
    assert figures.signed(figures.score, -2.0) == "-2.00"
    assert figures.signed(figures.score, None) == "undefined"


@pytest.mark.parametrize(("count", "text"), [(0, "0 cases"), (1, "1 case"), (1200, "1,200 cases")])
def test_things_are_counted(count: int, text: str) -> None:
    assert figures.counted(count, "case") == text
