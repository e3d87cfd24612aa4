"""What was kept for long enough is removed, of each kind and of nothing else."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator

import pytest
from sqlalchemy import insert
from tests.store.contest_samples import quick_store
from tests.store.run_samples import a_run, many

from tallymark.errors import InvalidInput
from tallymark.service.maintenance_thread import prune
from tallymark.store import Store
from tallymark.store.idempotency import idempotent_answers
from tallymark.store.invitations import registrations
from tallymark.store.keys import sessions
from tallymark.store.retention import DAY, KINDS
from tallymark.store.retention_policy import read_days
from tallymark.store.tenants import TenantSettings, create_tenant

NOW = 1_790_000_000.0


@pytest.fixture
def store(shared_url: str) -> Iterator[Store]:
    with quick_store(shared_url, uuid.uuid4().hex[:12]) as made:
        name = made.tenant
        made._database.write(lambda c: create_tenant(c, name, TenantSettings(), NOW))
        yield made


def fill(store: Store, at: float) -> None:
    """One of each kind that ended then."""
    run = f"r-{at:.0f}"
    store.create_run(a_run(run, status="completed", created_at=at, finished_at=at))
    store.add_results(run, many(3))
    who = {"tenant": store.tenant}
    made = {
        idempotent_answers: {
            "caller": "k",
            "key": run,
            "digest": "",
            "at": at,
            "token": "",
            "body": b"12345",
        },
        registrations: {"address": "127.0.0.1", "at": at},
        sessions: {
            "hash": f"{store.tenant} {run}",
            "key_id": "k",
            "csrf": "",
            "created_at": at,
            "expires_at": at,
        },
    }
    for table, row in made.items():
        store._database.write(lambda c, t=table, r=row: c.execute(insert(t).values(who | r)))  # type: ignore[misc]


def test_each_kind_by_its_own_time(store: Store) -> None:
    name = store.tenant
    store.tenants.change({"retention": {"runs": 30}}, at=NOW)
    for age in (0.5, 1.5, 40):
        fill(store, NOW - age * DAY)
    told = prune(store, NOW, tenant=name, really=False)
    counts = {each.kind: each.rows for each in told}
    assert counts == {
        "traces": 0,
        "runs": 1,
        "jobs": 0,
        "answers": 2,
        "sessions": 2,
        "deliveries": 0,
        "registrations": 1,
    }
    assert {each.kind for each in told if each.bytes} == {
        "runs",
        "answers",
        "sessions",
        "registrations",
    }
    assert len(store.runs()) == 3
    assert prune(store, NOW, tenant=name) == told
    assert len(store.runs()) == 2
    assert not any(each.rows for each in prune(store, NOW, tenant=name))


def test_what_still_runs_is_not_old(store: Store) -> None:
    name = store.tenant
    store.tenants.change({"retention": {"runs": 1}}, at=NOW)
    store.create_run(a_run("going", status="running", created_at=1.0))
    assert not any(each.rows for each in prune(store, time.time(), tenant=name))


def test_times_are_read_as_people_write_them() -> None:
    assert read_days(["runs=90d", "jobs=forever", "sessions=36h"]) == {
        "runs": 90,
        "jobs": None,
        "sessions": 1.5,
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("runs", "'' is no time"),
        ("runs=soon", "'soon' is no time"),
        ("rnus=1d", "did you mean 'runs'"),
        ("traces=1d", "tally traces settings"),
    ],
)
def test_what_is_no_time_or_kind(text: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        read_days([text])


def test_every_kind_is_named() -> None:
    assert KINDS == ("traces", "runs", "jobs", "answers", "sessions", "deliveries", "registrations")
