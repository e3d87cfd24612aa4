"""The flow: submitted, paired, judged once; and after a failure or a crash."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.challenges.versus.versus_contest import FakeJudge, a_challenge

from tallymark.challenges.challenge import Challenge, Submission
from tallymark.challenges.versus import arena as arena_module
from tallymark.challenges.versus.arena import Arena
from tallymark.challenges.versus.pairings import Meeting, Ruling
from tallymark.errors import InvalidInput, WorkFailed
from tallymark.store import Store, open_store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(str(tmp_path / "tally.db")) as opened:
        opened.challenges.publish(a_challenge(), b"", at=1.0)
        yield opened


def longer_wins(meeting: Meeting) -> bool:
    return len(meeting.attack) > len(meeting.defence)


def an_arena(store: Store, judge: FakeJudge, challenge: Challenge | None = None) -> Arena:
    clock = iter(range(10, 10_000))
    return Arena(store.versus, challenge or a_challenge(), judge, clock=lambda: float(next(clock)))


def test_a_submission_meets_the_other_side_and_every_category_is_judged(store: Store) -> None:
    judge = FakeJudge(longer_wins)
    arena = an_arena(store, judge)
    assert arena.submit("bob", "blue", "four")[1] == []
    arena.submit("charlie", "blue", "twelve chars")
    _, verdicts = arena.submit("alice", "red", "attack")
    assert [(each.category, each.breached) for each in verdicts] == [
        ("leak", True),
        ("override", True),
        ("leak", False),
        ("override", False),
    ]
    assert all(each.judge == "fake judge" and each.reason == "because" for each in verdicts)
    assert judge.asked[0] == Meeting("attack", "four", "leak")


def test_standings_count_the_newest_submissions_alone(store: Store) -> None:
    arena = an_arena(store, FakeJudge(longer_wins))
    arena.submit("bob", "blue", "1")
    arena.submit("alice", "red", "12")
    arena.submit("bob", "blue", "123")
    (alice,) = arena.standings("red")
    assert (alice.points, alice.against) == (0, 2)
    assert [line.player for line in arena.standings()] == ["bob", "alice"]


def test_the_same_content_again_is_the_same_submission_and_no_points(store: Store) -> None:
    judge = FakeJudge(longer_wins)
    arena = an_arena(store, judge)
    arena.submit("bob", "blue", "1")
    first = arena.submit("alice", "red", "12")
    assert arena.submit("alice", "red", "12") == first
    assert len(judge.asked) == 2


def test_a_failure_is_nobodys_point_and_can_be_judged_again(store: Store) -> None:
    down = True

    def sometimes(meeting: Meeting) -> bool:
        if down and meeting.category == "leak":
            raise ValueError("the judge is ill")
        return True

    arena = an_arena(store, FakeJudge(sometimes))
    arena.submit("bob", "blue", "1")
    _, verdicts = arena.submit("alice", "red", "12")
    assert [(each.state, each.breached, each.error) for each in verdicts] == [
        ("failed", None, "the judge is ill"),
        ("judged", True, None),
    ]
    (alice,) = arena.standings("red")
    assert (alice.points, alice.against, alice.unjudged) == (1, 0, 1)
    assert (arena.settle(), arena.settle(again=True)) == (0, 0)
    down = False
    assert (arena.settle(again=True), arena.settle(again=True)) == (1, 0)
    leak = store.versus.verdicts("guard")[0]
    assert (leak.state, leak.breached, leak.error, leak.tries) == (
        "judged",
        True,
        "the judge is ill",
        3,
    )


def test_what_a_crash_left_is_judged_once_afterwards(store: Store) -> None:
    class Crash:
        name = "crash"

        def rule(self, meetings: Sequence[Meeting]) -> list[Ruling]:
            raise WorkFailed("no sandbox here")

    crashing = Arena(store.versus, a_challenge(), Crash())
    crashing.submit("bob", "blue", "1")
    with pytest.raises(WorkFailed):
        crashing.submit("alice", "red", "12")
    judge = FakeJudge(longer_wins)
    arena = an_arena(store, judge)
    assert (arena.settle(), arena.settle()) == (2, 0)
    assert len(judge.asked) == 2


def test_many_verdicts_are_judged_a_few_at_a_time(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arena_module, "AT_ONCE", 3)
    for number in range(4):
        store.versus.submit("guard", f"blue-{number}", "blue", "1", at=1.0)
    store.versus.submit("guard", "alice", "red", "12", at=2.0)
    judge = FakeJudge(longer_wins)
    assert an_arena(store, judge).settle() == len(judge.asked) == 8


def test_those_with_a_clean_record_are_judged_first(store: Store) -> None:
    def judge(meeting: Meeting) -> bool:
        if meeting.attack == "bomb" and meeting.defence == "1":
            raise ValueError("the judge is ill")
        return True

    fake = FakeJudge(judge)
    arena = an_arena(store, fake)
    arena.submit("bob", "blue", "1")
    arena.submit("charlie", "blue", "12")
    arena.submit("mallory", "red", "bomb")
    fake.asked.clear()
    arena.submit("alice", "red", "attack")
    assert [each.defence for each in fake.asked] == ["12", "12", "1", "1"]


def test_the_public_board_stands_still_from_the_freeze_on(store: Store) -> None:
    challenge = replace(a_challenge(), freezes_at=50.0)
    now = [10.0]
    arena = Arena(store.versus, challenge, FakeJudge(longer_wins), clock=lambda: now[0])
    arena.submit("bob", "blue", "1")
    arena.submit("alice", "red", "12")
    before = arena.standings()
    now[0] = 50.0
    arena.submit("bob", "blue", "123")
    arena.submit("charlie", "red", "1234")
    assert arena.standings() == before
    live = {line.player: line.points for line in arena.standings(public=False)}
    assert live == {"alice": 0, "bob": 2, "charlie": 2}


def test_a_submission_that_the_challenge_does_not_take_is_refused(store: Store) -> None:
    small = a_challenge(submission=Submission(format="text", max_bytes=10))
    arena = an_arena(store, FakeJudge(longer_wins), small)
    with pytest.raises(InvalidInput, match="larger than 10 bytes"):
        arena.submit("alice", "red", "x" * 11)
    with pytest.raises(InvalidInput, match="must be text"):
        arena.submit("alice", "red", {"a": 1})
    assert store.versus.submissions("guard") == []


def test_a_solo_challenge_has_no_arena(store: Store) -> None:
    with pytest.raises(InvalidInput, match="not a challenge of red against blue"):
        an_arena(store, FakeJudge(longer_wins), a_challenge(kind="solo", versus=None))
