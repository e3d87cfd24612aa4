"""Expensive tables: made once for many, again when what they were made of changes, and bounded."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tallymark.service.table_cache import TableCache


def test_a_table_is_made_again_when_what_it_was_made_of_changes() -> None:
    tables = TableCache()
    assert tables.find_or_make("elo", 1, lambda: "first") == "first"
    assert tables.find_or_make("elo", 1, lambda: "second") == "first"
    assert tables.find_or_make("elo", 2, lambda: "third") == "third"
    assert tables.find_or_make("elo", 1, lambda: "fourth") == "fourth"


def test_the_least_recently_used_goes_first() -> None:
    tables = TableCache(2)
    for key in ("a", "b", "a", "c"):
        tables.find_or_make(key, 0, lambda key=key: key)  # type: ignore[misc]
    assert tables.find_or_make("a", 0, lambda: "new") == "a"
    assert tables.find_or_make("b", 0, lambda: "new") == "new"


def test_of_many_who_want_a_table_one_makes_it() -> None:
    tables = TableCache()
    made = []
    together = threading.Barrier(8)

    def make() -> str:
        made.append(1)
        return "table"

    def want() -> str:
        together.wait()
        return tables.find_or_make("elo", 1, make)

    with ThreadPoolExecutor(8) as pool:
        wanted = [pool.submit(want) for _ in range(8)]
    assert {each.result() for each in wanted} == {"table"}
    assert len(made) == 1


def test_a_table_that_cannot_be_made_is_tried_again() -> None:
    tables = TableCache()
    with pytest.raises(ZeroDivisionError):
        tables.find_or_make("elo", 1, lambda: 1 // 0)
    assert tables.find_or_make("elo", 1, lambda: 7) == 7


def test_a_large_table_lags_behind_changes_for_ten_times_what_it_took() -> None:
    now, cpu = [0.0], [0.0]
    tables = TableCache(clock=lambda: now[0], cpu=lambda: cpu[0])

    def find(state: int, made_of: str, spent: float) -> str:
        def make() -> str:
            cpu[0] += spent
            return f"{made_of} {state}"

        return tables.find_or_make("elo", made_of, make, state)

    assert find(1, "all", spent=0.5) == "all 1"
    assert find(2, "all", spent=0.5) == "all 2"
    now[0] = 4.9
    assert find(3, "all", spent=0.5) == "all 2"
    assert find(3, "public", spent=0.5) == "public 3"
    now[0] = 10.0
    assert find(4, "public", spent=0.01) == "public 4"
    assert find(5, "public", spent=0.01) == "public 5"
