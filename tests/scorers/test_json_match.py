from __future__ import annotations

import json
from typing import Any

import pytest
from tests.scorers.contexts import NOTHING, said

from tallymark.errors import ScorerError
from tallymark.scorers.json_match import json_match

ANN = {"name": "Ann", "age": 30, "tags": ["a", "b"]}


@pytest.mark.parametrize(
    ("expected", "output", "value", "reason"),
    [
        (ANN, ANN, 1.0, "4 of 4 values match"),
        (ANN, {**ANN, "more": 1}, 1.0, "4 of 4 values match"),
        (ANN, {**ANN, "age": 31}, 0.75, "3 of 4 values match (differs at $.age)"),
        (ANN, {**ANN, "age": "30"}, 0.75, "3 of 4 values match (differs at $.age)"),
        (ANN, {**ANN, "tags": ["a"]}, 0.75, "3 of 4 values match (differs at $.tags[1])"),
        (ANN, {**ANN, "tags": ["a", "b", "c"]}, 0.8, "4 of 5 values match (differs at $.tags[2])"),
        (ANN, {**ANN, "tags": "a"}, 0.5, "2 of 4 values match (differs at $.tags)"),
        (ANN, [], 0.0, "0 of 4 values match (differs at $)"),
        (ANN, None, 0.0, "0 of 4 values match (differs at $)"),
        ({"a": None}, {"a": None}, 1.0, "1 of 1 values match"),
        ({"a": None}, {}, 0.0, "0 of 1 values match (differs at $.a)"),
        ({"a": 1}, {"a": 1.0}, 1.0, "1 of 1 values match"),
        ({"a": 1}, {"a": True}, 0.0, "0 of 1 values match (differs at $.a)"),
        ({}, {"a": 1}, 1.0, "1 of 1 values match"),
        ([], [1], 0.0, "0 of 1 values match (differs at $)"),
        (7, 7, 1.0, "1 of 1 values match"),
        (False, False, 1.0, "1 of 1 values match"),
        ({"città": "東京"}, {"città": "東京"}, 1.0, "1 of 1 values match"),
    ],
)
def test_the_share_of_leaves_that_match(
    expected: Any, output: Any, value: float, reason: str
) -> None:
    score = json_match().score(said(json.dumps(output), output=expected))
    assert (score.value, score.reason) == (value, reason)


@pytest.mark.parametrize(
    ("expected", "output", "value"),
    [
        ({"a": 1}, {"a": 1}, 1.0),
        ({"a": 1}, {"a": 1, "b": 2}, 0.5),
        ({"a": {"b": 1}}, {"a": {"b": 1, "c": [1, 2]}}, 1 / 3),
        ({}, {}, 1.0),
        ({}, {"a": 1}, 0.0),
    ],
)
def test_exact_keys_count_what_was_not_expected(expected: Any, output: Any, value: float) -> None:
    ctx = said(json.dumps(output), output=expected)
    assert json_match(exact_keys=True).score(ctx).value == value


def test_expected_text_is_read_as_json() -> None:
    assert json_match().score(said('{"a": 1}', output='{ "a": 1.0 }')).value == 1.0
    assert json_match().score(said("null", output="null")).value == 1.0


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        ("", "Empty output"),
        (" \n", "Empty output"),
        ("Sure!", "Output is not valid JSON: Expecting value: line 1 column 1 (char 0)"),
        ("```\n7\n```", "Output is not valid JSON: Expecting value: line 1 column 1 (char 0)"),
        ("[" * 100_000, "Output is not valid JSON: it is nested too deeply"),
    ],
)
def test_output_that_is_no_json_is_a_zero(output: str, reason: str) -> None:
    score = json_match().score(said(output, output=7))
    assert (score.value, score.reason) == (0.0, reason)


def test_json_in_a_fence_is_taken_when_asked_for() -> None:
    assert json_match(fenced=True).score(said("So:\n```json\n7\n```", output=7)).value == 1.0


@pytest.mark.parametrize(
    ("expected", "message"),
    [
        ({}, "json_match needs expected.output, and none was given"),
        ({"output": None}, "json_match needs expected.output, and none was given"),
        ({"output": "Paris"}, "json_match: expected.output is not valid JSON: Expecting value"),
    ],
)
def test_nothing_to_compare_with_is_no_zero(expected: dict[str, Any], message: str) -> None:
    score = json_match().score(said("{}", **expected))
    assert score.value is None
    assert message in str(score.error)
    assert json_match().score(NOTHING).value is None


@pytest.mark.parametrize("options", [{"exact_keys": 1}, {"fenced": None}, {"exact": True}])
def test_refused_options(options: dict[str, Any]) -> None:
    with pytest.raises(ScorerError, match=next(iter(options))):
        json_match(**options)
