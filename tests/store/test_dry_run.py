"""Rehearsals: done and undone, by every way to write."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextvars import copy_context

import pytest
from tests.store.contest_samples import a_challenge

from tallymark.challenges.attempt import Metrics, Payload
from tallymark.errors import InvalidInput
from tallymark.store import Store, open_store
from tallymark.store.dry_run import dry_run, is_dry_run


@pytest.fixture
def store(empty_url: str) -> Iterator[Store]:
    with open_store(empty_url) as kept:
        kept.challenges.publish(a_challenge(name="sums"), b"", at=0.0)
        yield kept


def test_what_is_rehearsed_is_not_kept(store: Store) -> None:
    with dry_run():
        store.set_var("city", "Paris")
        entered = store.attempts.enter("sums", "alice", at=1.0, seed=1)
        assert entered.state == "entered"
    assert store.vars() == {}
    assert store.attempts.of("sums") == []


def test_what_would_be_refused_is_refused(store: Store) -> None:
    with dry_run(), pytest.raises(InvalidInput, match="no challenge"):
        store.attempts.enter("nothing", "alice", at=1.0, seed=1)


def test_the_writer_keeps_what_others_ask_meanwhile(store: Store) -> None:
    store.start_writer()
    with dry_run():
        store.attempts.report("sums", "alice", Payload(), Metrics(), at=1.0)
    store.attempts.report("sums", "bob", Payload(), Metrics(), at=2.0)
    assert [each.agent for each in store.attempts.of("sums")] == ["bob"]


def test_a_thread_that_works_for_a_rehearsal_rehearses() -> None:
    seen: list[bool] = []
    with dry_run():
        context = copy_context()
        thread = threading.Thread(target=context.run, args=(lambda: seen.append(is_dry_run()),))
        thread.start()
        thread.join()
    assert seen == [True]
    assert not is_dry_run()


def test_not_really_is_as_always(store: Store) -> None:
    with dry_run(really=False):
        store.set_var("city", "Paris")
    assert store.vars() == {"city": "Paris"}
    store.delete_var("city")
