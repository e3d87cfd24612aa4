"""`WeightedScorer`, with every number that the document has for it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from services.scorers.weighted import WeightedScorer as ByItsOldName

from tallymark.errors import ScorerError
from tallymark.scoring import AttemptMetrics, ScorerProtocol, ScoringResult, WeightedScorer

GOOD: dict[str, Any] = {
    "succeeded": True,
    "rating": 8,
    "elapsed_ms": 12_000,
    "tokens_total": 1500,
    "created_at": 1_760_000_000_000,
}
HUGE = 10**400
EXAMPLE_SETUP = {
    "success_bonus": 100.0,
    "rating_weight": 15.0,
    "time_penalty": 0.5,
    "token_penalty": 0.02,
}


def weighted(metrics: Mapping[str, Any], config: Mapping[str, Any] | None = None) -> ScoringResult:
    scorer: ScorerProtocol = WeightedScorer()
    return scorer.score(cast("AttemptMetrics", metrics), dict(config or {}), {})


def score(metrics: Mapping[str, Any]) -> float:
    return weighted(metrics)["score"]


def _short(value: object) -> str | None:
    return "huge" if value == HUGE else None


def test_services_scorers_weighted_is_the_same_class() -> None:
    assert ByItsOldName is WeightedScorer


def test_success_bonus_default_100() -> None:
    assert score({"succeeded": True}) == 100


def test_rating_weight_default_10() -> None:
    assert score({"rating": 1}) == 10


def test_time_penalty_default_1_0_per_second() -> None:
    assert score({"succeeded": True, "elapsed_ms": 1000}) == 100 - 1.0


def test_token_penalty_default_0_01_per_token() -> None:
    assert score({"succeeded": True, "tokens_total": 1}) == 100 - 0.01


def test_the_formula_is_that_of_the_document() -> None:
    assert score(GOOD) == 100 + 8 * 10 - 12 * 1.0 - 1500 * 0.01 == 153


def test_example_configuration_is_the_defaults() -> None:
    example = {
        "success_bonus": 100.0,
        "rating_weight": 10.0,
        "time_penalty": 1.0,
        "token_penalty": 0.01,
    }
    assert weighted(GOOD, example) == weighted(GOOD)


def test_example_challenge_setup_100_15_half_and_0_02() -> None:
    assert weighted(GOOD, EXAMPLE_SETUP)["score"] == 100 + 8 * 15 - 12 * 0.5 - 1500 * 0.02 == 184


def test_scores_are_clamped_at_0() -> None:
    slow = {"succeeded": True, "elapsed_ms": 150_000}
    result = weighted(slow)
    assert result["score"] == 0
    assert (result["details"] or {})["unclamped"] == -50


def test_the_bonus_is_for_successful_attempts_only() -> None:
    assert score({**GOOD, "succeeded": False}) == 153 - 100


def test_the_details_give_every_term() -> None:
    assert weighted(GOOD, EXAMPLE_SETUP)["details"] == {
        "success": 100.0,
        "rating": 120.0,
        "time": -6.0,
        "tokens": -30.0,
        "unclamped": 184.0,
        "weights": EXAMPLE_SETUP,
    }


@pytest.mark.parametrize(
    ("name", "without"),
    [("rating", 73), ("elapsed_ms", 165), ("tokens_total", 168), ("created_at", 153)],
)
def test_a_metric_that_is_missing_or_null_counts_as_0(name: str, without: float) -> None:
    missing = {key: value for key, value in GOOD.items() if key != name}
    assert score(missing) == score({**GOOD, name: None}) == without


@pytest.mark.parametrize(
    "metrics", [{}, dict.fromkeys(GOOD), dict.fromkeys(GOOD, 0)], ids=["empty", "nulls", "zeros"]
)
def test_nothing_known_scores_0(metrics: Any) -> None:
    assert score(metrics) == 0


@pytest.mark.parametrize("key", list(EXAMPLE_SETUP))
@pytest.mark.parametrize("value", [None, "10", True, math.nan, math.inf, HUGE, [1]], ids=_short)
def test_a_config_value_that_is_no_number_is_named(key: str, value: object) -> None:
    with pytest.raises(ScorerError, match=f"the config's {key} is a finite number, not "):
        weighted(GOOD, {key: value})


def test_an_unknown_config_key_is_an_error_with_the_nearest_name() -> None:
    with pytest.raises(ScorerError, match="unknown key 'time_penlty'; did you mean 'time_penalty'"):
        weighted(GOOD, {"time_penlty": 1})


def test_an_unknown_config_key_is_answered_with_the_known_ones() -> None:
    with pytest.raises(ScorerError, match="it takes success_bonus, rating_weight, time_penalty"):
        weighted(GOOD, {"x": 1})


@pytest.mark.parametrize("name", ["rating", "elapsed_ms", "tokens_total"])
@pytest.mark.parametrize("value", ["8", True, math.nan, HUGE], ids=_short)
def test_a_metric_that_is_no_number_is_named(name: str, value: object) -> None:
    with pytest.raises(ScorerError, match=f"the metric {name} is a finite number, not "):
        weighted({**GOOD, name: value})


@pytest.mark.parametrize("value", ["no", 2, []])
def test_succeeded_is_true_or_false(value: Any) -> None:
    with pytest.raises(ScorerError, match="the metric succeeded is true or false, not "):
        weighted({"succeeded": value})


_whole = st.integers(0, 10**9)


@given(st.booleans(), st.integers(0, 10), _whole, _whole)
def test_the_terms_add_up_and_success_never_costs(
    succeeded: bool, rating: int, elapsed_ms: int, tokens: int
) -> None:
    metrics = {
        "succeeded": succeeded,
        "rating": rating,
        "elapsed_ms": elapsed_ms,
        "tokens_total": tokens,
    }
    result = weighted(metrics)
    details = result["details"] or {}
    total = sum(details[term] for term in ("success", "rating", "time", "tokens"))
    assert details["unclamped"] == total
    assert result["score"] == max(total, 0.0)
    assert score({**metrics, "succeeded": True}) >= score({**metrics, "succeeded": False})
