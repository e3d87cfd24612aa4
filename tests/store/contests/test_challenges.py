"""Challenges in the store: every version is kept, one of them counts."""

from __future__ import annotations

import pytest
from tests.store.contest_samples import a_challenge, an_outcome, by, play

from tallymark.challenges.challenge import (
    Constraints,
    DimensionWeight,
    Evaluator,
    ScoringRule,
    Submission,
)
from tallymark.challenges.tracks import Track
from tallymark.errors import Conflict, InvalidInput, NotFound
from tallymark.store import AuditEntry, Store, open_store

FULL = a_challenge(
    name="full",
    difficulty="veteran",
    time_limit_s=12.5,
    attempts=3,
    attempts_per_day=2,
    opens_at=1.0,
    closes_at=2.5,
    freezes_at=2.0,
    constraints=Constraints(tokens=5, tools=("search",)),
    submission=Submission(schema={"type": "object"}, schema_dimension="speed"),
    evaluator=Evaluator(type="deterministic", options={"fields": [{"a": None}]}),
    scoring=ScoringRule(dimensions=(DimensionWeight(key="speed", weight=1.0),), config={"a": 1}),
    public=("data.json",),
)


def test_a_challenge_comes_back_whole(contest: Store) -> None:
    contest.challenges.publish(FULL, b"\0packed\xff", at=5.0)
    assert contest.challenges.get("full") == FULL
    assert contest.challenges.packed("full", "v1") == b"\0packed\xff"
    assert [each.challenge.name for each in contest.challenges.all()] == ["full", "sums"]


def test_every_version_is_kept(contest: Store) -> None:
    newer = a_challenge(version="v2", title="Harder sums")
    contest.challenges.publish(newer, b"newer files", at=5.0)
    assert contest.challenges.get("sums") == newer
    assert contest.challenges.get_version("sums", "v1") == a_challenge()
    assert contest.challenges.packed("sums", "v1") == b"files"


def test_the_version_that_counts_published_again_changes_nothing(contest: Store) -> None:
    before = contest.challenges.find("sums").revision, contest.challenges.audit("sums")
    contest.challenges.publish(a_challenge(title="Other"), b"other", at=5.0)
    assert contest.challenges.get("sums") == a_challenge()
    assert (contest.challenges.find("sums").revision, contest.challenges.audit("sums")) == before


def test_an_older_version_can_be_published_again(contest: Store) -> None:
    contest.challenges.publish(a_challenge(version="v2"), b"", at=5.0)
    contest.challenges.publish(a_challenge(), b"", at=6.0)
    assert contest.challenges.get("sums").version == "v1"
    assert contest.challenges.packed("sums", "v1") == b"files"
    assert contest.challenges.find("sums").revision == 3


def test_publishing_is_written_down(contest: Store) -> None:
    contest.challenges.publish(a_challenge(version="v2"), b"", at=5.0)
    assert contest.challenges.audit("sums") == [
        AuditEntry(at=0.0, actor="organiser", event="published", after="v1"),
        AuditEntry(at=5.0, actor="organiser", event="published", before="v1", after="v2"),
    ]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("sum", "there is no challenge 'sum'; did you mean 'sums'?"),
        ("chess", "there is no challenge 'chess'; there is sums"),
    ],
)
def test_a_challenge_that_is_not_there(contest: Store, name: str, message: str) -> None:
    for ask in (contest.challenges.get, contest.boards.top, contest.attempts.of):
        with pytest.raises(InvalidInput) as caught:
            ask(name)
        assert str(caught.value) == message


def test_a_version_that_is_not_there(contest: Store) -> None:
    with pytest.raises(InvalidInput, match="challenge 'sums' has no version 'v9'"):
        contest.challenges.get_version("sums", "v9")


def test_a_name_that_cannot_be_kept_is_refused(contest: Store) -> None:
    with pytest.raises(InvalidInput, match="a challenge cannot be called"):
        contest.challenges.publish(by("first", name="a\0b"), b"", at=1.0)


