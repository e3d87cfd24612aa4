"""The joint fit: against a plain reference, its laws, and what it refuses."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.effort import examples
from tests.ratings.random_logs import logs, pairs

from tallymark.errors import InvalidInput
from tallymark.ratings import Counts, Fit, Match, Pair, RatingEstimate, fit

SCALE = 400 / math.log(10)


def estimates(fitted: Fit) -> list[RatingEstimate]:
    return [*fitted.strengths.values(), *fitted.difficulties.values()]


def values(fitted: Fit) -> list[float]:
    return [estimate.value for estimate in estimates(fitted)]


def errors(fitted: Fit) -> list[tuple[float, float]]:
    return [(estimate.error, estimate.robust_error) for estimate in estimates(fitted)]


def reference(given: Sequence[Pair]) -> tuple[list[float], list[float], list[float]]:
    """Short steps with one full matrix, written from the definitions, for one connected group."""
    agents = sorted({pair.agent for pair in given})
    challenges = sorted({pair.challenge for pair in given})
    size = len(agents) + len(challenges)
    prior = (SCALE / 400) ** 2
    at = np.zeros(size)
    hessian = spread = np.eye(size)
    for _ in range(200):
        slope, hessian, spread = -prior * at, prior * np.eye(size), np.zeros((size, size))
        for pair in given:
            row = np.zeros(size)
            row[agents.index(pair.agent)] = 1
            row[len(agents) + challenges.index(pair.challenge)] = -1
            p = 1 / (1 + math.exp(-float(row @ at)))
            n = pair.wins + pair.draws + pair.losses
            slope = slope + row * (pair.wins + pair.draws / 2 - n * p)
            hessian = hessian + n * p * (1 - p) * np.outer(row, row)
            squares = pair.wins * (1 - p) ** 2 + pair.draws * (0.5 - p) ** 2 + pair.losses * p**2
            spread = spread + squares * np.outer(row, row)
        at = at + 0.7 * np.linalg.solve(hessian, slope)
    inverse, without_mean = np.linalg.inv(hessian), np.eye(size) - 1 / size
    plain = without_mean @ inverse @ without_mean
    robust = inverse @ spread @ inverse
    return (
        (1000 + SCALE * at).tolist(),
        (SCALE * np.sqrt(np.diag(plain))).tolist(),
        (SCALE * np.sqrt(np.diag(robust))).tolist(),
    )


@pytest.mark.parametrize(("agents", "challenges"), [(2, 2), (3, 5), (6, 2)])
def test_values_and_errors_are_those_of_the_reference(agents: int, challenges: int) -> None:
    draw = random.Random(7)
    given = [
        Pair(
            f"agent-{a}",
            f"challenge-{c}",
            draw.randint(0, 9),
            draw.randint(0, 4),
            draw.randint(1, 9),
        )
        for a in range(agents)
        for c in range(challenges)
    ]
    wanted, plain, robust = reference(given)
    fitted = fit(given, prior_sd=400, repeat_correlation=0)
    assert values(fitted) == pytest.approx(wanted, abs=1e-8)
    assert [error for error, _ in errors(fitted)] == pytest.approx(plain, abs=1e-8)
    assert [error for _, error in errors(fitted)] == pytest.approx(robust, abs=1e-8)


def test_one_pair_of_nine_wins_and_one_loss_by_hand() -> None:
    # By symmetry strength = -difficulty = u, and 9 - 10 p(2u) = (173.718 / 400)^2 u.
    low, high = 0.0, 5.0
    for _ in range(200):
        u = (low + high) / 2
        if 9 - 10 / (1 + math.exp(-2 * u)) > (SCALE / 400) ** 2 * u:
            low = u
        else:
            high = u
    fitted = fit([Pair("alice", "maze", wins=9, losses=1)], prior_sd=400, repeat_correlation=0)
    alice, maze = fitted.strengths["alice"], fitted.difficulties["maze"]
    assert alice.value == pytest.approx(1000 + SCALE * low, abs=1e-8)
    assert maze.value == pytest.approx(1000 - SCALE * low, abs=1e-8)
    assert alice.matches == maze.matches == 10


def test_the_interval_is_1_96_errors_to_either_side() -> None:
    alice = fit([Pair("alice", "maze", 3, 2, 1)]).strengths["alice"]
    assert alice.high - alice.value == pytest.approx(1.95996 * alice.error, rel=1e-5)
    assert alice.value - alice.low == pytest.approx(1.95996 * alice.error, rel=1e-5)


def test_95_percent_of_intervals_hold_the_truth() -> None:
    draw = random.Random(11)
    inside = total = 0
    for _ in range(20):
        strong = [draw.gauss(0, 200) for _ in range(20)]
        hard = [draw.gauss(0, 200) for _ in range(10)]
        mean = (sum(strong) + sum(hard)) / 30
        given = []
        for a, strength in enumerate(strong):
            for c, difficulty in enumerate(hard):
                p = 1 / (1 + 10 ** ((difficulty - strength) / 400))
                wins = sum(draw.random() < p for _ in range(20))
                given.append(Pair(f"agent-{a:02}", f"challenge-{c:02}", wins, 0, 20 - wins))
        for estimate, truth in zip(estimates(fit(given)), strong + hard, strict=True):
            inside += estimate.low <= 1000 + truth - mean <= estimate.high
            total += 1
    # A little more: that repeats of a pair are independent here is known only from themselves.
    assert 0.93 < inside / total < 0.985


def test_draws_are_half_wins_and_make_the_robust_error_smaller() -> None:
    drawn = fit([Pair("alice", "maze", draws=20), Pair("bob", "maze", 10, 0, 10)])
    alice, bob = drawn.strengths["alice"], drawn.strengths["bob"]
    assert alice.value == pytest.approx(bob.value, abs=1e-9)
    assert alice.robust_error < bob.robust_error
    assert alice.error == pytest.approx(bob.error)


@pytest.mark.parametrize("wins", [1, 100, 10**6, 10**9])
def test_an_agent_that_won_everything_stays_finite(wins: int) -> None:
    fitted = fit([Pair("alice", "maze", wins=wins), Pair("bob", "maze", 1, 0, 1)])
    alice = fitted.strengths["alice"]
    assert 1000 < alice.value < 10_000
    assert 0 < alice.error < 2000


def test_a_billion_matches_of_a_pair_are_fitted_as_well() -> None:
    n = 10**9
    fitted = fit(
        [
            Pair("alice", "maze", n, 0, n),
            Pair("bob", "maze", n, 0, 3),
            Pair("bob", "heist", 3, 0, n),
        ],
        repeat_correlation=0,
    )
    # Even odds; the prior does not see a difference as small as this.
    assert fitted.strengths["alice"].value == pytest.approx(
        fitted.difficulties["maze"].value, abs=1e-5
    )
    assert all(0 < error < 2000 for error, _ in errors(fitted))


def test_more_matches_make_the_interval_narrower() -> None:
    few = fit([Pair("alice", "maze", 5, 0, 5)], repeat_correlation=0).strengths["alice"]
    many = fit([Pair("alice", "maze", 500, 0, 500)], repeat_correlation=0).strengths["alice"]
    assert many.error < few.error / 5


def test_groups_that_never_met_are_reported() -> None:
    fitted = fit([Pair("alice", "maze", 3), Pair("charlie", "maze", 1), Pair("bob", "heist", 1)])
    assert not fitted.connected
    assert [(group.agents, group.challenges) for group in fitted.groups] == [
        (("alice", "charlie"), ("maze",)),
        (("bob",), ("heist",)),
    ]


def test_a_long_chain_of_matches_is_one_group() -> None:
    chain = [Pair(f"a{i}", f"c{j}", 1, 0, 1) for i in range(40) for j in (i, i + 1)]
    assert fit(chain).connected


def test_a_fit_of_nothing_is_empty() -> None:
    assert fit([]) == fit([Pair("alice", "maze")]) == Fit({}, {}, ())


def test_the_chance_is_the_logistic_of_the_gap() -> None:
    fitted = fit([Pair("alice", "maze", 3, 0, 1)])
    gap = fitted.strengths["alice"].value - fitted.difficulties["maze"].value
    assert fitted.chance("alice", "maze") == pytest.approx(1 / (1 + 10 ** (-gap / 400)))


def test_the_chance_is_not_known_between_groups_that_never_met() -> None:
    fitted = fit([Pair("alice", "maze", 3, 0, 1), Pair("bob", "heist", 1)])
    assert fitted.chance("alice", "heist") is None
    assert fitted.chance("bob", "heist") is not None


@pytest.mark.parametrize(
    ("wins", "losses", "gap", "error"),
    [
        (1, 0, 152.265134, 117.891121),
        (10, 0, 421.223078, 83.493106),
        (7, 3, 127.306649, 54.634047),
    ],
)
def test_one_pair_with_a_prior_of_300_on_its_gap(
    wins: int, losses: int, gap: float, error: float
) -> None:
    """The gap g solves wins - n P(g) = g (173.718 / 300)^2; its error is shared by both."""
    pair = Pair("alice", "maze", wins, 0, losses)
    fitted = fit([pair], prior_sd=300 / math.sqrt(2), repeat_correlation=0)
    alice, maze = fitted.strengths["alice"], fitted.difficulties["maze"]
    assert alice.value - maze.value == pytest.approx(gap, abs=1e-5)
    assert alice.error == pytest.approx(error, abs=1e-5)


def test_a_pair_played_a_thousand_times_counts_little_more_than_its_first_matches() -> None:
    others = [Pair(name, "heist", 2, 0, 2) for name in ("alice", "bob")]
    once = fit([*others, Pair("alice", "maze", 10)], repeat_correlation=0.5)
    often = fit([*others, Pair("alice", "maze", 1000)], repeat_correlation=0.5)
    # 10 matches count as 10 / 5.5 = 1.82, a thousand as 2.00.
    moved = often.strengths["alice"].value - once.strengths["alice"].value
    assert 0 < moved < 15
    assert often.strengths["alice"].matches == 1004


def test_results_that_never_vary_within_a_pair_are_one_result() -> None:
    """Half of the pairs won all, half lost all, at even odds: knowing one match tells the rest."""
    given = [
        Pair(f"agent-{a}", f"challenge-{c}", 20 * ((a + c) % 2), 0, 20 * ((a + c + 1) % 2))
        for a in range(8)
        for c in range(8)
    ]
    assert fit(given).repeat_correlation == pytest.approx(1, abs=0.02)
    even = [Pair(pair.agent, pair.challenge, 10, 0, 10) for pair in given]
    assert fit(even).repeat_correlation == 0


def test_who_wins_ten_of_ten_stands_above_nine_of_ten() -> None:
    """Its interval is wider, so the low end of that is lower: the order goes by the floor."""
    pool = [Pair(f"agent-{a}", f"challenge-{c}", 300, 0, 300) for a in range(9) for c in range(10)]
    perfect = [Pair("ann", f"challenge-{c}", 1) for c in range(10)]
    beaten = [Pair("bob", f"challenge-{c}", int(c > 0), 0, int(c == 0)) for c in range(10)]
    fitted = fit([*pool, *perfect, *beaten], repeat_correlation=0)
    ann, bob = fitted.strengths["ann"], fitted.strengths["bob"]
    assert ann.low < bob.low
    assert ann.floor > bob.floor
    # Wilson's lower limits for 10 and 9 of 10 are 0.7225 and 0.5958: 166 and 67 Elo above the
    # challenges, and a little less because these are not known exactly: by their error, 5.
    hard = fitted.difficulties["challenge-5"].value
    assert ann.floor - hard == pytest.approx(166, abs=8)
    assert bob.floor - hard == pytest.approx(67, abs=8)


@given(pairs, st.data())
def test_a_loss_in_place_of_a_win_never_makes_stronger(
    given: list[Pair], data: st.DataObject
) -> None:
    won = [at for at, pair in enumerate(given) if pair.wins]
    if won:
        at = data.draw(st.sampled_from(won))
        old = given[at]
        lost = Pair(old.agent, old.challenge, old.wins - 1, old.draws, old.losses + 1)
        before, after = fit(given), fit([*given[:at], lost, *given[at + 1 :]])
        assert after.strengths[old.agent].value < before.strengths[old.agent].value + 1e-6
        assert after.strengths[old.agent].floor < before.strengths[old.agent].floor + 0.5


@given(pairs, st.randoms(use_true_random=False))
def test_the_order_of_the_pairs_does_not_matter_to_the_bit(
    given: list[Pair], draw: random.Random
) -> None:
    shuffled = draw.sample(given, len(given))
    assert fit(shuffled) == fit(given)


@given(logs, st.integers(0, 60))
def test_refit_equals_incremental(log: list[Match], cut: int) -> None:
    counts = Counts.of(log[:cut])
    fit(counts)
    for match in log[cut:]:
        counts.add(match)
    assert fit(counts) == fit(log) == fit(list(Counts.of(log)))
    assert values(fit(counts)) == pytest.approx(values(fit(log)), abs=1e-6)


@given(pairs, st.floats(-1e4, 1e4))
def test_shifting_the_centre_shifts_every_value_and_no_error(
    given: list[Pair], shift: float
) -> None:
    plain, shifted = fit(given), fit(given, centre=1000 + shift)
    assert values(shifted) == pytest.approx([value + shift for value in values(plain)], abs=1e-6)
    assert errors(shifted) == errors(plain)


@given(pairs)
def test_the_mean_of_every_group_is_the_centre(given: list[Pair]) -> None:
    fitted = fit(given)
    for group in fitted.groups:
        members = [fitted.strengths[name].value for name in group.agents]
        members += [fitted.difficulties[name].value for name in group.challenges]
        assert sum(members) / len(members) == pytest.approx(1000, abs=1e-6)


@given(pairs)
def test_with_all_results_turned_values_are_mirrored(given: list[Pair]) -> None:
    turned = [Pair(p.agent, p.challenge, p.losses, p.draws, p.wins) for p in given]
    mirrored = [2000 - value for value in values(fit(given))]
    assert values(fit(turned)) == pytest.approx(mirrored, abs=1e-6)


@settings(max_examples=examples(50))
@given(pairs, st.floats(1, 1e5))
def test_every_number_is_finite_and_every_interval_open(given: list[Pair], sd: float) -> None:
    for estimate in estimates(fit(given, prior_sd=sd)):
        assert math.isfinite(estimate.robust_error)
        assert estimate.low < estimate.value < estimate.high
        assert math.isfinite(estimate.high - estimate.low)


@pytest.mark.parametrize("name", ["wins", "draws", "losses"])
@pytest.mark.parametrize("number", [-1, math.nan, 1.5, True])
def test_an_impossible_count_is_refused(name: str, number: int) -> None:
    with pytest.raises(InvalidInput, match=f"{name} of agent 'alice' at challenge 'maze'"):
        Pair("alice", "maze", **{name: number})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prior_sd": 0.0}, "prior_sd is 0.0"),
        ({"prior_sd": -1.0}, "prior_sd is -1.0"),
        ({"prior_sd": math.nan}, "prior_sd is nan"),
        ({"prior_sd": math.inf}, "prior_sd is inf"),
        ({"centre": math.nan}, "the centre is nan"),
        ({"repeat_correlation": 1.5}, "repeat_correlation is 1.5"),
        ({"repeat_correlation": math.nan}, "repeat_correlation is nan"),
    ],
)
def test_an_impossible_prior_is_refused(options: dict[str, float], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        fit([Pair("alice", "maze", 1)], **options)


def test_both_names_of_the_fixed_interface_work() -> None:
    from tallymark.ratings import elo

    assert elo.update(1000, "contender", "win", matches=0).after == 1016
    assert callable(fit)


def test_a_match_is_counted_as_what_it_was() -> None:
    results = ("win", "win", "draw", "loss", "loss", "loss", "expired")
    log = [Match("alice", "maze", "veteran", result) for result in results]
    assert list(Counts.of(log)) == [Pair("alice", "maze", wins=2, draws=1, losses=4)]
    assert fit(log).strengths["alice"].value < 1000 < fit(log).difficulties["maze"].value


def test_pairs_given_twice_are_added_up() -> None:
    twice: Iterable[Pair] = [Pair("alice", "maze", 1, 2, 3)] * 2
    assert list(Counts.of(twice)) == [Pair("alice", "maze", 2, 4, 6)]


@given(pairs, st.data())
def test_counts_without_one_are_those_that_never_had_it(
    given: list[Pair], data: st.DataObject
) -> None:
    if given:
        gone = data.draw(st.sampled_from(given))
        counts = Counts.of(given)
        left = counts.without(agent=gone.agent)
        assert list(left) == list(Counts.of(p for p in given if p.agent != gone.agent))
        left.add_pair(gone)
        more = [*(p for p in given if p.agent != gone.agent), gone]
        assert fit(left) == fit(more)
        others = [p for p in given if p.challenge != gone.challenge]
        assert fit(counts.without(challenge=gone.challenge)) == fit(others)
