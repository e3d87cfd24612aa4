"""The strength of an agent as it grew."""

from __future__ import annotations

import pytest

from tallymark.ratings import Counts, Match, fit
from tallymark.ratings.joint_fit import Fit, RatingEstimate
from tallymark.ratings.strength_path import follow_strength


def make_log() -> list[Match]:
    results = {
        "alice": ("win", "win", "loss", "draw", "win", "win", "loss"),
        "bob": ("loss", "win", "loss", "loss", "draw", "win", "loss"),
        "carol": ("win", "loss", "win", "win", "win", "loss", "win"),
    }
    return [
        Match(agent, f"c{nth % 3}", "contender", result)
        for agent, some in results.items()
        for nth, result in enumerate(some)
    ]


def test_the_equation_has_the_joint_fit_as_its_solution() -> None:
    log = make_log()
    fitted = fit(Counts.of(log))
    for agent in ("alice", "bob", "carol"):
        mine = [each for each in log if each.agent == agent]
        # A further match, of which the points before the last know nothing.
        path = follow_strength(fitted, agent, [*mine, mine[-1]], 8)
        assert path[-2].match == len(mine)
        assert path[-2].value == pytest.approx(fitted.strengths[agent].value, abs=1e-4)
        assert path[-2].low < path[-2].value < path[-2].high


def test_the_last_point_is_the_strength_and_there_are_not_too_many() -> None:
    log = make_log()
    fitted = fit(Counts.of(log))
    mine = [each for each in log if each.agent == "bob"]
    for most in (1, 2, 3, 12):
        path = follow_strength(fitted, "bob", mine, most)
        now = fitted.strengths["bob"]
        assert (path[-1].value, path[-1].low, path[-1].high) == (now.value, now.low, now.high)
        assert [each.match for each in path] == sorted({each.match for each in path})
        assert path[-1].match == len(mine)
        assert len(path) <= most + 1


def test_one_win_against_a_known_difficulty_is_as_by_hand() -> None:
    """1 - p = (173.7 / 2000)^2 x gap: by bisection."""
    start = RatingEstimate(1000.0, 900.0, 1100.0, 50.0, 50.0, 9, 800.0, provisional=False)
    fitted = Fit({"a": start}, {"c": start}, ())
    win = Match("a", "c", "contender", "win")
    first, _ = follow_strength(fitted, "a", [win, win], 2)
    low, high = 1000.0, 9000.0
    for _ in range(200):
        middle = (low + high) / 2
        pull = 400 / 2.302585092994046 * (middle - 1000) / 2000**2
        if 1 - 1 / (1 + 10 ** ((1000 - middle) / 400)) > pull:
            low = middle
        else:
            high = middle
    assert first.value == pytest.approx(low, abs=1e-3)
