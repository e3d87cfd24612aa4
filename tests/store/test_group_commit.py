"""The writer: what arrives together is done together, and each is answered by itself."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from tests.store.contests.test_attempt_writer import a_report

from tallymark.challenges.attempt import Attempt
from tallymark.errors import Busy, InvalidInput
from tallymark.store import Store
from tallymark.store.group_commit import GroupCommit


class Work:
    """Doubles numbers; a batch waits until it is let go."""

    def __init__(self) -> None:
        self.batches: list[list[Any]] = []
        self.begun = threading.Semaphore(0)
        self.let_go = threading.Semaphore(0)

    def apply(self, items: Sequence[Any]) -> list[Any]:
        self.batches.append(list(items))
        self.begun.release()
        self.let_go.acquire()
        if "poison" in items:
            raise ZeroDivisionError
        if "outage" in items:
            raise Busy("the database is away", retry_after=1.0)
        return [InvalidInput("odd") if item == "odd" else item * 2 for item in items]


@pytest.fixture
def work() -> Work:
    return Work()


@pytest.fixture
def writer(work: Work) -> Iterator[GroupCommit]:
    made = GroupCommit(work.apply, most_waiting=4)
    yield made
    for _ in range(20):
        work.let_go.release()
    made.close()


def test_what_arrives_during_a_batch_is_the_next_one(writer: GroupCommit, work: Work) -> None:
    first = writer.put([1])
    work.begun.acquire()
    others = [writer.put([each]) for each in (2, 3, 4)]
    for _ in range(2):
        work.let_go.release()
    assert [each.result(60) for each in (first, *others)] == [[2], [4], [6], [8]]
    assert work.batches == [[1], [2, 3, 4]]


def test_a_refusal_is_one_items_own(writer: GroupCommit, work: Work) -> None:
    work.let_go.release(3)
    blocked = writer.put([1])
    answers = writer.put(["odd", 3]).result(60)
    assert (blocked.result(60), answers[1]) == ([2], 6)
    assert isinstance(answers[0], InvalidInput)


def test_a_poison_hurts_only_itself(writer: GroupCommit, work: Work) -> None:
    first = writer.put([1])
    work.begun.acquire()
    poison, sound = writer.put(["poison"]), writer.put([5])
    work.let_go.release(4)
    assert (first.result(60), sound.result(60)) == ([2], [10])
    assert isinstance(poison.result(60)[0], ZeroDivisionError)
    assert work.batches == [[1], ["poison", 5], ["poison"], [5]]


def test_an_outage_is_told_to_all_without_trying_each(writer: GroupCommit, work: Work) -> None:
    writer.put([1])
    work.begun.acquire()
    asked = [writer.put(["outage"]), writer.put([5])]
    work.let_go.release(2)
    assert [type(each.result(60)[0]) for each in asked] == [Busy, Busy]
    assert work.batches == [[1], ["outage", 5]]


def test_a_full_queue_is_busy_and_says_when_to_come_again(writer: GroupCommit, work: Work) -> None:
    first = writer.put([1])
    work.begun.acquire()
    waiting = [writer.put([each]) for each in range(4)]
    with pytest.raises(Busy) as refused:
        writer.put([9])
    assert refused.value.retry_after > 0
    work.let_go.release(2)
    assert [each.result(60) for each in (first, *waiting)] == [[2], [0], [2], [4], [6]]


def test_closing_does_what_is_waiting_and_takes_nothing_more(work: Work) -> None:
    writer = GroupCommit(work.apply)
    asked = [writer.put([1])]
    work.begun.acquire()
    asked += [writer.put([2]), writer.put([3])]
    work.let_go.release(2)
    writer.close()
    assert [each.result(0) for each in asked] == [[2], [4], [6]]
    with pytest.raises(Busy):
        writer.put([4])


def test_items_of_one_request_are_one_batch_and_requests_share_one(
    writer: GroupCommit, work: Work
) -> None:
    first = writer.put([1])
    work.begun.acquire()

    async def ask() -> tuple[list[Any], list[Any]]:
        asked = asyncio.gather(writer.aput([2, "odd"]), writer.aput([4]))
        await asyncio.sleep(0)
        work.let_go.release(2)
        return await asked

    (two, odd), four = asyncio.run(ask())
    assert (first.result(60), two, four) == ([2], 4, [8])
    assert isinstance(odd, InvalidInput)
    assert work.batches == [[1], [2, "odd", 4]]


def test_a_request_larger_than_the_queue_is_taken_when_nothing_waits(work: Work) -> None:
    work.let_go.release(2)
    writer = GroupCommit(work.apply, most_waiting=2)
    assert writer.put([1, 2, 3]).result(60) == [2, 4, 6]
    writer.close()


def test_whoever_does_not_wait_any_more_holds_up_nobody(writer: GroupCommit, work: Work) -> None:
    async def ask() -> Any:
        gone = asyncio.ensure_future(writer.aput([1]))
        stays = asyncio.ensure_future(writer.aput([2]))
        await asyncio.sleep(0)
        gone.cancel()
        work.let_go.release(2)
        return await stays

    assert asyncio.run(ask()) == [4]


def test_a_store_with_a_writer_answers_alike(contest: Store) -> None:
    contest.start_writer()
    attempt = contest.attempts.enter("sums", "alice", at=10.0, seed=1)
    assert contest.attempts.withdraw(attempt.id, "alice", 11.0).state == "withdrawn"
    with pytest.raises(InvalidInput, match="there is no challenge"):
        contest.attempts.enter("sum", "alice", at=10.0, seed=1)
    answers = contest.attempts.do_all([a_report(contest, "bob", n) for n in range(100)])
    assert [each.number for each in answers if isinstance(each, Attempt)] == [*range(1, 101)]
    assert contest.ratings.of("bob").matches == 100


def test_a_closed_store_has_stored_what_was_asked(contest: Store) -> None:
    contest.start_writer()
    for _ in range(50):
        contest._database.put(a_report(contest, "bob"))
    contest.close()
    assert len(contest.attempts.of("sums")) == 50