def test_tenants_do_not_see_each_other(shared_url: str, contest: Store) -> None:
    with open_store(shared_url, tenant="somebody else") as other:
        with pytest.raises(InvalidInput, match="there are no challenges yet"):
            other.challenges.get("sums")
        assert other.challenges.all() == []


def test_a_challenge_that_nobody_tried_is_deleted_and_its_log_stays(contest: Store) -> None:
    contest.challenges.close("sums", at=4.0, reason="too easy")
    contest.challenges.delete("sums", at=5.0, reason="made by mistake")
    assert contest.challenges.all() == []
    told = contest.audit_log.entries()
    assert [each.event for each in told] == ["challenge deleted", "closed", "published"]
    assert told[0].note == {"challenge": "sums", "reason": "made by mistake"}
    with pytest.raises(NotFound, match="there are no challenges yet"):
        contest.challenges.delete("sums", at=6.0, reason="again")
    with pytest.raises(NotFound):
        contest.attempts.enter("sums", "alice", at=7.0, seed=1)
    contest.challenges.publish(by("custom"), b"files", at=8.0)
    assert contest.attempts.enter("sums", "alice", at=9.0, seed=1).number == 1
    assert contest.check_all().counts == {}


def test_a_challenge_with_attempts_is_not_deleted(contest: Store) -> None:
    contest.attempts.enter("sums", "alice", at=1.0, seed=1)
    with pytest.raises(Conflict, match="has attempts, from which ratings are derived"):
        contest.challenges.delete("sums", at=5.0, reason="gone")
    assert contest.challenges.get("sums") == by("custom")


def test_a_challenge_that_was_renamed_keeps_all_but_its_name(contest: Store) -> None:
    done = play(contest, "alice", an_outcome(5.0))
    opened = contest.attempts.enter("sums", "bob", at=20.0, seed=1)
    contest.challenges.publish(by("custom", version="v2"), b"newer", at=25.0)
    ratings = contest.ratings.elo()
    contest.challenges.rename("sums", "totals", at=30.0, reason="a better name")
    assert [each.challenge.name for each in contest.challenges.all()] == ["totals"]
    assert contest.challenges.get_version("totals", "v1") == by("custom", name="totals")
    assert contest.challenges.packed("totals", "v2") == b"newer"
    assert contest.attempts.get(done.id).challenge == "totals"
    assert contest.attempts.get(opened.id).challenge == "totals"
    assert contest.boards.standing("totals", "alice") is not None
    assert contest.ratings.elo() == ratings
    assert contest.attempts.enter("totals", "bob", at=31.0, seed=2).id == opened.id
    told = {"before": "sums", "after": "totals", "reason": "a better name"}
    assert contest.challenges.audit("totals")[-1].note == told
    with pytest.raises(NotFound, match="there is no challenge 'sums'"):
        contest.attempts.enter("sums", "bob", at=32.0, seed=2)
    contest.challenges.publish(by("custom"), b"files", at=33.0)  # the old name is free
    assert contest.attempts.enter("sums", "bob", at=34.0, seed=2).id != opened.id
    assert contest.check_all().counts == {}


@pytest.mark.parametrize("new", ["", "No Slug", "-", "x" * 101])
def test_a_challenge_is_not_given_a_name_that_it_cannot_have(contest: Store, new: str) -> None:
    with pytest.raises(InvalidInput, match="a challenge cannot be called"):
        contest.challenges.rename("sums", new, at=5.0, reason="a test")


def test_a_challenge_is_not_given_the_name_of_another(contest: Store) -> None:
    contest.challenges.publish(by("custom", name="other"), b"", at=1.0)
    with pytest.raises(Conflict, match="there is a challenge 'other' already"):
        contest.challenges.rename("sums", "other", at=5.0, reason="a test")


def test_a_challenge_of_a_track_keeps_its_name_and_stays(contest: Store) -> None:
    contest.tracks.put(Track(name="spring", title="Spring", challenges=("sums",)), at=1.0)
    with pytest.raises(Conflict, match="part of the track 'spring'"):
        contest.challenges.rename("sums", "totals", at=5.0, reason="a test")
    with pytest.raises(Conflict, match="part of the track 'spring'"):
        contest.challenges.delete("sums", at=5.0, reason="a test")
