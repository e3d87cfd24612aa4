"""Jobs of a tenant: added once, looked at, cancelled, begun anew."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest
from tests.store.contest_samples import quick_store

from tallymark.errors import Conflict, InvalidInput, NotFound
from tallymark.store import Store
from tallymark.store.job_queue import Claimed
from tallymark.store.jobs import NewJob, add_rows


@pytest.fixture
def store(shared_url: str) -> Iterator[Store]:
    """A tenant of its own; each test has kinds of its own too, since workers see all tenants."""
    with quick_store(shared_url, uuid4().hex) as opened:
        yield opened


def a_job(subject: str = "a1", kind: str = "score", **fields: object) -> NewJob:
    return NewJob(**{"kind": kind, "subject": subject, "owner": "alice", **fields})  # type: ignore[arg-type]


def claim_one(store: Store) -> Claimed:
    (claimed,) = [
        each for each in store.job_queue.claim(["score"], 50) if each.tenant == store.tenant
    ]
    return claimed


def test_a_job_is_kept_as_it_was_added(store: Store) -> None:
    added = store.jobs.add(a_job(payload={"agent": "ann"}))
    assert (added.state, added.takeovers, added.result) == ("queued", 0, None)
    assert abs(added.not_before - added.created_at) < 0.01
    assert store.jobs.get(added.id) == added
    assert store.jobs.find("score", "a1") == added
    assert store.jobs.find("score", "a2") is None
    assert claim_one(store).payload == {"agent": "ann"}


def test_a_subject_has_one_unfinished_job_of_a_kind(store: Store) -> None:
    first = store.jobs.add(a_job())
    again, other, of_another_kind = store.jobs.add_many(
        [a_job(), a_job("a2"), a_job(kind="rescore")]
    )
    assert again == first
    assert len({first.id, other.id, of_another_kind.id}) == 3
    store.job_queue.finish(next(iter(store.job_queue.claim(["score"], 1))), {"score": 1})
    assert store.jobs.get(first.id).result == {"score": 1}
    assert store.jobs.add(a_job()).id != first.id


def test_a_job_is_added_with_the_transaction_it_belongs_to(store: Store) -> None:
    job = a_job()

    def break_off(connection: object) -> None:
        add_rows(connection, store.tenant, [job])  # type: ignore[arg-type]
        raise InvalidInput("no")

    with pytest.raises(InvalidInput):
        store._database.write(break_off)
    assert store.jobs.list() == []
    store._database.write(lambda c: add_rows(c, store.tenant, [job]))
    assert [each.id for each in store.jobs.list()] == [job.id]


def test_jobs_are_listed_newest_first_and_page_by_page(store: Store) -> None:
    ids = [each.id for each in store.jobs.add_many([a_job(str(n)) for n in range(5)])]
    first = store.jobs.list(limit=2)
    rest = store.jobs.list(limit=9, before=first[-1].number)
    assert [each.id for each in [*first, *rest]] == ids[::-1]
    store.jobs.cancel(ids[0])
    assert [each.id for each in store.jobs.list(state="cancelled")] == [ids[0]]


def test_another_tenant_sees_nothing(store: Store) -> None:
    job = store.jobs.add(a_job())
    other = store.for_tenant(uuid4().hex)
    assert other.jobs.list() == []
    for act in (other.jobs.get, other.jobs.cancel, other.jobs.retry):
        with pytest.raises(NotFound, match=f"there is no job '{job.id}'"):
            act(job.id)
    assert store.jobs.get(job.id).state == "queued"


def test_a_job_that_waits_is_cancelled_at_once(store: Store) -> None:
    job = store.jobs.add(a_job())
    assert store.jobs.cancel(job.id).state == "cancelled"
    assert store.jobs.cancel(job.id).state == "cancelled"
    assert [each for each in store.job_queue.claim(["score"], 50) if each.id == job.id] == []


def test_a_job_that_runs_is_asked_to_end(store: Store) -> None:
    job = store.jobs.add(a_job())
    claimed = claim_one(store)
    assert store.job_queue.find_cancelled([claimed]) == set()
    assert store.jobs.cancel(job.id).state == "running"
    assert store.job_queue.find_cancelled([claimed]) == {job.id}
    store.job_queue.finish(claimed, state="cancelled")
    assert store.jobs.get(job.id).state == "cancelled"


def test_what_is_over_cannot_be_cancelled(store: Store) -> None:
    job = store.jobs.add(a_job())
    store.job_queue.finish(claim_one(store))
    with pytest.raises(Conflict, match=f"the job {job.id} is over: it is done"):
        store.jobs.cancel(job.id)


def test_what_failed_can_be_begun_anew(store: Store) -> None:
    job = store.jobs.add(a_job())
    with pytest.raises(Conflict, match="is queued: there is nothing to restart"):
        store.jobs.retry(job.id)
    store.job_queue.fail(claim_one(store), "no such thing")
    assert store.jobs.get(job.id).error == "no such thing"
    anew = store.jobs.retry(job.id)
    assert (anew.state, anew.error, anew.finished_at) == ("queued", None, None)
    assert claim_one(store).id == job.id


def test_what_failed_is_not_begun_anew_beside_another(store: Store) -> None:
    job = store.jobs.add(a_job())
    store.job_queue.fail(claim_one(store), "no")
    other = store.jobs.add(a_job())
    with pytest.raises(Conflict, match=f"another job, {other.id}, is about a1 already"):
        store.jobs.retry(job.id)
