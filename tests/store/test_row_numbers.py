"""Each tenant counts its own rows, and no number is given out twice."""

from __future__ import annotations

import threading
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import Connection
from tests.store.contest_samples import quick_store

from tallymark.store import Store, open_store, row_numbers
from tallymark.store.row_numbers import take_numbers


def take(store: Store, count: int = 1, tenant: str | None = None) -> list[int]:
    """Numbers of attempts, in a transaction of their own."""
    who = tenant or store.tenant
    return list(store._database.write(lambda c: take_numbers(c, "attempts", who, count)))


def test_the_default_tenant_counts_from_1_and_others_in_their_ranges(empty_url: str) -> None:
    with quick_store(empty_url) as store:
        first = take(store, 2, "acme")[0]
        assert take(store, 3) == [1, 2, 3]
        assert take(store, 1, "acme") == [first + 2]
        assert take(store) == [4]
    assert (first % 10**10, 10**13 < first < 10**14) == (1, True)


def test_tenants_that_would_begin_alike_do_not(empty_url: str) -> None:
    alike: dict[int, list[str]] = defaultdict(list)
    for number in range(1000):
        name = f"tenant {number}"
        alike[next(row_numbers._list_starts(name))].append(name)
    one, two = next(names for names in alike.values() if len(names) > 1)[:2]
    with quick_store(empty_url) as store:
        numbers = [take(store, 1, each)[0] for each in (one, two, one, two)]
    assert numbers[2:] == [numbers[0] + 1, numbers[1] + 1]
    assert numbers[0] // 10**10 != numbers[1] // 10**10


def test_numbers_never_reach_what_javascript_cannot_count() -> None:
    for number in range(1000):
        starts = row_numbers._list_starts(f"tenant {number}")
        assert all(10**13 <= next(starts) < 2**53 - 10**10 for _ in range(5))


def test_what_is_undone_gives_no_number_out_twice(empty_url: str) -> None:
    """SQLite gives the numbers of an undone transaction to the next one, PostgreSQL to none."""
    with quick_store(empty_url) as store:

        def fail(connection: Connection) -> None:
            take_numbers(connection, "attempts", store.tenant, 5)
            raise KeyboardInterrupt

        take(store)
        with pytest.raises(KeyboardInterrupt):
            store._database.write(fail)
        is_postgres = store._database.engine.name == "postgresql"
        assert take(store) == [7 if is_postgres else 2]


def test_many_at_once_get_different_numbers(empty_url: str) -> None:
    """Also where the first one of a tenant is taken."""
    with quick_store(empty_url) as store, ThreadPoolExecutor(8) as threads:
        store.prepare()
        tenants = ["default", "acme", "zeta"] * 40
        found = list(threads.map(lambda each: (each, *take(store, 2, each)), tenants))
    for tenant in set(tenants):
        numbers = sorted(number for name, *some in found for number in some if name == tenant)
        assert numbers == list(range(numbers[0], numbers[0] + 80))


def test_nobody_waits_for_a_long_transaction_that_took_a_number(postgres_url: str) -> None:
    """Such as one that loads a million attempts. SQLite has one writer anyway."""
    taken, let_go = threading.Event(), threading.Event()

    def work(connection: Connection) -> list[int]:
        found = list(take_numbers(connection, "attempts", "default", 2))
        taken.set()
        assert let_go.wait(60.0)
        return found

    with quick_store(postgres_url) as store, ThreadPoolExecutor(1) as thread:
        store.prepare()
        long = thread.submit(store._database.write, work)
        assert taken.wait(60.0)
        with open_store(postgres_url, patience=1.0) as other:
            assert take(other) == [3]
        let_go.set()
        assert long.result() == [1, 2]
