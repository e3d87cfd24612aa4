"""What webhooks hear of challenges and runs: each thing once, on both databases."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace
from tests.store.contest_samples import an_outcome, by, play
from tests.store.run_samples import FULL_RUN

from tallymark.store import Store
from tallymark.store.dry_run import dry_run
from tallymark.store.webhooks import EVENTS, Webhook, make_signing_secret


def listen(store: Store, name: str = "whk_a", **fields: Any) -> str:
    """A webhook that hears of everything."""
    plain = {"id": name, "url": "https://example.com", "events": EVENTS, "made_by": "alice"}
    store.webhooks.add(Webhook(**{**plain, "created_at": 5.0, **fields}), make_signing_secret())
    return name


def heard(store: Store, webhook: str = "whk_a") -> list[tuple[str, Any]]:
    """What it is told, the oldest first: events and their data."""
    bodies = [json.loads(each.body) for each in reversed(store.deliveries.list(webhook))]
    return [(each["type"], each["data"]) for each in bodies]


@pytest.fixture
def store(contest: Store) -> Store:
    """With a record of alice's from before anybody listened."""
    play(contest, "alice", an_outcome(10.0), at=1.0)
    listen(contest)
    return contest


def test_what_was_before_is_not_told(store: Store) -> None:
    assert store.follow_challenges() == 0
    assert heard(store) == []


def test_a_record_is_beaten_once_and_not_equalled(store: Store) -> None:
    play(store, "bob", an_outcome(10.0), at=20.0)
    assert store.follow_challenges() == 0
    best = play(store, "bob", an_outcome(11.0), at=30.0)
    assert store.follow_challenges() == 1
    assert store.follow_challenges() == 0
    ((event, data),) = heard(store)
    assert event == "record.beaten"
    assert data["challenge"] == "sums"
    assert data["record"] == {"agent": "bob", "value": 11.0, "score": 11.0, "attempt": best.id}
    assert (data["before"]["agent"], data["before"]["value"]) == ("alice", 10.0)


def test_the_first_on_a_board_beats_nobody(store: Store) -> None:
    store.challenges.publish(by("custom", name="fresh"), b"files", at=6.0)
    entered = store.attempts.enter("fresh", "bob", at=7.0, seed=1)
    store.attempts.withdraw(entered.id, "bob", at=8.0)
    assert store.follow_challenges() == 0


def test_who_falls_back_to_the_lead_beats_nobody(store: Store) -> None:
    play(store, "bob", an_outcome(11.0), at=20.0)
    store.follow_challenges()
    store.disqualifications.disqualify("bob", reason="a test", at=21.0)
    play(store, "carol", an_outcome(1.0), at=22.0)
    store.follow_challenges()
    assert [event for event, _ in heard(store)] == ["record.beaten"]


def test_an_attempt_that_failed_is_told_with_its_error(store: Store) -> None:
    lost = play(store, "bob", an_outcome(None, error="it crashed", ranks=False), at=20.0)
    assert store.follow_challenges() == 1
    told = {"id": lost.id, "challenge": "sums", "agent": "bob", "number": 1, "error": "it crashed"}
    assert heard(store) == [("attempt.failed", {"attempt": told})]


def test_each_hears_of_what_it_wants(store: Store) -> None:
    listen(store, "whk_other", challenge="other")
    listen(store, "whk_runs", events=("run.finished",))
    play(store, "bob", an_outcome(11.0), at=20.0)
    assert store.follow_challenges() == 1
    assert (heard(store, "whk_other"), heard(store, "whk_runs")) == ([], [])


def test_the_end_of_a_run_is_told_once(store: Store) -> None:
    store.create_run(replace(FULL_RUN, status="running", finished_at=None))
    assert heard(store) == []
    for _ in range(2):
        store.save_run(FULL_RUN)
    ((event, data),) = heard(store)
    assert event == "run.finished"
    named = ("id", "status", "score", "score_low", "score_formula", "passed")
    assert [data["run"][name] for name in named] == [getattr(FULL_RUN, name) for name in named]
    assert "definition" not in data["run"]


def test_who_pauses_hears_nothing_and_later_only_what_is_new(store: Store) -> None:
    store.webhooks.set_state("whk_a", "paused", at=10.0)
    play(store, "bob", an_outcome(11.0), at=20.0)
    assert store.follow_challenges() == 0
    store.webhooks.set_state("whk_a", "active", at=30.0)
    assert store.follow_challenges() == 0
    play(store, "carol", an_outcome(12.0), at=40.0)
    assert store.follow_challenges() == 1


def test_what_is_rehearsed_is_not_told(store: Store) -> None:
    with dry_run():
        store.create_run(FULL_RUN)
    assert heard(store) == []


def test_what_follows_is_queued_by_whoever_looks(store: Store) -> None:
    play(store, "bob", an_outcome(11.0), at=20.0)
    store.job_queue.queue_announcements()
    job = store.jobs.find("announce", "announce")
    assert job is not None
    assert job.state == "queued"


def test_a_removed_webhook_takes_what_it_was_told_with_it(store: Store) -> None:
    play(store, "bob", an_outcome(11.0), at=20.0)
    store.follow_challenges()
    store.webhooks.remove("whk_a", at=30.0)
    assert store.webhooks.all() == []
    assert store.deliveries.list("whk_a") == []


def test_a_long_log_is_told_in_parts(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tallymark.store.webhooks._AT_ONCE", 2)
    for at in range(3):
        outcome = an_outcome(None, error="no", ranks=False)
        play(store, "bob", outcome, at=20.0 + at)
    assert store.follow_challenges() == 3
