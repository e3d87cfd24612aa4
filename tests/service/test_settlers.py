"""Settlers: what waits at one challenge is scored together, and each has its own answer."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future

import pytest
from tests.challenges.challenge_folders import attempt_at
from tests.store.contest_samples import a_challenge

from tallymark.challenges.attempt import Attempt, Metrics
from tallymark.service.settlers import _THREADS, Reported, Settlers


class Desk:
    """Settles nothing before it is let go; keeps what it was given together."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.begun, self.let_go = threading.Semaphore(0), threading.Semaphore(0)

    def settle(self, reports: Sequence[Reported]) -> list[Attempt]:
        self.batches.append([attempt.agent for attempt, _ in reports])
        self.begun.release()
        assert self.let_go.acquire(timeout=60)
        if "poison" in self.batches[-1]:
            raise ZeroDivisionError
        return [attempt for attempt, _ in reports]


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
def settlers(desk: Desk) -> Iterator[Settlers]:
    made = Settlers(desk.settle)
    yield made
    for _ in range(100):
        desk.let_go.release()
    made.close()


def put(settlers: Settlers, agent: str, challenge: str = "sums") -> Future[Attempt]:
    attempt = attempt_at(a_challenge(name=challenge), agent=agent)
    return settlers.put(attempt, Metrics())


def occupy(settlers: Settlers, desk: Desk) -> list[Future[Attempt]]:
    """All threads, each with one that was alone."""
    busy = []
    for nth in range(_THREADS):
        busy.append(put(settlers, f"first-{nth}", f"other-{nth}"))
        assert desk.begun.acquire(timeout=60)
    return busy


def test_one_that_is_alone_waits_for_nobody_and_those_that_wait_go_together(
    settlers: Settlers, desk: Desk
) -> None:
    busy = occupy(settlers, desk)
    waiting = [put(settlers, agent) for agent in ("alice", "bob", "charlie")]
    apart = put(settlers, "dora", "elsewhere")
    for _ in range(_THREADS + 2):
        desk.let_go.release()
    told = [each.result(60).agent for each in (*busy, *waiting, apart)]
    assert told[_THREADS:] == ["alice", "bob", "charlie", "dora"]
    assert sorted(desk.batches[_THREADS:]) == [["alice", "bob", "charlie"], ["dora"]]


def test_who_has_gone_is_settled_and_holds_up_nobody(settlers: Settlers, desk: Desk) -> None:
    occupy(settlers, desk)
    gone, stays = put(settlers, "alice"), put(settlers, "bob")
    assert gone.cancel()
    for _ in range(_THREADS + 1):
        desk.let_go.release()
    assert stays.result(60).agent == "bob"
    assert desk.batches[-1] == ["alice", "bob"]


def test_what_fails_is_told_to_all_that_it_failed_for(settlers: Settlers, desk: Desk) -> None:
    failed = put(settlers, "poison")
    desk.let_go.release()
    with pytest.raises(ZeroDivisionError):
        failed.result(60)
