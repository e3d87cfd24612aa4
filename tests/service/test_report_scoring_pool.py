"""Reports waiting at one challenge are scored together, and each caller gets its own outcome."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future

import pytest
from tests.challenges.challenge_folders import attempt_at
from tests.store.contest_samples import a_challenge

from tallymark.challenges.attempt import Attempt, Metrics
from tallymark.service.report_scoring_pool import _THREADS, Reported, ReportScoringPool


class Desk:
    """Settles nothing before it is let go; keeps what it was given together."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.begun, self.let_go = threading.Semaphore(0), threading.Semaphore(0)

    def score(self, reports: Sequence[Reported]) -> list[Attempt]:
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
def pool(desk: Desk) -> Iterator[ReportScoringPool]:
    made = ReportScoringPool(desk.score)
    yield made
    for _ in range(100):
        desk.let_go.release()
    made.close()


def put(pool: ReportScoringPool, agent: str, challenge: str = "sums") -> Future[Attempt]:
    attempt = attempt_at(a_challenge(name=challenge), agent=agent)
    return pool.put(attempt, Metrics())


def occupy(pool: ReportScoringPool, desk: Desk) -> list[Future[Attempt]]:
    """All threads, each with one that was alone."""
    busy = []
    for nth in range(_THREADS):
        busy.append(put(pool, f"first-{nth}", f"other-{nth}"))
        assert desk.begun.acquire(timeout=60)
    return busy


def test_one_that_is_alone_waits_for_nobody_and_those_that_wait_go_together(
    pool: ReportScoringPool, desk: Desk
) -> None:
    busy = occupy(pool, desk)
    waiting = [put(pool, agent) for agent in ("alice", "bob", "charlie")]
    apart = put(pool, "dora", "elsewhere")
    for _ in range(_THREADS + 2):
        desk.let_go.release()
    told = [each.result(60).agent for each in (*busy, *waiting, apart)]
    assert told[_THREADS:] == ["alice", "bob", "charlie", "dora"]
    assert sorted(desk.batches[_THREADS:]) == [["alice", "bob", "charlie"], ["dora"]]


def test_a_report_whose_sender_has_gone_is_scored_and_blocks_no_other(
    pool: ReportScoringPool, desk: Desk
) -> None:
    occupy(pool, desk)
    gone, stays = put(pool, "alice"), put(pool, "bob")
    assert gone.cancel()
    for _ in range(_THREADS + 1):
        desk.let_go.release()
    assert stays.result(60).agent == "bob"
    assert desk.batches[-1] == ["alice", "bob"]


def test_what_fails_is_told_to_all_that_it_failed_for(pool: ReportScoringPool, desk: Desk) -> None:
    failed = put(pool, "poison")
    desk.let_go.release()
    with pytest.raises(ZeroDivisionError):
        failed.result(60)
