"""Read snapshots: reads inside one see the same data, and never older data than when they asked."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from tests.store.contest_samples import an_outcome, play

from tallymark.errors import NotFound
from tallymark.store import Store


def in_a_thread(work: Callable[[], object]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def test_all_that_is_read_in_a_snapshot_is_of_one_time(contest: Store) -> None:
    play(contest, "alice", an_outcome())
    with contest.read():
        before = contest.boards.size("sums")
        in_a_thread(lambda: play(contest, "bob", an_outcome()))
        assert contest.boards.standing("sums", "bob") is None
        with contest.read():
            assert contest.boards.size("sums") == before == 1
    assert contest.boards.size("sums") == 2


def test_a_snapshot_belongs_to_its_thread(contest: Store) -> None:
    found: list[int] = []
    play(contest, "alice", an_outcome())
    with contest.read():
        assert contest.boards.size("sums") == 1
        in_a_thread(lambda: play(contest, "bob", an_outcome()))
        in_a_thread(lambda: found.append(contest.boards.size("sums")))
        assert contest.boards.size("sums") == 1
    assert found == [2]


def test_nothing_is_written_in_a_snapshot(contest: Store) -> None:
    with contest.read(), pytest.raises(RuntimeError, match="a write inside"):
        play(contest, "alice", an_outcome())
    with contest.read(), pytest.raises(RuntimeError, match="a write inside"):
        contest.challenges.close("sums", at=1.0, reason="x")
    play(contest, "alice", an_outcome())


def test_a_snapshot_that_broke_leaves_none_behind(contest: Store) -> None:
    with pytest.raises(NotFound), contest.read():
        contest.boards.size("sum")
    play(contest, "alice", an_outcome())
    assert contest.boards.size("sums") == 1


@pytest.mark.parametrize("word", ["sums\ud800", "\0"])
def test_what_no_database_can_hold_is_not_there(contest: Store, word: str) -> None:
    with pytest.raises(NotFound, match="there is no challenge"):
        contest.boards.size(word)
    assert contest.boards.standing("sums", word) is None
    assert contest.agents.names([word]) == {}
