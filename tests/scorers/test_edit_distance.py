from __future__ import annotations

from typing import Any

import pytest
from tests.scorers.contexts import NOTHING, said

from tallymark.errors import ScorerError
from tallymark.scorers.edit_distance import edit_distance


@pytest.mark.parametrize(
    ("options", "output", "expected", "value", "reason"),
    [
        ({}, "kitten", "sitting", 4 / 7, "3 edits in 7 characters"),
        ({}, "Paris", "Paris", 1.0, "0 edits in 5 characters"),
        ({}, "kitten", ["mitten", "sitting"], 5 / 6, "1 edits in 6 characters"),
        ({}, " Paris\n", "Paris", 1.0, "0 edits in 5 characters"),
        ({"strip": False}, "Paris\n", "Paris", 5 / 6, "1 edits in 6 characters"),
        ({}, "PARIS", "paris", 0.0, "5 edits in 5 characters"),
        ({"ignore_case": True}, "PARIS", "paris", 1.0, "0 edits in 5 characters"),
        ({}, "東京", "東海", 0.5, "1 edits in 2 characters"),
        ({}, "", "", 1.0, "0 edits in 0 characters"),
        ({}, "x", "", 0.0, "1 edits in 1 characters"),
        ({}, "", "Paris", 0.0, "Empty output"),
        ({}, "42", 42, 1.0, "0 edits in 2 characters"),
    ],
)
def test_the_fewer_edits_the_better(
    options: dict[str, Any], output: str, expected: Any, value: float, reason: str
) -> None:
    score = edit_distance(**options).score(said(output, output=expected))
    assert score.value == pytest.approx(value)
    assert score.reason == reason


def test_a_text_too_long_to_compare_is_no_zero() -> None:
    score = edit_distance(max_length=10).score(said("x" * 11, output="y"))
    assert score.value is None
    assert score.error == "edit_distance: a text has 11 characters, more than max_length=10"
    assert edit_distance(max_length=1).score(said("x", output="y")).value == 0.0
    assert edit_distance(max_length=11).score(said("x" * 11, output="y")).value == 0.0


@pytest.mark.parametrize(
    ("expected", "message"),
    [
        (None, "edit_distance needs expected.output, and none was given"),
        ([1], "edit_distance compares texts, and expected.output is [1] (list); for data, use"),
    ],
)
def test_nothing_to_compare_with_is_no_zero(expected: Any, message: str) -> None:
    score = edit_distance().score(said("x", output=expected))
    assert score.value is None
    assert message in str(score.error)
    assert edit_distance().score(NOTHING).value is None


@pytest.mark.parametrize("options", [{"max_length": 0}, {"max_length": 1.5}, {"strip": None}])
def test_refused_options(options: dict[str, Any]) -> None:
    with pytest.raises(ScorerError, match=next(iter(options))):
        edit_distance(**options)
