"""Points, ratios and strengths, by hand and as laws."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st
from tests.challenges.versus.versus_contest import a_submission

from tallymark.challenges.versus.pairings import BreachVerdict
from tallymark.challenges.versus.standings import Points, VersusTally, tally, versus_standings
from tallymark.ratings import Pair, fit

BOARD = [
    VersusTally(red="alice", blue="bob", category="leak", breached=2, held=1),
    VersusTally(red="alice", blue="bob", category="override", held=1, unjudged=3),
    VersusTally(red="alice", blue="charlie", category="leak", breached=1),
    VersusTally(red="bob", blue="charlie", category="leak", held=2),
]


def test_a_breach_is_a_point_for_red_and_else_it_is_one_for_blue() -> None:
    red = {line.player: line for line in versus_standings(BOARD, "red")}
    blue = {line.player: line for line in versus_standings(BOARD, "blue")}
    assert (red["alice"].points, red["alice"].against, red["alice"].ratio) == (3, 2, 0.6)
    assert (red["bob"].points, red["bob"].against, red["bob"].ratio) == (0, 2, 0.0)
    assert (blue["bob"].points, blue["bob"].against, blue["bob"].ratio) == (2, 2, 0.5)
    assert (blue["charlie"].points, blue["charlie"].against) == (2, 1)
    assert red["alice"].categories == {"leak": Points(3, 1), "override": Points(0, 1)}


def test_a_failed_verdict_is_counted_and_is_nobodys_point() -> None:
    lines = versus_standings([VersusTally(red="alice", blue="bob", category="leak", unjudged=2)])
    assert [(line.player, line.points, line.ratio, line.unjudged) for line in lines] == [
        ("alice", 0, None, 2),
        ("bob", 0, None, 2),
    ]
    assert [line.strength for line in lines] == [None, None]


def test_both_sides_of_a_player_add_up() -> None:
    (bob,) = [line for line in versus_standings(BOARD) if line.player == "bob"]
    assert bob.side is None
    assert (bob.points, bob.against, bob.ratio) == (2, 4, 2 / 6)


def test_the_strongest_come_first_whatever_their_points_and_those_without_a_verdict_last() -> None:
    """Everyone wins half of what it plays: abe against the strong one, zoe against the weak one."""
    known = [
        VersusTally(red=red, blue=blue, category="c", breached=won, held=8 - won)
        for blue, won in (("strong", 1), ("weak", 7))
        for red in ("one", "two", "three", "four")
    ]
    tallies = [
        *known,
        VersusTally(red="abe", blue="strong", category="c", breached=4, held=4),
        VersusTally(red="zoe", blue="weak", category="c", breached=10, held=10),
        VersusTally(red="new", blue="weak", category="c", unjudged=1),
    ]
    order = [line.player for line in versus_standings(tallies, "red")]
    assert order[0] == "abe"
    assert order[-2:] == ["zoe", "new"]
    assert [line.player for line in versus_standings(tallies, "blue")] == ["strong", "weak"]


def test_strengths_are_those_of_the_joint_fit_with_defenders_as_challenges() -> None:
    fitted = fit(Pair(each.red, each.blue, each.breached, 0, each.held) for each in BOARD)
    red = {line.player: line.strength for line in versus_standings(BOARD, "red")}
    blue = {line.player: line.strength for line in versus_standings(BOARD, "blue")}
    assert red == dict(fitted.strengths)
    assert blue == dict(fitted.difficulties)


def test_the_strength_of_both_sides_is_that_of_the_side_with_the_higher_floor() -> None:
    (red,) = [line.strength for line in versus_standings(BOARD, "red") if line.player == "bob"]
    (blue,) = [line.strength for line in versus_standings(BOARD, "blue") if line.player == "bob"]
    (both,) = [line.strength for line in versus_standings(BOARD) if line.player == "bob"]
    assert red is not None
    assert blue is not None
    assert both == max((red, blue), key=lambda strength: strength.floor)


def test_verdicts_are_counted_by_players_and_category() -> None:
    people = [
        a_submission(1, "alice", "red"),
        a_submission(2, "bob", "blue"),
        a_submission(3, "alice", "red"),
    ]
    verdicts = [
        BreachVerdict(red=1, blue=2, category="leak", state="judged", breached=True),
        BreachVerdict(red=3, blue=2, category="leak", state="judged", breached=False),
        BreachVerdict(red=3, blue=2, category="override", state="failed", error="down"),
        BreachVerdict(red=1, blue=2, category="override"),
    ]
    assert tally(verdicts, people) == [
        VersusTally(red="alice", blue="bob", category="leak", breached=1, held=1),
        VersusTally(
            red="alice", blue="bob", category="override", unjudged=2, broken=1, completed_by_red=1
        ),
    ]


players = st.sampled_from(["alice", "bob", "charlie"])
counts = st.integers(0, 20)
tallies = st.lists(
    st.builds(
        VersusTally,
        red=players,
        blue=players,
        category=st.sampled_from(["leak", "override"]),
        breached=counts,
        held=counts,
        unjudged=counts,
    ),
    max_size=8,
)


@given(tallies, st.sampled_from(["red", "blue", None]), st.randoms(use_true_random=False))
def test_the_order_of_the_tallies_does_not_matter(
    given: list[VersusTally], side: object, draw: random.Random
) -> None:
    shuffled = draw.sample(given, len(given))
    assert versus_standings(shuffled, side) == versus_standings(given, side)  # type: ignore[arg-type]


@given(tallies)
def test_every_verdict_is_one_point(given: list[VersusTally]) -> None:
    judged = sum(each.breached + each.held for each in given)
    red, blue = versus_standings(given, "red"), versus_standings(given, "blue")
    assert sum(line.points for line in [*red, *blue]) == judged
    assert sum(line.points for line in versus_standings(given)) == judged
    assert sum(line.points for line in red) == sum(line.against for line in blue)
    for line in [*red, *blue]:
        assert line.ratio is None or 0 <= line.ratio <= 1
