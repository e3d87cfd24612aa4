"""Elo of the document and of DESIGN, number by number."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.ratings.random_logs import logs

from tallymark.errors import InvalidInput
from tallymark.ratings import RESULTS, TIERS, EloChange, EloRating, Match, elo

ratings = st.integers(elo.FLOOR, 4000)


def test_everyone_starts_at_1000() -> None:
    # One draw at even odds: 32 x (0.5 - 0.5) = 0.
    log = [Match("alice", "maze", "contender", "draw")]
    assert elo.replay(log) == {"alice": EloRating(1000, matches=1, draws=1)}


@pytest.mark.parametrize(
    ("tier", "rating"),
    [("newcomer", 800), ("contender", 1000), ("veteran", 1200), ("legendary", 1400)],
)
def test_the_opponent_is_the_tier_newcomer_800_contender_1000_veteran_1200_legendary_1400(
    tier: str, rating: int
) -> None:
    for result in RESULTS:
        by_tier = elo.update(1000, tier, result, matches=0)
        assert by_tier == elo.update(1000, rating, result, matches=0)
    assert elo.update(rating, tier, "draw", matches=0).expected == 0.5


@pytest.mark.parametrize(
    ("matches", "k", "change"), [(0, 32, 16), (29, 32, 16), (30, 16, 8), (1000, 16, 8)]
)
def test_k_is_32_for_the_first_30_matches_then_16(matches: int, k: int, change: int) -> None:
    got = elo.update(1000, "contender", "win", matches=matches)
    assert (got.k, got.change) == (k, change)  # K x (1 - 0.5)


# E against +200 is 1 / (1 + 10^0.5) = 1 / 4.16228 = 0.240253, against -200 it is 0.759747,
# against +400 it is 1 / 11 = 0.090909.
@pytest.mark.parametrize(
    ("tier", "result", "change"),
    [
        ("newcomer", "win", 8),  # 32 x 0.240253 = 7.69
        ("newcomer", "draw", -8),  # 32 x -0.259747 = -8.31
        ("newcomer", "loss", -24),  # 32 x -0.759747 = -24.31
        ("contender", "win", 16),
        ("contender", "draw", 0),
        ("contender", "loss", -16),
        ("veteran", "win", 24),
        ("veteran", "draw", 8),
        ("veteran", "loss", -8),
        ("legendary", "win", 29),  # 32 x 10 / 11 = 29.09
        ("legendary", "draw", 13),  # 32 x 9 / 22 = 13.09
        ("legendary", "loss", -3),  # 32 x -1 / 11 = -2.91
    ],
)
def test_the_change_is_k_times_score_minus_expectation_rounded(
    tier: str, result: str, change: int
) -> None:
    got = elo.update(1000, tier, result, matches=0)
    assert (got.before, got.change, got.after) == (1000, change, 1000 + change)


@pytest.mark.parametrize(
    ("tier", "matches", "facts", "bonus", "change"),
    [
        ("contender", 0, "", 1.0, 16),
        ("contender", 0, "memoryless first_attempt", 1.0, 16),  # not verified: nothing counts
        ("contender", 0, "verified", 1.1, 18),  # 17.6
        ("contender", 0, "verified memoryless", 1.1, 18),
        ("contender", 0, "verified first_attempt", 1.1, 18),
        ("contender", 0, "verified memoryless first_attempt", 1.2, 19),  # 19.2
        ("legendary", 0, "verified", 1.1, 32),  # 29 x 1.1 = 31.9
        ("legendary", 0, "verified memoryless first_attempt", 1.2, 35),  # 29 x 1.2 = 34.8
        # 16 x 10 / 11 = 14.55, so 15; 15 x 1.1 = 16.5, a half, goes up.
        ("legendary", 30, "verified", 1.1, 17),
    ],
)
def test_a_verified_win_gains_1_1x_and_a_benchmark_grade_win_1_2x(
    tier: str, matches: int, facts: str, bonus: float, change: int
) -> None:
    true = dict.fromkeys(facts.split(), True)
    got = elo.update(1000, tier, "win", matches=matches, **true)
    assert (got.bonus, got.change) == (bonus, change)


@pytest.mark.parametrize("result", ["draw", "loss", "expired"])
def test_only_a_win_has_a_bonus(result: str) -> None:
    plain = elo.update(1000, "legendary", result, matches=0)
    proven = elo.update(
        1000, "legendary", result, matches=0, verified=True, memoryless=True, first_attempt=True
    )
    assert proven == plain


def test_a_match_left_to_expire_is_a_loss() -> None:
    expired = elo.update(1000, "contender", "expired", matches=0)
    assert expired == elo.update(1000, "contender", "loss", matches=0)
    assert expired == EloChange(1000, 984, -16, 0.5, 32, 1.0)


def test_the_floor_is_100_and_the_change_says_what_was_really_lost() -> None:
    got = elo.update(105, 105, "loss", matches=0)  # -16 would be 89
    assert (got.after, got.change) == (100, -5)


@pytest.mark.parametrize(
    ("value", "rounded"),
    [(2.5, 3), (-2.5, -2), (0.5, 1), (-0.5, 0), (1.5, 2), (-1.5, -1), (0.49999999999999994, 0)],
)
def test_halves_go_up_also_below_zero(value: float, rounded: int) -> None:
    assert elo.half_up(value) == rounded


@given(st.floats(-1e6, 1e6))
def test_rounding_is_the_exact_floor_of_a_half_more(value: float) -> None:
    assert elo.half_up(value) == math.floor(Fraction(value) + Fraction(1, 2))


@given(ratings, ratings, st.sampled_from(["win", "draw", "loss"]), st.sampled_from([0, 30]))
def test_without_bonus_and_floor_elo_is_zero_sum_within_rounding(
    one: int, other: int, result: str, matches: int
) -> None:
    one, other = one + 32, other + 32  # above the reach of the floor
    mirrored = {"win": "loss", "draw": "draw", "loss": "win"}[result]
    first = elo.update(one, other, result, matches=matches)
    second = elo.update(other, one, mirrored, matches=matches)
    assert abs(first.change + second.change) <= 1
    assert first.expected + second.expected == pytest.approx(1, abs=1e-12)


@given(logs)
def test_no_rating_is_ever_under_the_floor(log: list[Match]) -> None:
    changes = [change for _, change in elo.history(log)]
    assert all(change.after >= elo.FLOOR for change in changes)
    rating = elo.FLOOR
    for match in log:
        rating = elo.update(rating, elo.FLOOR, match.result, matches=0).after
        assert rating >= elo.FLOOR


@given(ratings, st.sampled_from(sorted(TIERS)), st.integers(0, 60), st.booleans())
def test_a_better_result_never_gives_less(
    rating: int, tier: str, matches: int, verified: bool
) -> None:
    loss, draw, win = (
        elo.update(rating, tier, result, matches=matches, verified=verified).after
        for result in ("loss", "draw", "win")
    )
    assert loss <= draw <= win


@given(logs)
def test_replaying_a_log_gives_the_last_rating_of_its_history(log: list[Match]) -> None:
    last = {match.agent: change.after for match, change in elo.history(log)}
    replayed = elo.replay(log)
    assert {agent: rating.rating for agent, rating in replayed.items()} == last
    assert sum(r.wins + r.draws + r.losses for r in replayed.values()) == len(log)


@given(logs)
def test_agents_do_not_touch_each_others_ratings(log: list[Match]) -> None:
    alone = elo.replay(match for match in log if match.agent == "alice")
    assert alone.get("alice") == elo.replay(log).get("alice")


def test_the_first_attempt_is_read_from_the_log() -> None:
    win = Match("alice", "maze", "contender", "win", verified=True, memoryless=True)
    bonuses = [change.bonus for _, change in elo.history([win, win])]
    assert bonuses == [1.2, 1.1]


def test_the_30_matches_are_counted_in_the_log() -> None:
    log = [Match("alice", "maze", "contender", "draw")] * 31
    assert [change.k for _, change in elo.history(log)] == [32] * 30 + [16]


@pytest.mark.parametrize("opponent", [10**9, 10**400])
def test_an_opponent_far_away_is_no_overflow(opponent: int) -> None:
    assert elo.update(1000, opponent, "loss", matches=0).change == 0
    assert elo.update(opponent, 1000, "loss", matches=0).change == -32


@pytest.mark.parametrize(
    ("rating", "opponent", "result", "matches", "message"),
    [
        (1000, "contender", "wim", 0, "'wim' is not a result; did you mean 'win'?"),
        (1000, "contendor", "win", 0, "did you mean 'contender'"),
        (1000, "boss-level", "win", 0, "known are newcomer, contender, veteran, legendary"),
        (math.nan, "contender", "win", 0, "the rating is nan; give a whole number"),
        (1000, math.nan, "win", 0, "the opponent's rating is nan"),
        (99, "contender", "win", 0, "at least 100"),
        (True, "contender", "win", 0, "the rating is True"),
        (1000, "contender", "win", -1, "the number of matches is -1"),
    ],
)
def test_what_is_no_match_is_refused(
    rating: int, opponent: str, result: str, matches: int, message: str
) -> None:
    with pytest.raises(InvalidInput, match=message.replace("?", r"\?")):
        elo.update(rating, opponent, result, matches=matches)


@pytest.mark.parametrize(("tier", "result"), [("boss", "win"), ("veteran", "lost it")])
def test_a_match_of_unknown_tier_or_result_cannot_be_made(tier: str, result: str) -> None:
    with pytest.raises(InvalidInput):
        Match("alice", "maze", tier, result)
