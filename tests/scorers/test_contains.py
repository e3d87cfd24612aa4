from __future__ import annotations

from typing import Any

import pytest
from tests.scorers.contexts import NOTHING, said

from tallymark.errors import ScorerError
from tallymark.scorers.contains import contains


@pytest.mark.parametrize(
    ("options", "output", "value", "reason"),
    [
        ({"values": ["sun"]}, "sunny", 1.0, "Found 1 of 1"),
        ({"values": ["sun", "rain"]}, "sunny", 0.5, "Found 1 of 2 (missing: 'rain')"),
        ({"values": ["sun", "rain"]}, "snow", 0.0, "Found 0 of 2 (missing: 'sun', 'rain')"),
        ({"values": ["sun"]}, "Sun", 0.0, "Found 0 of 1 (missing: 'sun')"),
        ({"values": ["STRASSE"], "ignore_case": True}, "Straße", 1.0, "Found 1 of 1"),
        ({"values": ["東京", "🎉"]}, "東京 🎉", 1.0, "Found 2 of 2"),
        ({"values": ["sun"]}, "", 0.0, "Empty output"),
        ({"values": ["sun"]}, " \n", 0.0, "Empty output"),
        ({"values": [" "]}, " ", 1.0, "Found 1 of 1"),
        ({"values": ["a", "b"], "mode": "any"}, "b", 1.0, "Found 1 of 2 (missing: 'a')"),
        ({"values": ["a", "b"], "mode": "any"}, "c", 0.0, "Found 0 of 2 (missing: 'a', 'b')"),
    ],
)
def test_the_share_of_texts_found(
    options: dict[str, Any], output: str, value: float, reason: str
) -> None:
    score = contains(**options).score(said(output))
    assert (score.value, score.reason) == (value, reason)


def test_the_test_s_own_texts_are_used_unless_values_are_given() -> None:
    ctx = said("sunny", output_contains=["sun", "rain"])
    assert contains().score(ctx).value == 0.5
    assert contains(values=["sun"]).score(ctx).value == 1.0


@pytest.mark.parametrize("expected", [{}, {"output_contains": None}, {"output_contains": []}])
def test_nothing_to_look_for_is_no_zero(expected: dict[str, Any]) -> None:
    score = contains().score(said("sunny", **expected))
    assert score.value is None
    assert score.error == (
        "contains needs expected.output_contains or the option `values`, and none was given"
    )
    assert contains().score(NOTHING).value is None


def test_a_long_list_of_missing_texts_is_cut() -> None:
    score = contains(values=[f"word{n}" for n in range(20)]).score(said("x"))
    assert score.reason.endswith("'word7', and 12 more)")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"values": []}, "it must be a list of at least one text"),
        ({"values": [""]}, "it must be a list of texts that are not empty"),
        ({"values": "sun"}, "the option 'values' is 'sun'"),
        ({"mode": "some"}, "the option 'mode' is 'some'"),
    ],
)
def test_refused_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ScorerError) as refused:
        contains(**options)
    assert message in str(refused.value)


def test_some_texts_may_be_in_any_case() -> None:
    ctx = said("Sunny in PARIS", output_contains=["Sun"], output_icontains=["paris", "rain"])
    score = contains().score(ctx)
    assert (score.value, score.reason) == (2 / 3, "Found 2 of 3 (missing: 'rain')")
    assert contains().score(said("PAR", output_icontains=["par"])).value == 1.0
