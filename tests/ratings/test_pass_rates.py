"""Rates over attempts, by hand and against counting every draw."""

from __future__ import annotations

import math
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallymark.errors import InvalidInput
from tallymark.ratings import (
    AttemptRates,
    Counts,
    Match,
    RatingEstimate,
    attempt_rates,
    best_of_k,
    learning_curve,
    pass_at_k,
    pass_hat_k,
    suggest_tier,
)
from tallymark.ratings.joint_fit import make_estimate
from tallymark.ratings.pass_rates import wilson_interval


def tries(agent: str, challenge: str, results: str) -> list[Match]:
    words = {"w": "win", "d": "draw", "l": "loss", "x": "expired"}
    return [Match(agent, challenge, "veteran", words[letter]) for letter in results]


@pytest.mark.parametrize(
    ("attempts", "successes", "k", "at_k", "hat_k"),
    [
        (10, 3, 1, 0.3, 0.3),  # pass@1 is the share of successes
        (5, 2, 3, 0.9, 0.0),  # 1 - C(3,3)/C(5,3) = 1 - 1/10; two successes cannot fill three
        (5, 2, 2, 0.7, 0.1),  # 1 - C(3,2)/C(5,2) = 1 - 3/10; C(2,2)/10
        (4, 3, 2, 1.0, 0.5),  # no two failures; C(3,2)/C(4,2) = 3/6
        (4, 0, 2, 0.0, 0.0),
        (4, 4, 4, 1.0, 1.0),
    ],
)
def test_pass_at_k_and_pass_hat_k(
    attempts: int, successes: int, k: int, at_k: float, hat_k: float
) -> None:
    assert pass_at_k(attempts, successes, k) == at_k
    assert pass_hat_k(attempts, successes, k) == hat_k


def test_with_fewer_than_k_attempts_the_rates_are_unknown() -> None:
    assert pass_at_k(2, 2, 3) is None
    assert pass_hat_k(2, 2, 3) is None
    assert best_of_k([1.0, 2.0], 3) is None


@given(st.lists(st.booleans(), min_size=1, max_size=8), st.integers(1, 8))
def test_the_rates_are_those_of_all_draws(results: list[bool], k: int) -> None:
    draws = list(combinations(results, k))
    if not draws:
        return
    made, won = len(results), sum(results)
    assert pass_at_k(made, won, k) == pytest.approx(sum(map(any, draws)) / len(draws))
    assert pass_hat_k(made, won, k) == pytest.approx(sum(map(all, draws)) / len(draws))
    assert best_of_k([float(r) for r in results], k) == pytest.approx(pass_at_k(made, won, k))


def test_the_best_of_two_of_three() -> None:
    # The draws are (1, 2), (1, 3) and (2, 3): their best are 2, 3 and 3.
    assert best_of_k([3, 1, 2], 2) == pytest.approx(8 / 3)


def test_rates_are_means_over_challenges_and_say_how_many_had_enough_attempts() -> None:
    log = tries("alice", "maze", "wlwl") + tries("alice", "heist", "w")
    # pass@1: (2/4 + 1/1) / 2. With k = 2 only the maze counts: 1 - C(2,2)/C(4,2) and C(2,2)/C(4,2).
    wanted = AttemptRates(2, 0.75, 5 / 6, 1 / 6, 2, 1)
    assert attempt_rates(log, 2) == {"alice": wanted}
    assert attempt_rates(Counts.of(log), 2) == attempt_rates(log, 2)


def test_k_attempts_are_enough_for_k() -> None:
    # Two of two: 1 - C(1,2)/C(2,2) = 1 and C(1,2)/C(2,2) = 0.
    assert attempt_rates(tries("bob", "maze", "wl"), 2) == {
        "bob": AttemptRates(2, 0.5, 1.0, 0.0, 1, 1)
    }


def test_rates_without_enough_attempts_are_none() -> None:
    assert attempt_rates(tries("bob", "maze", "dx"), 3) == {
        "bob": AttemptRates(3, 0.0, None, None, 1, 0)
    }


def test_the_learning_curve_counts_by_attempt_number() -> None:
    log = [
        *tries("alice", "maze", "lw"),
        *tries("bob", "maze", "dww"),
        *tries("alice", "heist", "w"),
    ]
    curve = learning_curve(log)
    counted = [(point.attempt, point.attempts, point.successes, point.rate) for point in curve]
    assert counted == [(1, 3, 1, 1 / 3), (2, 2, 2, 1.0), (3, 1, 1, 1.0)]
    assert learning_curve([]) == ()


@pytest.mark.parametrize(
    ("attempts", "successes", "low", "high"),
    [
        # z^2 = 3.8415: (0.8 + 0.19207 -+ 1.96 sqrt(0.016 + 0.0096037)) / 1.38415
        (10, 8, 0.49016, 0.94332),
        (10, 0, 0.0, 0.27753),  # z^2 / (10 + z^2)
        (10, 10, 0.72247, 1.0),
        (0, 0, 0.0, 1.0),
    ],
)
def test_wilson_intervals(attempts: int, successes: int, low: float, high: float) -> None:
    assert wilson_interval(attempts, successes) == pytest.approx((low, high), abs=1e-5)


@pytest.mark.parametrize(
    ("difficulty", "tier"),
    [
        (-500, "newcomer"),
        (899.9, "newcomer"),
        (900, "contender"),
        (1099.9, "contender"),
        (1100, "veteran"),
        (1299.9, "veteran"),
        (1300, "legendary"),
        (3000, "legendary"),
    ],
)
def test_the_tier_suggested_is_the_nearest_and_the_harder_of_two(
    difficulty: float, tier: str
) -> None:
    exact = make_estimate(difficulty, 0.0, 0.0, 1, difficulty)
    assert suggest_tier(exact).tier == tier


@pytest.mark.parametrize(("low", "high", "sure"), [(950, 1050, True), (850, 1150, False)])
def test_a_suggestion_is_sure_if_the_interval_lies_in_the_tier(
    low: float, high: float, sure: bool
) -> None:
    estimate = RatingEstimate(1000, low, high, 50.0, 50.0, 10, low, provisional=False)
    assert suggest_tier(estimate).sure is sure


@pytest.mark.parametrize(
    ("attempts", "successes", "k"), [(-1, 0, 1), (3, -1, 1), (3, 4, 1), (3, 1, 0), (3, 1, -2)]
)
def test_counts_that_cannot_be_are_refused(attempts: int, successes: int, k: int) -> None:
    with pytest.raises(InvalidInput):
        pass_at_k(attempts, successes, k)
    with pytest.raises(InvalidInput):
        pass_hat_k(attempts, successes, k)


@pytest.mark.parametrize("score", [math.nan, math.inf])
def test_a_score_that_is_not_finite_is_refused(score: float) -> None:
    with pytest.raises(InvalidInput, match="not finite"):
        best_of_k([1.0, score], 1)
