"""Places that the luck of attempts allows."""

from __future__ import annotations

import math

import pytest
from tests.store.contest_samples import a_challenge

from tallymark.challenges.challenge import DimensionWeight, ScoringRule
from tallymark.challenges.likely_places import UNBOUNDED, find_likely_places, find_scale
from tallymark.formula.ranges import Range


def test_who_overlaps_may_change_places_and_who_is_apart_may_not() -> None:
    found = find_likely_places(
        {
            "high": [900, 905, 895, 900],
            "near": [890, 910, 880, 900],
            "low": [100, 105, 95],
        }
    )
    assert {agent: (each.first, each.last) for agent, each in found.items()} == {
        "high": (1, 2),
        "near": (1, 2),
        "low": (3, 3),
    }


def test_few_tries_and_tries_that_are_all_alike_say_nothing() -> None:
    alike, few = [5, 5, 5, 5], [1, 9]
    assert find_likely_places({"alike": alike, "few": few, "fine": [1, 2, 3]}) == {}


def test_an_interval_stays_inside_the_scale() -> None:
    tries = {"high": [1000, 1000, 900], "low": [0, 5, 60]}
    free = find_likely_places(tries)
    assert free["high"].high > 1000
    assert free["low"].low < 0
    found = find_likely_places(tries, Range(0.0, 1000.0))
    assert (found["high"].low, found["high"].high) == (free["high"].low, 1000.0)
    assert (found["low"].low, found["low"].high) == (0.0, free["low"].high)


@pytest.mark.parametrize(
    ("rule", "scale"),
    [
        (ScoringRule(formula="100 * succeeded"), Range(0.0, 100.0)),
        (ScoringRule(formula="1000 - tokens_total"), Range(-math.inf, 1000.0)),
        (ScoringRule(dimensions=(DimensionWeight(key="speed", weight=1.0),)), Range(0.0, 1000.0)),
        (ScoringRule(plugin="scorer.py:Own"), UNBOUNDED),
    ],
)
def test_a_scale_is_what_the_rule_says(rule: ScoringRule, scale: Range) -> None:
    assert find_scale(a_challenge(scoring=rule)) == scale
