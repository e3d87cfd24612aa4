"""Production traces in one process: what spans cost to take in, and what questions cost.

Ingest: export requests as exporters send them, from bytes to rows that are committed, beside a
plain loop that decodes the same bytes and inserts a row for each span, a transaction for each
request. Filters: each kind over the kept columns, two pages of 50. What PostgreSQL's own processes
spend is counted.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from bench.bench_ingest import (
    FILTERS,
    NOW,
    insert_plainly,
    make_pieces,
    make_requests,
    open_plain,
    take_in,
)
from bench.databases import POSTGRESQL, SQLITE, Database, open_database
from bench.measurement import OURS, Bench, MakeSides, Promise, Side, Sides

from tallymark.app.accounts import AccountService
from tallymark.app.traces import TraceIntake
from tallymark.store.traces.trace_items import KeepTraces
from tallymark.traces.trace_query import parse_query

SETTLED = 1000.0
_seeds = itertools.count()


def ingest(name: str) -> MakeSides:
    """Requests of so many traces, the same for both."""

    @contextmanager
    def make(size: int) -> Iterator[Sides]:
        with open_database(name) as database:
            connection, mark = open_plain(database.url)
            database.store.prepare()
            accounts = AccountService(database.store)  # which remembers settings, as the server's
            intake = TraceIntake(database.store, settings=lambda: accounts.find_settings().traces)
            given: dict[str, list[bytes]] = {}

            def spend(work: Callable[[bytes], object], side: str) -> float:
                # Each side has the requests of the seed that it comes to: the same in the end.
                if not given.get(side):
                    made = make_requests(next(_seeds), size)
                    given.update({each: list(made) for each in (OURS, "a plain loop")})
                some = given.pop(side)
                return database.spend(lambda: [work(raw) for raw in some]) / len(some)

            def take() -> float:
                found = spend(lambda raw: take_in(intake, raw), OURS)
                while database.store.traces.settle(time.time() + SETTLED):
                    pass
                return found

            def insert() -> float:
                return spend(lambda raw: insert_plainly(connection, raw, mark), "a plain loop")

            take()
            insert()
            yield {
                OURS: Side(take, size, told=True),
                "a plain loop": Side(insert, size, told=True),
            }
            connection.close()

    return make


def keep_traces(database: Database, count: int) -> None:
    """So many, settled, half of them with a score."""
    database.store.prepare()
    pieces = make_pieces(count)
    while some := tuple(itertools.islice(pieces, 2_000)):
        database.store.traces.keep(KeepTraces(tenant="default", at=NOW, pieces=some))
    while database.store.traces.settle(NOW + SETTLED, limit=20_000):
        pass


def filters(name: str) -> MakeSides:
    """The filter that costs most, of all kinds."""

    @contextmanager
    def make(size: int) -> Iterator[Sides]:
        with open_database(name) as database:
            keep_traces(database, size)
            page = database.store.traces.page
            if database.postmaster is not None:
                database.store._database.write(lambda c: c.exec_driver_sql("ANALYZE"))  # noqa: SLF001
            queries = [parse_query(text, now=NOW) for text in FILTERS]

            def ask(query: Any) -> None:
                page(query, after=page(query).next)

            def ask_dearest() -> float:
                return max(database.spend(lambda: ask(query), 10) / 2 for query in queries)  # noqa: B023

            ask_dearest()
            yield {OURS: Side(ask_dearest, told=True)}

    return make


BENCHES = tuple(
    bench
    for name in (SQLITE, POSTGRESQL)
    for bench in (
        Bench(
            f"ingest, {name}",
            "A trace of four spans taken in, from bytes to rows that are committed: at most three "
            "times a plain loop.",
            ingest(name),
            (10, 100, 1_000),
            "traces in a request",
            (Promise(3.0, "a plain loop"),),
            each="trace",
        ),
        Bench(
            f"filters, {name}",
            f"A page of 50 by the dearest of {len(FILTERS)} kinds of filter: 50 ms at most.",
            filters(name),
            (1_000, 10_000, 100_000),
            "traces",
            (Promise(0.05),),
            each="page",
            rounds=3,
        ),
    )
)
