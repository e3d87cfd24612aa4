"""Ways to a high place in red against blue that are not strength."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest
from tests.challenges.versus.versus_contest import FakeJudge, a_challenge

from tallymark.challenges.versus.arena import Arena
from tallymark.challenges.versus.pairings import Meeting
from tallymark.challenges.versus.standings import VersusTally, versus_standings
from tallymark.store import open_store

CATEGORIES = 3


def rank_of(tallies: Iterable[VersusTally], player: str, side: str | None) -> int:
    lines = versus_standings(tallies, side)  # type: ignore[arg-type]
    return next(line.rank for line in lines if line.player == player)


def draw_contest(rng: np.random.Generator, players: int) -> list[VersusTally]:
    """Everyone is on one side or on both; `p0` is on both, and defends well or badly."""
    red, blue = rng.normal(0, 2, (2, players))
    blue[0] = rng.choice([-9, 0, 9])
    choices = ({"red"}, {"blue"}, {"red", "blue"})
    sides = [choices[2], *(choices[rng.integers(3)] for _ in range(players - 1))]
    tallies = []
    for r in range(players):
        for b in range(players):
            if r != b and "red" in sides[r] and "blue" in sides[b]:
                won = int(rng.binomial(CATEGORIES, 1 / (1 + np.exp(blue[b] - red[r]))))
                tallies.append(
                    VersusTally(
                        red=f"p{r}",
                        blue=f"p{b}",
                        category="leak",
                        breached=won,
                        held=CATEGORIES - won,
                    )
                )
    return tallies


@pytest.mark.parametrize("players", [3, 5, 9])
def test_playing_the_second_side_costs_nothing_and_gains_nothing_on_the_first(players: int) -> None:
    rng = np.random.default_rng(players)
    for _ in range(6):
        both = draw_contest(rng, players)
        attacking = [each for each in both if each.blue != "p0"]
        defending = [each for each in both if each.red != "p0"]
        for side, alone in (("red", attacking), ("blue", defending)):
            if any("p0" in {each.red, each.blue} for each in alone):
                assert rank_of(both, "p0", side) == rank_of(alone, "p0", side)
                assert rank_of(both, "p0", None) <= rank_of(alone, "p0", None)


def test_many_points_from_the_weak() -> None:
    """Mallory's hundred points come from one who loses to all; alice has met the strong as well."""
    known = [
        VersusTally(red=red, blue=blue, category="leak", breached=won, held=3 - won)
        for blue, won in (("weak", 3), ("strong", 0))
        for red in ("bob", "charlie", "dave")
    ]
    tallies = [
        *known,
        VersusTally(red="mallory", blue="weak", category="leak", breached=100),
        VersusTally(red="alice", blue="weak", category="leak", breached=3),
        VersusTally(red="alice", blue="strong", category="leak", breached=2, held=1),
    ]
    lines = versus_standings(tallies, "red")
    assert max(lines, key=lambda line: line.points).player == "mallory"
    assert lines[0].player == "alice"


def test_submitting_again_and_again(empty_url: str) -> None:
    """Only what stands counts, and thirty attacks are as good as the last of them."""
    with open_store(empty_url) as store:
        store.challenges.publish(a_challenge(), b"", at=1.0)
        arena = Arena(store.versus, a_challenge(), FakeJudge(longer_wins))
        for player, defence in (("bob", "1"), ("charlie", "12345")):
            arena.submit(player, "blue", defence)
        arena.submit("alice", "red", "abcdef")
        for at in range(10):
            arena.submit("mallory", "red", "ab" + "." * (at % 2))
        lines = arena.standings("red")
    assert [(line.player, line.points) for line in lines] == [("alice", 4), ("mallory", 2)]
    assert lines[1].strength is not None
    assert lines[1].strength.matches == 4


def test_a_new_submission_to_be_rid_of_losses(empty_url: str) -> None:
    """It meets everyone that the old one met, so what it does not mend it loses again."""
    with open_store(empty_url) as store:
        store.challenges.publish(a_challenge(), b"", at=1.0)
        arena = Arena(store.versus, a_challenge(), FakeJudge(longer_wins))
        for player, attack in (("bob", "1234"), ("charlie", "12345")):
            arena.submit(player, "red", attack)
        arena.submit("mallory", "blue", "12")
        before = arena.standings("blue")
        arena.submit("mallory", "blue", "21")
        assert arena.standings("blue") == before


def test_nobody_meets_its_own_other_side(empty_url: str) -> None:
    with open_store(empty_url) as store:
        store.challenges.publish(a_challenge(), b"", at=1.0)
        arena = Arena(store.versus, a_challenge(), FakeJudge(longer_wins))
        arena.submit("mallory", "blue", "")
        arena.submit("mallory", "red", "12345")
        assert store.versus.verdicts("guard") == []


def test_breaking_the_judge_where_one_would_lose(empty_url: str) -> None:
    """A defence that makes the judge fail whenever it is breached loses there all the same."""

    def judge(meeting: Meeting) -> bool:
        if meeting.defence == "bomb" and len(meeting.attack) > 4:
            raise ValueError("the judge fell over")
        return longer_wins(meeting)

    with open_store(empty_url) as store:
        store.challenges.publish(a_challenge(), b"", at=1.0)
        arena = Arena(store.versus, a_challenge(), FakeJudge(judge))
        for at, attack in enumerate(("123", "12345", "123456", "1234567")):
            arena.submit(f"red-{at}", "red", attack)
        arena.submit("alice", "blue", "123456")
        arena.submit("mallory", "blue", "bomb")
        lines = arena.standings("blue")
        attackers = arena.standings("red")
    assert [(line.player, line.ratio) for line in lines] == [("alice", 0.75), ("mallory", 1.0)]
    assert (lines[1].points, lines[1].unjudged) == (2, 6)
    assert attackers[0].player == "red-3"


def longer_wins(meeting: Meeting) -> bool:
    return len(meeting.attack) > len(meeting.defence)
