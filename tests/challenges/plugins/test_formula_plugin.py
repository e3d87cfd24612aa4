"""Formulas as plugins."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallymark.challenges.plugins.formula_plugin import FormulaPlugin
from tallymark.challenges.plugins.plugin_samples import ORDINARY, SAMPLES
from tallymark.scoring import Origin


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("succeeded", 1.0),
        ("tokens_total", 1500.0),
        ("elapsed_ms", 12_000.0),
        ("elapsed_s", 12.0),
        ("rating", 8.0),
        ("created_at", 1_760_000_000_000.0),
        ("100 * succeeded + rating * 10 - elapsed_s - tokens_total * 0.01", 153.0),
        ("42", 42.0),
    ],
)
def test_a_formula_over_the_metrics(text: str, value: float) -> None:
    plugin = FormulaPlugin(text)
    assert plugin.score(ORDINARY, {}, {}).value == value
    assert [score.value for score in plugin.score_many([ORDINARY] * 3, {}, {})] == [value] * 3


def test_every_score_names_its_origin() -> None:
    plugin = FormulaPlugin("rating*10")
    origin = Origin("formula: rating * 10", plugin.code_hash, {})
    assert plugin.score(ORDINARY, {}, {}).origin == origin
    assert {score.origin.version for score in plugin.score_many([{}], {}, {}) if score.origin} == {
        plugin.code_hash
    }


def test_the_code_hash_is_of_the_formula_not_of_its_spaces() -> None:
    assert FormulaPlugin("rating*10").code_hash == FormulaPlugin(" rating * 10").code_hash
    assert FormulaPlugin("rating*10").code_hash != FormulaPlugin("rating * 11").code_hash


@pytest.mark.parametrize(
    ("metrics", "error"),
    [
        ({}, "rating has no value"),
        ({"rating": None}, "rating has no value"),
        ({"rating": 8}, "elapsed_s has no value"),
        ({"rating": 8, "elapsed_ms": 0}, "division by zero: elapsed_s is 0"),
        ({"rating": "8", "elapsed_ms": 1}, "the metric rating is a finite number, not '8'"),
        ({"rating": 10**400, "elapsed_ms": 1}, "the metric rating is a finite number, not 1000"),
        ({"rating": math.nan, "elapsed_ms": 1}, "rating"),
    ],
    ids=["empty", "null", "one missing", "zero", "text", "too large", "nan"],
)
def test_undefined_is_no_score_with_the_reason(metrics: dict[str, Any], error: str) -> None:
    plugin = FormulaPlugin("rating / elapsed_s")
    alone = plugin.score(metrics, {}, {})
    good = {"rating": 8, "elapsed_ms": 2000}
    before, batched, after = plugin.score_many([good, metrics, good], {}, {})
    assert alone == batched
    assert (alone.value, alone.metadata) == (None, {"stopped": "undefined"})
    assert error in (alone.error or "")
    assert (before.value, after.value) == (4.0, 4.0)


def test_a_negative_score_is_raised_to_0_and_that_is_recorded() -> None:
    score = FormulaPlugin("-rating").score(ORDINARY, {}, {})
    assert (score.value, score.metadata) == (0.0, {"clamped_from": -8.0})


def test_a_formula_takes_no_config() -> None:
    plugin = FormulaPlugin("rating")
    for score in (
        plugin.score(ORDINARY, {"weight": 2}, {}),
        *plugin.score_many([ORDINARY], {"weight": 2}, {}),
    ):
        assert score.value is None
        assert score.error == (
            "a formula takes no config, and there is 'weight'; write its number into the formula"
        )


@given(st.lists(st.sampled_from(list(SAMPLES.values())), max_size=20))
def test_many_are_scored_as_each_alone(attempts: list[dict[str, Any]]) -> None:
    plugin = FormulaPlugin("rating * succeeded - log(elapsed_s) / tokens_total")
    assert plugin.score_many(attempts, {}, {}) == [plugin.score(a, {}, {}) for a in attempts]
