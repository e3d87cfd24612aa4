"""Races between the threads of several processes, and a process killed between submit and score."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from scripts.server_process import require_as_logged
from tests.store.contest_samples import PAYLOAD, a_challenge, an_outcome, finish, play, submitted

from tallymark.ratings import Counts, elo
from tallymark.store import Store

PROCESSES = 2
ROOT = next(each for each in Path(__file__).parents if each.name == "tests").parent


class Racers:
    """Processes that wait for a race; starting one takes longer than most races."""

    def __init__(self) -> None:
        self.idle: list[subprocess.Popen[str]] = []

    def start(
        self, store: Store, url: str, action: str, attempt: str, threads: int
    ) -> subprocess.Popen[str]:
        """One that is told what the race is."""
        command = [sys.executable, "-m", "tests.store.contests.racer"]
        pipe = subprocess.PIPE
        racer = (
            self.idle.pop()
            if self.idle
            else subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=ROOT)
        )
        tell(racer, json.dumps([url, store.tenant, action, attempt, threads]))
        return racer

    def let_go(self, racers: list[subprocess.Popen[str]]) -> list[list[str]]:
        """What the threads of each process got, after all were ready."""
        for each in racers:
            assert hear(each) == "ready"
        for each in racers:
            tell(each, "go")
        answers = [json.loads(hear(each)) for each in racers]
        self.idle += racers
        return answers

    def race(
        self, store: Store, url: str, action: str, *, times: int, attempt: str = ""
    ) -> Counter[str]:
        """How often each answer was given when so many did the same at once."""
        share = times // PROCESSES
        racers = [self.start(store, url, action, attempt, share) for _ in range(PROCESSES)]
        return Counter(answer for answers in self.let_go(racers) for answer in answers)


def tell(racer: subprocess.Popen[str], line: str) -> None:
    assert racer.stdin is not None
    racer.stdin.write(f"{line}\n")
    racer.stdin.flush()


def hear(racer: subprocess.Popen[str]) -> str:
    assert racer.stdout is not None
    return racer.stdout.readline().rstrip("\n")


@pytest.fixture(scope="module")
def racers() -> Iterator[Racers]:
    started = Racers()
    yield started
    for each in started.idle:
        each.communicate(timeout=600)


def assert_ratings_follow_from_the_log(store: Store) -> None:
    log = list(store.ratings.matches())
    assert dict(store.ratings.elo()) == elo.replay(log)
    assert set(store.ratings.pairs()) == set(Counts.of(log))


def test_fifty_entries_at_once_are_one_attempt(
    contest: Store, shared_url: str, racers: Racers
) -> None:
    answers = racers.race(contest, shared_url, "enter", times=50)
    (attempt,) = contest.attempts.of("sums")
    assert answers == {attempt.id: 50}
    assert len(contest.attempts.audit(attempt.id)) == 1


def test_fifty_submits_at_once_are_one_score_and_one_rating_change(
    contest: Store, shared_url: str, racers: Racers
) -> None:
    entered = contest.attempts.enter("sums", "alice", at=10.0, seed=1)
    answers = racers.race(contest, shared_url, "submit_and_finish", times=50, attempt=entered.id)
    assert answers == {"scored": 1, "too late": 49}
    assert [each.event for each in contest.attempts.audit(entered.id)] == [
        "entered",
        "submitted",
        "scored",
    ]
    assert len(contest.attempts.history(entered.id)) == 1
    assert len(contest.ratings.changes("alice")) == 1
    assert contest.ratings.of("alice").matches == 1
    assert contest.boards.top("sums")[0].tries == 1


@pytest.mark.parametrize("quota", ["attempts", "attempts_per_day"])
def test_a_quota_admits_exactly_so_many_of_a_hundred(
    contest: Store, shared_url: str, racers: Racers, quota: str
) -> None:
    contest.challenges.publish(a_challenge(version="v2", **{quota: 7}), b"", at=1.0)
    answers = racers.race(contest, shared_url, "report", times=100)
    assert answers.pop("refused") == 93
    assert answers == {each.id: 1 for each in contest.attempts.of("sums")}
    assert sorted(each.number for each in contest.attempts.of("sums")) == [*range(1, 8)]


def test_agents_that_are_scored_at_once_all_get_to_the_board(
    contest: Store, shared_url: str, racers: Racers
) -> None:
    assert racers.race(contest, shared_url, "play", times=40) == {"scored": 40}
    top = contest.boards.top("sums")
    assert contest.boards.size("sums") == len(top) == 40
    assert [each.rank for each in top] == [*range(1, 41)]
    assert_ratings_follow_from_the_log(contest)


def test_an_attempt_expires_once(contest: Store, shared_url: str, racers: Racers) -> None:
    contest.attempts.enter("sums", "alice", at=10.0, seed=1)
    answers = racers.race(contest, shared_url, "expire", times=20)
    assert sum(int(answer) * count for answer, count in answers.items()) == 1
    assert_ratings_follow_from_the_log(contest)


def test_one_agent_rated_at_several_challenges_at_once(
    contest: Store, shared_url: str, racers: Racers
) -> None:
    waiting = [submitted(contest)]
    for name in ("chess", "go"):
        contest.challenges.publish(a_challenge(name=name), b"", at=1.0)
        entered = contest.attempts.enter(name, "alice", at=10.0, seed=1)
        waiting.append(contest.attempts.submit(entered.id, "alice", PAYLOAD, at=11.0))
    answers = racers.let_go(
        [racers.start(contest, shared_url, "finish", each.id, 5) for each in waiting]
    )
    assert [Counter(each) for each in answers] == [{"scored": 1, "too late": 4}] * 3
    assert contest.ratings.of("alice").matches == 3
    assert_ratings_follow_from_the_log(contest)


def describe(store: Store) -> object:
    standings = store.boards.top("sums"), store.boards.size("sums")
    return standings, store.ratings.elo(), store.ratings.pairs(), list(store.ratings.matches())


@pytest.mark.parametrize(
    ("acts", "undo"), [(("void", "unvoid"), "unvoid"), (("disqualify", "reinstate"), "reinstate")]
)
def test_acts_of_organisers_that_race_with_scores(
    contest: Store, shared_url: str, racers: Racers, acts: tuple[str, str], undo: str
) -> None:
    contest.challenges.publish(a_challenge(name="chess"), b"", at=1.0)
    entered = contest.attempts.enter("chess", "alice", at=10.0, seed=1)
    elsewhere = contest.attempts.submit(entered.id, "alice", PAYLOAD, at=11.0)
    play(contest, "bob", an_outcome(7.0))
    waiting = submitted(contest)
    racing = [
        racers.start(contest, shared_url, action, attempt, 4)
        for action, attempt in (
            ("finish", waiting.id),
            ("finish", elsewhere.id),
            *((act, waiting.id) for act in acts),
        )
    ]
    racers.let_go(racing)
    assert_ratings_follow_from_the_log(contest)
    board = [each.agent for each in contest.boards.top("sums")]
    gone = acts[0] == "disqualify" and "alice" in contest.disqualifications.agents()
    void = contest.attempts.get(waiting.id).voided_at is not None
    assert board == (["bob"] if gone or void else ["bob", "alice"])
    if undo == "unvoid":
        contest.attempts.unvoid(waiting.id, at=20.0, reason="after the race")
    else:
        contest.disqualifications.reinstate("alice", at=20.0, reason="after the race")
    settled = describe(contest)
    assert [each.agent for each in contest.boards.top("sums")] == ["bob", "alice"]
    assert contest.ratings.of("alice").wins == 2
    contest.ratings.rebuild()
    assert describe(contest) == settled


def test_killed_between_submit_and_score_it_is_scored_once_afterwards(
    contest: Store, shared_url: str, racers: Racers
) -> None:
    play(contest, "bob", an_outcome(1.0))
    entered = contest.attempts.enter("sums", "alice", at=10.0, seed=1)
    killed = racers.start(contest, shared_url, "submit_and_die", entered.id, 1)
    killed.communicate("go\n", timeout=600)
    assert killed.returncode == -signal.SIGKILL
    (pending,) = contest.attempts.pending()
    assert (pending.id, contest.attempts.payload(pending.id)) == (entered.id, PAYLOAD)
    assert [finish(contest, pending, an_outcome(5.0)) for _ in range(3)] == [True, False, False]
    assert contest.attempts.pending() == []
    assert len(contest.attempts.history(entered.id)) == 1
    assert len(contest.ratings.changes("alice")) == 1
    assert [each.agent for each in contest.boards.top("sums")] == ["alice", "bob"]
    require_as_logged(contest, "attempts", "boards", "ratings")
