"""The queue of workers: never one job twice, fair turns, taken over and set aside."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import pytest
from scripts.server_process import require_as_logged
from sqlalchemy import update
from tests.store.contest_samples import by, quick_store, submitted

from tallymark.errors import LeaseLost
from tallymark.store import Store
from tallymark.store.job_queue import MOST_TAKEOVERS, JobQueue
from tallymark.store.jobs import NewJob, jobs

KINDS = ("score", "run")


@pytest.fixture
def store(own_url: str) -> Iterator[Store]:
    with quick_store(own_url) as opened:
        yield opened


@pytest.fixture
def queue(store: Store) -> JobQueue:
    return store.job_queue


def add(store: Store, count: int = 1, owner: str = "alice", kind: str = "score") -> list[str]:
    new = [NewJob(kind=kind, subject=f"{owner}-{n}", owner=owner) for n in range(count)]
    return [each.id for each in store.jobs.add_many(new)]


def change(store: Store, **values: Any) -> None:
    store._database.write(lambda c: c.execute(update(jobs).values(values)))


def let_lapse(store: Store) -> None:
    """As if nobody had renewed any lease for an hour."""
    change(store, expires_at=jobs.c.expires_at - 3600)


def test_a_claimed_job_is_nobody_elses(store: Store, queue: JobQueue) -> None:
    ids = add(store, 3)
    assert [each.id for each in queue.claim(KINDS, 2)] == ids[:2]
    assert [each.id for each in queue.claim(KINDS, 2)] == ids[2:]
    assert queue.claim(KINDS, 2) == []
    assert {each.state for each in store.jobs.list()} == {"running"}


def test_only_the_kinds_that_are_asked_for(store: Store, queue: JobQueue) -> None:
    add(store, kind="run")
    assert queue.claim(["score"], 9) == []
    assert [each.kind for each in queue.claim(["run"], 9)] == ["run"]
    assert queue.claim([], 9) == []


def test_of_many_who_claim_at_once_each_job_has_one(store: Store, queue: JobQueue) -> None:
    ids = add(store, 60)
    together = threading.Barrier(6)

    def work(_: int) -> list[str]:
        together.wait()
        found = list[str]()
        while batch := queue.claim(KINDS, 4):
            found += [each.id for each in batch]
        return found

    with ThreadPoolExecutor(6) as pool:
        claimed = [job for found in pool.map(work, range(6)) for job in found]
    assert sorted(claimed) == sorted(ids)


def test_tenants_take_turns_and_then_owners(store: Store, queue: JobQueue) -> None:
    add(store, 50, "alice")
    add(store, 2, "bob")
    add(store.for_tenant("other"), 3, "charlie")
    taken = [(each.tenant, each.owner) for each in queue.claim(KINDS, 8)]
    assert Counter(tenant for tenant, _ in taken) == {"default": 5, "other": 3}
    assert Counter(owner for _, owner in taken) == {"alice": 3, "bob": 2, "charlie": 3}


def test_who_has_least_running_goes_first(store: Store, queue: JobQueue) -> None:
    add(store, 10, "alice")
    queue.claim(KINDS, 3)
    add(store, 10, "bob")
    owners = [queue.claim(KINDS, 1)[0].owner for _ in range(5)]
    assert owners == ["bob", "bob", "bob", "alice", "bob"]


def test_whoever_began_a_job_longest_ago_goes_first(store: Store, queue: JobQueue) -> None:
    """Otherwise all older jobs of one owner would go before the first of another."""
    add(store, 3, owner="mallory")
    add(store, 1, owner="bob")
    order = []
    for _ in range(4):
        (claimed,) = queue.claim(KINDS, 1)
        order.append(claimed.owner)
        queue.finish(claimed)
    assert order == ["mallory", "bob", "mallory", "mallory"]


def test_what_must_wait_does_not_begin(store: Store, queue: JobQueue) -> None:
    store.jobs.add(NewJob(kind="score", subject="later", delay=3600.0))
    assert queue.claim(KINDS, 1) == []
    change(store, not_before=0.0)
    assert len(queue.claim(KINDS, 1)) == 1


def test_a_lease_that_ran_out_is_taken_over(store: Store, queue: JobQueue) -> None:
    (job,) = add(store)
    (first,) = queue.claim(KINDS, 1)
    let_lapse(store)
    (second,) = queue.claim(KINDS, 1)
    assert (second.id, second.takeovers) == (job, 1)
    for act in (queue.finish, queue.release, lambda each: queue.fail(each, "no")):
        with pytest.raises(LeaseLost, match=f"the job {job} was taken over"):
            act(first)
    assert queue.renew([first]) == set()
    queue.finish(second, "by the second")
    assert store.jobs.get(job).result == "by the second"


def test_a_lease_that_ran_out_while_nobody_came_still_counts(store: Store, queue: JobQueue) -> None:
    (job,) = add(store)
    (claimed,) = queue.claim(KINDS, 1)
    let_lapse(store)
    assert queue.renew([claimed]) == {job}
    assert queue.claim(KINDS, 1) == []
    let_lapse(store)
    queue.finish(claimed)
    assert store.jobs.get(job).state == "done"


def test_a_process_that_has_ended_is_noticed_at_once(store: Store, queue: JobQueue) -> None:
    (job,) = add(store)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        from tallymark.store.leases import describe_process

        assert len(queue.claim(KINDS, 1, describe_process(other.pid))) == 1
        assert queue.claim(KINDS, 1) == []
        other.kill()
        other.wait()
        (taken,) = queue.claim(KINDS, 1)
    assert taken.id == job
    require_as_logged(store, "jobs")
    queue.finish(taken)
    require_as_logged(store, "jobs")


def test_after_three_takeovers_a_person_must_look(store: Store, queue: JobQueue) -> None:
    (job,) = add(store)
    for takeovers in range(MOST_TAKEOVERS + 1):
        assert [each.takeovers for each in queue.claim(KINDS, 1)] == [takeovers]
        let_lapse(store)
    assert queue.claim(KINDS, 1) == []
    aside = store.jobs.get(job)
    assert (aside.state, aside.takeovers) == ("set_aside", 3)
    assert aside.error == "its worker stopped without a word, 4 times"
    # Nobody begins it behind the person's back; the person does.
    assert store.jobs.add(NewJob(kind="score", subject="alice-0")).id == job
    assert queue.claim(KINDS, 1) == []
    store.jobs.retry(job)
    assert [each.takeovers for each in queue.claim(KINDS, 1)] == [0]


def test_what_a_person_asks_for_again_begins_however_often_it_was_left(
    store: Store, queue: JobQueue
) -> None:
    (job,) = add(store)
    for _ in range(MOST_TAKEOVERS + 1):
        queue.claim(KINDS, 1)
        let_lapse(store)
    store.jobs.urge(job)  # nobody has found yet that it was left once more
    (left,) = queue.claim(KINDS, 1)
    queue.fail(left, "not today", again_after=600)
    assert queue.claim(KINDS, 1) == []
    store.jobs.urge(job)
    (failed,) = queue.claim(KINDS, 1)
    queue.fail(failed, "not at all")
    store.jobs.urge(job)
    (held,) = queue.claim(KINDS, 1)
    store.jobs.urge(job)
    assert queue.claim(KINDS, 1) == []
    queue.finish(held)
    store.jobs.urge(job)
    assert store.jobs.get(job).state == "done"


def test_what_comes_again_by_itself_is_never_set_aside(store: Store, queue: JobQueue) -> None:
    """Four power cuts while rules look at traces would else be the end of all rules."""
    job = store.jobs.add(NewJob(kind="decide", subject="decide")).id
    for _ in range(MOST_TAKEOVERS + 1):
        assert [each.id for each in queue.claim(["decide"], 1)] == [job]
        let_lapse(store)
    assert queue.claim(["decide"], 1) == []
    later = store.jobs.get(job)
    assert (later.state, later.takeovers) == ("queued", MOST_TAKEOVERS + 1)
    assert later.not_before - later.created_at > 50


def test_what_is_handed_back_was_not_taken_over(store: Store, queue: JobQueue) -> None:
    (job,) = add(store)
    (claimed,) = queue.claim(KINDS, 1)
    queue.release(claimed)
    (again,) = queue.claim(KINDS, 1)
    assert (again.id, again.takeovers, again.failures) == (job, 0, 0)


def test_what_failed_by_our_fault_comes_again_later(store: Store, queue: JobQueue) -> None:
    (job,) = add(store)
    (claimed,) = queue.claim(KINDS, 1)
    queue.fail(claimed, "no sandbox", again_after=3600.0)
    waiting = store.jobs.get(job)
    assert (waiting.state, waiting.error, waiting.failures) == ("queued", "no sandbox", 1)
    assert waiting.not_before > waiting.created_at + 3500
    assert queue.claim(KINDS, 1) == []


def test_a_job_that_was_ended_twice_by_its_holder_is_ended_once(
    store: Store, queue: JobQueue
) -> None:
    (job,) = add(store)
    (claimed,) = queue.claim(KINDS, 1)
    for _ in range(2):  # as after a connection that was lost while it committed
        queue.finish(claimed, 1)
    assert store.jobs.get(job).result == 1


def test_an_end_that_was_asked_for_outlives_the_worker(store: Store, queue: JobQueue) -> None:
    (job,) = add(store)
    queue.claim(KINDS, 1)
    store.jobs.cancel(job)
    let_lapse(store)
    (claimed,) = queue.claim(KINDS, 1)
    assert claimed.cancel_at is not None


def test_what_is_waiting_is_counted(store: Store, queue: JobQueue) -> None:
    add(store, 3)
    add(store, 1, kind="run")
    queue.finish(queue.claim(["score"], 2)[0])
    assert queue.count() == {("score", "queued"): 1, ("score", "running"): 1, ("run", "queued"): 1}


def test_what_is_long_over_is_forgotten(store: Store, queue: JobQueue) -> None:
    add(store, 2)
    queue.finish(queue.claim(KINDS, 1)[0])
    assert store.open_pruner(time.time()).remove_some("jobs") == 0
    change(store, finished_at=jobs.c.finished_at - 8 * 86_400)
    assert store.open_pruner(time.time()).remove_some("jobs") == 1
    assert [each.state for each in store.jobs.list()] == ["queued"]


def test_attempts_that_were_left_get_a_job(store: Store, queue: JobQueue) -> None:
    other = store.for_tenant("other")
    for each in (store, other):
        each.challenges.publish(by("custom"), b"files", at=0.0)
    queue.queue_unfinished_attempts(1000.0)
    assert store.jobs.list() == []
    submitted(store, at=990.0)
    queue.queue_unfinished_attempts(1000.0)
    assert store.jobs.list() == []  # it is on its way
    for _ in range(2):
        queue.queue_unfinished_attempts(1060.0)
    assert [(each.kind, each.state) for each in store.jobs.list()] == [("settle", "queued")]
    assert other.jobs.list() == []


def test_claims_of_processes_are_apart(store: Store, queue: JobQueue, own_url: str) -> None:
    """Real processes, since threads of one share their driver."""
    ids = add(store, 80)
    code = (
        "import sys; from tallymark.store import open_store\n"
        "with open_store(sys.argv[1], patience=60) as store:\n"
        "    input()\n"
        "    while batch := store.job_queue.claim(['score'], 3):\n"
        "        for each in batch: print(each.id)\n"
    )
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", code, own_url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for each in workers:
        assert each.stdin is not None
        each.stdin.write("\n")
        each.stdin.flush()
    # Those of a worker that has ended would be taken over: all end after the last claim.
    said = [each.communicate(timeout=60)[0].split() for each in workers]
    claimed = Counter(job for found in said for job in found)
    assert set(claimed) == set(ids)
    taken_over = {each.id: each.takeovers for each in store.jobs.list(limit=100)}
    assert all(count == 1 + taken_over[job] for job, count in claimed.items())


def test_what_was_claimed_is_whole(store: Store, queue: JobQueue) -> None:
    store.jobs.add(NewJob(kind="run", subject="r1", owner="bob", payload={"tries": [1, None]}))
    (claimed,) = queue.claim(KINDS, 1)
    told = msgspec.structs.asdict(claimed)
    assert len(told.pop("token")) == 32
    assert told.pop("id").startswith("j")
    assert told == {
        "tenant": "default",
        "owner": "bob",
        "kind": "run",
        "subject": "r1",
        "payload": {"tries": [1, None]},
        "takeovers": 0,
        "failures": 0,
        "cancel_at": None,
    }
