"""Moments: whoever reads together sees the same, and nothing that was over when they asked."""

from __future__ import annotations

import asyncio
import itertools

import pytest
from tests.store.contest_samples import an_outcome, play

from tallymark.errors import NotFound
from tallymark.store import Store
from tallymark.store.moments import Moment


def test_all_reads_of_a_moment_see_the_same(contest: Store) -> None:
    play(contest, "alice", an_outcome())
    with contest._database.read_moment() as moment:
        before = contest.boards.size("sums", moment=moment)
        play(contest, "bob", an_outcome())
        moment._known.clear()
        assert contest.boards.size("sums", moment=moment) == before == 1
    assert contest.boards.size("sums") == 2


def test_what_was_committed_is_in_what_is_read_next(contest: Store) -> None:
    async def main() -> list[int]:
        found = []
        for agent in ("alice", "bob", "charlie"):
            play(contest, agent, an_outcome())
            found.append(
                await contest.read_soon(lambda now: contest.boards.size("sums", moment=now))
            )
        return found

    assert asyncio.run(main()) == [1, 2, 3]


def test_those_who_come_together_are_read_for_once_and_answered_each(contest: Store) -> None:
    moments: list[Moment] = []
    numbers = itertools.count(1)

    def look(moment: Moment) -> int:
        moments.append(moment)
        return moment.recall("once", lambda: next(numbers))

    def refuse(moment: Moment) -> int:
        return contest.boards.size("sum", moment=moment)

    async def main() -> list[object]:
        asked = [contest.read_soon(each) for each in (look, refuse, look, look)]
        return list(await asyncio.gather(*asked, return_exceptions=True))

    first, refused, *others = asyncio.run(main())
    assert (first, others, len(set(map(id, moments)))) == (1, [1, 1], 1)
    assert isinstance(refused, NotFound)


def test_a_read_that_the_database_refuses_hurts_no_other(contest: Store) -> None:
    async def main() -> list[object]:
        broken = contest.read_soon(lambda now: now.read("SELECT nothing FROM nowhere"))
        good = contest.read_soon(lambda now: now.read("SELECT 1"))
        return list(await asyncio.gather(broken, good, return_exceptions=True))

    failed, found = asyncio.run(main())
    assert isinstance(failed, Exception)
    assert found == [(1,)]


@pytest.mark.parametrize("word", ["sums\ud800", "\0"])
def test_what_no_database_can_hold_is_not_there(contest: Store, word: str) -> None:
    with pytest.raises(NotFound, match="there is no challenge"):
        contest.boards.size(word)
    assert contest.boards.standing("sums", word) is None
    assert contest.agents.names([word]) == {}
