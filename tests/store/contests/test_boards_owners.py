"""Boards of one agent per owner: as if every owner had entered the best of theirs alone."""

from __future__ import annotations

import random
from typing import Any

import pytest
from tests.store.contest_samples import agents, an_outcome, by, play

from tallymark.challenges.strategies import Standing
from tallymark.store import Store

OWNERS = [None, "ann", "ben", "cleo"]


def draw_contest(store: Store, seed: int) -> list[str]:
    """Twelve agents of a few owners, some of them disqualified; who ought to be shown, in order."""
    rng = random.Random(seed)
    handles = [f"bot-{number:02}" for number in range(12)]
    owner_of = {each: rng.choice(OWNERS) for each in handles}
    score_of = {each: float(rng.randrange(6)) for each in handles}
    out = set(rng.sample(handles, 3))
    for at, each in enumerate(handles, 10):
        play(store, each, an_outcome(score_of[each]), float(at))
        store.agents.give(each, owner_of[each], at=1.0)
    for each in out:
        store.disqualifications.disqualify(each, at=99.0, reason="a draw")
    shown: list[str] = []
    seen: set[str | None] = set()
    for each in sorted(handles, key=lambda each: (-score_of[each], each)):
        if each not in out and (owner_of[each] is None or owner_of[each] not in seen):
            shown.append(each)
            seen.add(owner_of[each])
    return shown


def place(lines: list[Standing]) -> list[tuple[int, str]]:
    return [(each.rank, each.agent) for each in lines]


@pytest.mark.parametrize("seed", range(4))
def test_every_way_to_read_the_board_shows_the_best_of_each_owner(contests: Any, seed: int) -> None:
    with contests(one_per="owner") as store:
        shown = draw_contest(store, seed)
        ranked = list(enumerate(shown, 1))
        assert store.boards.size("sums") == len(shown)
        for offset in range(len(shown) + 1):
            assert place(store.boards.top("sums", limit=3, offset=offset)) == ranked[offset:][:3]
        for rank, agent in ranked:
            around = place(store.boards.around("sums", agent, each=2))
            assert around == ranked[max(0, rank - 3) : rank + 2]
        for number in range(12):
            line = store.boards.standing("sums", f"bot-{number:02}")
            assert (line is not None) == (f"bot-{number:02}" in shown)
            assert line is None or (line.rank, line.agent) in ranked


def test_a_board_shows_every_agent_unless_it_is_told_otherwise(contest: Store) -> None:
    for agent in ("bot-a", "bot-b"):
        play(contest, agent, an_outcome())
        contest.agents.give(agent, "ann", at=1.0)
    assert agents(contest) == ["bot-a", "bot-b"]
    contest.challenges.publish(by("custom", one_per="owner", version="v2"), b"", at=30.0)
    assert agents(contest) == ["bot-a"]
    contest.challenges.publish(by("custom", version="v3"), b"", at=40.0)
    assert agents(contest) == ["bot-a", "bot-b"]


def test_a_better_attempt_of_the_other_agent_takes_its_place(contests: Any) -> None:
    with contests(one_per="owner") as store:
        for agent, score in (("bot-a", 2.0), ("bot-b", 1.0), ("bot-c", 1.5)):
            play(store, agent, an_outcome(score))
        for agent in ("bot-a", "bot-b"):
            store.agents.give(agent, "ann", at=1.0)
        assert agents(store) == ["bot-a", "bot-c"]
        play(store, "bot-b", an_outcome(3.0), 20.0)
        assert agents(store) == ["bot-b", "bot-c"]
        store.agents.give("bot-a", None, at=30.0)
        assert agents(store) == ["bot-b", "bot-a", "bot-c"]


def test_owners_of_another_tenant_are_others(contests: Any) -> None:
    with contests(one_per="owner") as here, contests(one_per="owner") as there:
        for store in (here, there):
            play(store, "bot-a", an_outcome())
            play(store, "bot-b", an_outcome())
        there.agents.give("bot-a", "ann", at=1.0)
        there.agents.give("bot-b", "ann", at=1.0)
        assert agents(here) == ["bot-a", "bot-b"]
        assert agents(there) == ["bot-a"]
