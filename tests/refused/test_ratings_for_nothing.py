"""Ways to a high place in the joint fit that are not strength: losing, hiding, repeating."""

from __future__ import annotations

import numpy as np
import pytest
from scripts.simulate_ratings import World, draw_world

from tallymark.ratings import Fit, Pair, fit


def draw_pool() -> list[Pair]:
    """Sixty agents of spread 400 with twenty matches each, at fifty challenges."""
    world = draw_world(np.random.default_rng(5), 60, 400, chosen=False, repeats=False)
    return list(world.pairs())


POOL = draw_pool()
EASIEST = min(fit(POOL).difficulties.items(), key=lambda item: item[1].value)[0]
HARDEST = max(fit(POOL).difficulties.items(), key=lambda item: item[1].value)[0]


def find_place(fitted: Fit, name: str = "mallory") -> int:
    return fitted.order("strengths").index(name) + 1


@pytest.mark.parametrize(
    "results",
    [
        [Pair("mallory", "new", 20)],
        [Pair("mallory", f"new-{at}", 1) for at in range(100)],
        [Pair("mallory", HARDEST, 0, 0, 1), *(Pair("mallory", f"new-{at}", 1) for at in range(20))],
    ],
    ids=["one", "a hundred", "and a loss at a known one"],
)
def test_wins_at_challenges_that_nobody_else_met(results: list[Pair]) -> None:
    """The prior puts a new challenge in the middle, so each such win would be one over it."""
    fitted = fit([*POOL, *results])
    assert find_place(fitted) > 50
    assert fitted.strengths["mallory"].provisional


def test_wins_at_challenges_that_only_a_weak_one_met() -> None:
    weakest = fit(POOL).order("strengths")[-1]
    lost = [Pair(weakest, f"new-{at}", 0, 0, 1) for at in range(10)]
    won = [Pair("mallory", f"new-{at}", 2) for at in range(10)]
    assert find_place(fit([*POOL, *lost, *won])) > 30


def test_a_solved_easy_challenge_again_and_again() -> None:
    places = [find_place(fit([*POOL, Pair("mallory", EASIEST, n)])) for n in (1, 5, 100, 10_000)]
    assert min(places) > 30


def test_losing_twenty_times_at_the_hardest_challenge() -> None:
    assert find_place(fit([*POOL, Pair("mallory", HARDEST, 0, 0, 20)])) > 55


def test_a_loss_on_purpose_that_narrows_the_interval() -> None:
    """Who wins all has a wide interval, and is provisional; one loss makes it an established one.

    So a table that lists the established first would pay for the loss.
    """
    some = [f"c{at:04}" for at in range(50)]
    clean = fit([*POOL, *(Pair("mallory", name, 2) for name in some)])
    thrown = fit(
        [
            *POOL,
            *(Pair("mallory", name, 2) for name in some[:-8]),
            *(Pair("mallory", name, 1, 0, 1) for name in some[-8:]),
        ]
    )
    before, after = (each.strengths["mallory"] for each in (clean, thrown))
    assert (before.provisional, after.provisional) == (True, False)
    assert find_place(clean) < find_place(thrown) or find_place(clean) == 1
    assert before.floor > after.floor


def test_a_group_of_ones_own() -> None:
    """Two who meet only each other's challenges cannot be compared with the many, and come last."""
    apart = [
        Pair(name, f"new-{at}", 9 if name == "mallory" else 1, 0, 1 if name == "mallory" else 9)
        for name in ("mallory", "trudy")
        for at in range(10)
    ]
    fitted = fit([*POOL, *apart])
    assert not fitted.connected
    assert find_place(fitted) == 61
    assert fitted.chance("mallory", EASIEST) is None


def test_a_loss_among_repeats_that_makes_them_look_less_alike() -> None:
    """It would make all of one's repeats count for more, were that read off the log for floors."""
    rng = np.random.default_rng(66)
    world = draw_world(rng, 20, 400, chosen=False, repeats=True)
    before = fit(world.pairs())
    for agent in range(20):
        won = world.won.copy()
        repeated = np.nonzero((won[agent] == world.met[agent]) & (won[agent] > 2))[0]
        if len(repeated):
            won[agent, repeated[0]] -= 1
            after = fit(World(world.strengths, world.difficulties, world.met, won).pairs())
            name = f"a{agent:04}"
            assert find_place(after, name) >= find_place(before, name)


def test_less_doubt_bought_with_many_plays_of_one_pair() -> None:
    """A thousand plays of a pair are not a thousand opponents: they stay provisional."""
    found = fit([*POOL, Pair("mallory", EASIEST, 999, 0, 1)], repeat_correlation=0.5)
    assert found.strengths["mallory"].provisional
