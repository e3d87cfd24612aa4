"""The bell: who waits in this process is told at once."""

from __future__ import annotations

import threading

from tallymark.store import Store
from tallymark.store.job_wakeups import JobWakeups
from tallymark.store.jobs import NewJob


def test_a_job_that_is_added_wakes_the_workers(sqlite_store: Store) -> None:
    event = threading.Event()
    sqlite_store.job_queue.wakeups.wake(event)
    sqlite_store.for_tenant("other").jobs.add(NewJob(kind="score", subject="a1"))
    assert event.is_set()
    event.clear()
    sqlite_store.job_queue.wakeups.leave(event)
    sqlite_store.jobs.wakeups.ring()
    assert not event.is_set()


def test_who_expects_a_job_is_told_of_its_end(sqlite_store: Store) -> None:
    store = sqlite_store
    job = store.jobs.add(NewJob(kind="score", subject="a1"))
    future = store.jobs.wakeups.expect(job.id)
    (claimed,) = store.job_queue.claim(["score"], 1)
    assert not future.done()
    store.job_queue.finish(claimed)
    assert future.done()


def test_nothing_is_kept_of_who_gave_up() -> None:
    bell = JobWakeups()
    one, two = bell.expect("j1"), bell.expect("j1")
    bell.forget("j1", one)
    bell.let_go("j1")
    assert (one.done(), two.done()) == (False, True)
    bell.forget("j1", two)
    assert not bell._waiting
    bell.hold("j1")
    assert bell.is_held("j1")
    bell.let_go("j1")
    assert not bell.is_held("j1")
