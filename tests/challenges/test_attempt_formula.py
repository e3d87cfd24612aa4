"""Formulas that score attempts, as plugins and as `scoring.formula`."""

from __future__ import annotations

import functools
import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.challenges.challenge_folders import attempt_at
from tests.store.contest_samples import a_challenge

from tallymark.challenges.attempt import Evaluation, Metrics, Outcome
from tallymark.challenges.attempt_formula import (
    AttemptFormula,
    challenge_formula,
    parse_formula_plugin,
)
from tallymark.challenges.attempt_scores import score_attempt
from tallymark.challenges.challenge import DimensionWeight, Evaluator, ScoringRule
from tallymark.challenges.plugins.plugin_check import ORDINARY, SAMPLES
from tallymark.formula import Formula
from tallymark.scoring import Origin


def as_plugin(text: str) -> AttemptFormula:
    return parse_formula_plugin(f"formula: {text}")


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
    plugin = as_plugin(text)
    assert plugin.score(ORDINARY, {}, {}).value == value
    assert [score.value for score in plugin.score_many([ORDINARY] * 3, {}, {})] == [value] * 3


def test_every_score_names_its_origin() -> None:
    plugin = as_plugin("rating*10")
    origin = Origin("formula: rating * 10", plugin.code_hash, {})
    assert plugin.score(ORDINARY, {}, {}).origin == origin
    assert {score.origin.version for score in plugin.score_many([{}], {}, {}) if score.origin} == {
        plugin.code_hash
    }


def test_the_code_hash_is_of_the_formula_not_of_its_spaces() -> None:
    assert as_plugin("rating*10").code_hash == as_plugin(" rating * 10").code_hash
    assert as_plugin("rating*10").code_hash != as_plugin("rating * 11").code_hash


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
    plugin = as_plugin("rating / elapsed_s")
    alone = plugin.score(metrics, {}, {})
    good = {"rating": 8, "elapsed_ms": 2000}
    before, batched, after = plugin.score_many([good, metrics, good], {}, {})
    assert alone == batched
    assert (alone.value, alone.metadata) == (None, {"stopped": "undefined"})
    assert error in (alone.error or "")
    assert (before.value, after.value) == (4.0, 4.0)


def test_a_formula_takes_no_config() -> None:
    plugin = as_plugin("rating")
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
    plugin = as_plugin("rating * succeeded - log(elapsed_s) / tokens_total")
    assert plugin.score_many(attempts, {}, {}) == [plugin.score(a, {}, {}) for a in attempts]


@pytest.mark.parametrize("tokens", [5, 11, 12, 22])
def test_a_limit_that_the_last_bit_decides_is_the_same_for_one_and_for_many(tokens: int) -> None:
    plugin = as_plugin(f"if(pow(10, 0 - tokens_total) < 1e-{tokens}, 0, 100)")
    attempts = [{**ORDINARY, "tokens_total": each} for each in (tokens, 1, tokens)]
    assert plugin.score_many(attempts, {}, {}) == [plugin.score(a, {}, {}) for a in attempts]


@pytest.mark.parametrize(("factor", "expected"), [(100, 97.0), (1, -2.0)])
def test_by_either_door_a_formula_gives_the_same_score(factor: int, expected: float) -> None:
    text = f"{factor} * succeeded + number - calls - cost - elapsed_s"
    challenge = a_challenge(scoring=ScoringRule(formula=text))
    plugin = msgspec.structs.replace(challenge, scoring=ScoringRule(plugin=f"formula: {text}"))
    metrics = Metrics(succeeded=True, calls=3, cost=0.5, elapsed_ms=1500)
    attempt = attempt_at(challenge, number=2)
    ask = functools.partial(score_attempt, evaluation=Evaluation(metrics=metrics), attempt=attempt)
    scores = [ask(challenge).score, ask(plugin, plugin=as_plugin(text)).score]
    assert scores == [expected, expected]


def test_the_formula_of_a_challenge_may_say_what_counts_where_it_has_no_value() -> None:
    formula = AttemptFormula(Formula.parse("rating - 9", ["rating"]))
    assert formula.score({}, {"undefined": 5}, {}).value == 5.0
    assert formula.score({}, {}, {}).error == "the formula has no value: rating has no value"


def test_values_of_an_attempt_that_was_scored() -> None:
    weights = tuple(DimensionWeight(key=key, weight=0.5) for key in ("correctness", "speed"))
    scoring = ScoringRule(formula="total + tokens_total + x", dimensions=weights)
    challenge = a_challenge(
        scoring=scoring, evaluator=Evaluator(type="reported", options={"metrics": ["x"]})
    )
    rule = challenge_formula(challenge)
    unscored = attempt_at(challenge)
    assert rule.values_of(challenge, unscored) == dict.fromkeys(("total", "tokens_total", "x"))
    metrics = Metrics(tokens_total=7, more={"x": 2.0})
    outcome = Outcome(score=1.0, metrics=metrics, dimensions={"correctness": 900.0, "speed": 100.0})
    scored = msgspec.structs.replace(unscored, outcome=outcome)
    assert rule.values_of(challenge, scored) == {"total": 500.0, "tokens_total": 7.0, "x": 2.0}


def test_an_evaluators_own_metric_may_be_called_total_where_there_are_no_dimensions() -> None:
    own = Evaluator(type="reported", options={"metrics": ["total"]})
    challenge = a_challenge(scoring=ScoringRule(formula="total * 2"), evaluator=own)
    evaluation = Evaluation(metrics=Metrics(more={"total": 4.0}))
    assert score_attempt(challenge, evaluation, attempt=attempt_at(challenge)).score == 8.0
