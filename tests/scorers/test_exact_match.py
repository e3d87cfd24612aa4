from __future__ import annotations

from typing import Any

import pytest
from tests.scorers.contexts import NOTHING, said

from tallymark.errors import ScorerError
from tallymark.scorers.exact_match import exact_match

LONG = "The quick brown fox jumps over the lazy dog"


@pytest.mark.parametrize(
    ("options", "output", "expected", "equal"),
    [
        ({}, "Paris", "Paris", True),
        ({}, " Paris\n", "Paris", True),
        ({"strip": False}, " Paris\n", "Paris", False),
        ({}, "paris", "Paris", False),
        ({"ignore_case": True}, "PARIS", "Paris", True),
        ({"ignore_case": True}, "STRASSE", "Straße", True),
        ({}, "a  b\nc", "a b c", False),
        ({"normalize_whitespace": True}, " a  b\nc ", "a b c", True),
        ({}, "東京🎉", "東京🎉", True),
        ({}, "two", ["2", "two"], True),
        ({}, "three", ["2", "two"], False),
        ({}, "", "", True),
        ({}, "", "Paris", False),
        ({}, "Paris", "", False),
        ({}, "42", 42, True),
        ({}, "0.5", 0.5, True),
        ({}, "true", True, True),
        ({}, "True", True, False),
    ],
)
def test_equal_or_not(options: dict[str, Any], output: str, expected: Any, equal: bool) -> None:
    assert exact_match(**options).score(said(output, output=expected)).value == float(equal)


@pytest.mark.parametrize(
    ("options", "output", "expected", "reason"),
    [
        ({}, "Paris", "Paris", "Output equals the expected text"),
        ({}, "  ", "Paris", "Empty output"),
        ({}, "Lyon", "Paris", "Expected 'Paris', got 'Lyon'"),
        ({"strip": False}, "Paris\n", "Paris", r"Expected 'Paris', got 'Paris\n'"),
        ({}, f"{LONG}.", f"{LONG}!", "Expected '!', got '.' at character 44"),
        ({}, LONG, f"{LONG}!", "Expected '!', got '' at character 44"),
        ({}, "x" * 50, "y", f"Expected 'y', got '{'x' * 35}...'"),
    ],
)
def test_the_reason_shows_the_difference(
    options: dict[str, Any], output: str, expected: str, reason: str
) -> None:
    assert exact_match(**options).score(said(output, output=expected)).reason == reason


@pytest.mark.parametrize(
    ("expected", "message"),
    [
        ({}, "exact_match needs expected.output, and none was given"),
        ({"output": None}, "exact_match needs expected.output, and none was given"),
        (
            {"output": {"a": 1}},
            "exact_match compares texts, and expected.output is {'a': 1} (dict)",
        ),
    ],
)
def test_nothing_to_compare_with_is_no_zero(expected: dict[str, Any], message: str) -> None:
    score = exact_match().score(said("Paris", **expected))
    assert score.value is None
    assert message in str(score.error)
    assert exact_match().score(NOTHING).value is None


@pytest.mark.parametrize("options", [{"strip": "yes"}, {"ignore_case": None}, {"trim": True}])
def test_refused_options(options: dict[str, Any]) -> None:
    with pytest.raises(ScorerError, match=next(iter(options))):
        exact_match(**options)
