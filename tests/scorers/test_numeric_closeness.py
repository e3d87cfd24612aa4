from __future__ import annotations

from typing import Any

import pytest
from tests.scorers.contexts import NOTHING, said

from tallymark.errors import ScorerError
from tallymark.scorers.numeric_closeness import numeric_closeness


@pytest.mark.parametrize(
    ("options", "output", "expected", "value"),
    [
        ({}, "100", 100, 1.0),
        ({}, "101", 100, 1.0),  # the tolerance is 1
        ({}, "105.5", 100, 0.5),  # halfway between 1 and 10
        ({}, "94.5", 100, 0.5),
        ({}, "94.5", ["7", "100"], 0.5),
        ({}, "110", 100, 0.0),
        ({}, "1e999", 100, 0.0),
        ({}, "0", 0, 1.0),
        ({}, "0.1", 0, 0.0),  # relative to 0 nothing is near
        ({"absolute": 1.0, "relative": 0}, "1", 0, 1.0),
        ({"absolute": 1.0, "relative": 0, "zero_at": 3}, "-2", 0, 0.5),
        ({"absolute": 5.0}, "105", 100, 1.0),
        ({"zero_at": 1}, "101", 100, 1.0),
        ({"zero_at": 1}, "101.1", 100, 0.0),
        ({}, "-99", -100, 1.0),
        ({"relative": 0}, "0.5", "0.5", 1.0),
        ({"relative": 0}, "1234.5", " 1,234.5 ", 1.0),
    ],
)
def test_the_nearer_the_better(
    options: dict[str, Any], output: str, expected: Any, value: float
) -> None:
    score = numeric_closeness(**options).score(said(output, output=expected))
    assert score.value == pytest.approx(value)


@pytest.mark.parametrize(
    ("output", "number"),
    [
        ("The answer is 42.", 42),
        ("First 7, then 42", 42),
        ("= $1,234,567.89!", 1234567.89),
        ("-3.5e-2", -0.035),
        ("(.5)", 0.5),
        ("so...5", 5),
        ("\u22127 °C", -7),  # a typographic minus
        ("GPT-4", 4),
        ("10-20", 20),
        ("version 1.2.3", 1.2),
        ("v2 gave 9", 9),
        ("50%", 50),
        ("٤٢", 42),
        ("約42円", None),
        ("v2", None),
        ("forty-two", None),
    ],
)
def test_the_last_number_of_the_output_counts(output: str, number: float | None) -> None:
    score = numeric_closeness(relative=0).score(said(output, output=number or 0))
    if number is None:
        assert (score.value, score.reason) == (0.0, "No number in the output")
    else:
        assert score.value == 1.0, score.reason


def test_or_the_first() -> None:
    assert numeric_closeness(take="first").score(said("7 or 42", output=7)).value == 1.0


def test_the_reason_names_both_numbers() -> None:
    assert numeric_closeness().score(said("41", output=42)).reason == "Got 41, expected 42"


@pytest.mark.parametrize("ctx", [said("", output=1), said(" \n", output=1)])
def test_an_empty_output_is_a_zero(ctx: Any) -> None:
    score = numeric_closeness().score(ctx)
    assert (score.value, score.reason) == (0.0, "Empty output")


@pytest.mark.parametrize(
    ("expected", "message"),
    [
        (None, "numeric_closeness needs expected.output, and none was given"),
        ("Paris", "numeric_closeness: expected.output is 'Paris', not a number"),
        ("1,5", "expected.output is '1,5', not a number"),
        (True, "expected.output is True, not a number"),
        (float("nan"), "expected.output is nan, not a number"),
        (10**400, "not a number"),
        ([1], "expected.output is [1] (list), not a number"),
    ],
)
def test_nothing_to_compare_with_is_no_zero(expected: Any, message: str) -> None:
    score = numeric_closeness().score(said("42", output=expected))
    assert score.value is None
    assert message in str(score.error)
    assert numeric_closeness().score(NOTHING).value is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"relative": -1}, "'relative' is -1.0; it must be a finite number, 0 or more"),
        ({"relative": float("inf")}, "'relative' is inf"),
        ({"zero_at": float("inf")}, "'zero_at' is inf"),
        ({"absolute": float("inf")}, "'absolute' is inf"),
        ({"zero_at": 0.5}, "'zero_at' is 0.5; it must be a finite number, 1 or more"),
        ({"zero_at": float("nan")}, "'zero_at' is nan"),
        ({"take": "middle"}, "the option 'take' is 'middle'"),
        ({"relative": None}, "the option 'relative' is None"),
    ],
)
def test_refused_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ScorerError) as refused:
        numeric_closeness(**options)
    assert message in str(refused.value)
