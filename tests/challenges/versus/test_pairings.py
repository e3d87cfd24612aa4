"""Who meets whom."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.challenges.versus.versus_contest import a_challenge, a_submission

from tallymark.challenges.versus.pairings import (
    Pairing,
    Side,
    SideSubmission,
    find_active,
    make_pairings,
    require_versus,
)
from tallymark.errors import InvalidInput

sides: st.SearchStrategy[Side] = st.sampled_from(["red", "blue"])
logs = st.lists(st.tuples(st.sampled_from(["alice", "bob", "charlie"]), sides), max_size=20).map(
    lambda log: [a_submission(at, *each) for at, each in enumerate(log, start=1)]
)


def test_an_attack_meets_the_newest_defence_of_every_opponent_in_order() -> None:
    others = [
        a_submission(1, "bob", "blue"),
        a_submission(2, "charlie", "blue"),
        a_submission(3, "bob", "blue"),
        a_submission(4, "dora", "red"),
    ]
    assert make_pairings(a_submission(9, "alice", "red"), others) == [Pairing(9, 2), Pairing(9, 3)]


def test_a_defence_meets_attacks() -> None:
    others = [a_submission(1, "bob", "red"), a_submission(2, "charlie", "red")]
    assert make_pairings(a_submission(9, "alice", "blue"), others) == [Pairing(1, 9), Pairing(2, 9)]


def test_nobody_meets_themselves() -> None:
    assert make_pairings(a_submission(9, "alice", "red"), [a_submission(1, "alice", "blue")]) == []


@given(logs, sides, st.randoms(use_true_random=False))
def test_the_order_in_which_submissions_are_given_does_not_matter(
    log: list[SideSubmission], side: Side, draw: random.Random
) -> None:
    new = a_submission(99, "alice", side)
    assert make_pairings(new, draw.sample(log, len(log))) == make_pairings(new, log)


@given(logs)
def test_every_two_active_opponents_have_met_exactly_once(log: list[SideSubmission]) -> None:
    met = [pair for at, new in enumerate(log) for pair in make_pairings(new, log[:at])]
    assert len(met) == len(set(met))
    for red in find_active(log, "red"):
        for blue in find_active(log, "blue"):
            assert (Pairing(red.id, blue.id) in met) == (red.agent != blue.agent)


def test_a_solo_challenge_has_no_sides() -> None:
    with pytest.raises(InvalidInput, match="chess is not a challenge of red against blue"):
        require_versus(a_challenge("chess", kind="solo", versus=None))
