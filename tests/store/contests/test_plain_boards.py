"""A plain board says in one statement what it says step by step."""

from __future__ import annotations

import random
from typing import Any

import pytest
from tests.store.contest_samples import an_outcome, scored

from tallymark.errors import NotFound
from tallymark.store import Store
from tallymark.store.contests import rank_blocks
from tallymark.store.contests.boards import Boards

AGENTS = [f"agent-{number}" for number in range(40)]


@pytest.fixture
def crowded(contest: Store, monkeypatch: pytest.MonkeyPatch) -> Store:
    """Forty agents in many small blocks, most of them beside others of the same score."""
    monkeypatch.setattr(rank_blocks, "MOST_ROWS", 8)
    dice = random.Random(3)
    made = [
        scored(dice.choice(AGENTS[:-2]), an_outcome(float(dice.randrange(6))), float(at))
        for at in range(10, 210)
    ]
    contest.attempts.load("sums", made, at=300.0, rated=False)
    return contest


def ask_all(boards: Boards, **options: Any) -> list[Any]:
    """Every kind of question, inside the board, at its ends and beyond them."""
    told: list[Any] = [boards.size("sums", **options)]
    told += [boards.top("sums", limit=7, offset=nth, **options) for nth in range(0, 45, 4)]
    for agent in (*AGENTS[::5], AGENTS[-1]):
        told.append(boards.standing("sums", agent, **options))
        told += [boards.around("sums", agent, each=each, **options) for each in (0, 3, 100)]
    return told


def ask_step_by_step(boards: Boards, **options: Any) -> list[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Boards, "_ask_plain", lambda *_: [])
        return ask_all(boards, **options)


def test_one_statement_says_what_several_say(crowded: Store) -> None:
    told = ask_all(crowded.boards)
    assert told == ask_step_by_step(crowded.boards)
    assert [each.rank for each in crowded.boards.top("sums")] == list(range(1, told[0] + 1))


def test_the_frozen_board_and_the_live_one_are_kept_apart(crowded: Store) -> None:
    crowded.challenges.freeze("sums", at=400.0, reason="the end is near")
    crowded.attempts.load("sums", [scored("agent-39", an_outcome(9.0), 500.0)], at=500.0)
    for public in (True, False):
        told = ask_all(crowded.boards, public=public)
        assert told == ask_step_by_step(crowded.boards, public=public)
        assert (crowded.boards.top("sums", public=public)[0].agent == "agent-39") is not public


def test_who_may_not_compete_is_left_out(crowded: Store) -> None:
    best = crowded.boards.top("sums")[0].agent
    crowded.disqualifications.disqualify(best, reason="somebody else's answers", at=400.0)
    told = ask_all(crowded.boards)
    assert told == ask_step_by_step(crowded.boards)
    assert crowded.boards.standing("sums", best) is None


def test_a_board_that_nobody_knows_is_said_to_be_unknown(contest: Store) -> None:
    assert (contest.boards.top("sums"), contest.boards.size("sums")) == ([], 0)
    with pytest.raises(NotFound, match="there is no challenge 'sum'"):
        contest.boards.top("sum")
