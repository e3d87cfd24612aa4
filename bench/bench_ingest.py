"""Production traces in one process: what spans cost to take in, and what questions cost.

Ingest: export requests as exporters send them, from bytes to rows that are committed, beside a
plain loop that decodes the same bytes and inserts a row for each span, a transaction for each
request. Filters: each kind over the kept columns, two pages of 50. What PostgreSQL's own processes
spend is counted.
"""

from __future__ import annotations

import json
import random
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count as count_up
from pathlib import Path
from typing import Any

import psycopg
from bench.databases import POSTGRESQL, SQLITE, open_database
from bench.measurement import OURS, Bench, MakeSides, Promise, Side, Sides
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2
from scripts.large_store import DAY, NOW, load_traces, score_traces

from tallymark.service.accounts import AccountService
from tallymark.service.trace_intake import TraceIntake
from tallymark.store import Store
from tallymark.store.all_tables import metadata
from tallymark.traces.trace_query import parse_query

SIZES = {10: 100, 100: 20, 1000: 2}
"""Traces in a request, and requests in a round: an exporter sends 512 spans when it is busy."""
FIRST = 10_000
SETTLED = 1000.0
_seeds = count_up()
RECORDED = Path(__file__).parents[1] / "tests" / "fixtures" / "traces"
SAMPLES = ("pydantic_ai", "openinference", "otel_sdk", "openllmetry")
PLAIN = (
    "CREATE TABLE plain_spans (trace TEXT, span TEXT, parent TEXT, name TEXT, began BIGINT,"
    " ended BIGINT, attributes TEXT, events TEXT)"
)
INDEX = "CREATE INDEX plain_spans_trace ON plain_spans (trace)"
FILTERS = (
    "",
    "status:error",
    "status:error service:desk-3",
    "service:desk-3",
    "tool:search",
    "tool:rare",
    "model:gpt-*",
    "model:gpt-5 status:error",
    "version:1.3",
    "session:s-77777",
    "user:u-123 since:7d",
    "cost>0.01",
    "cost>9",
    "duration>29s",
    "tokens>19000",
    "tokens>19500",
    "tokens>19000 service:desk-3",
    "tokens>30000",
    "spans>5",
    "until:14d cost>0.9",
    "until:14d since:20d tool:search cost>0.9",
    "since:2h",
    "since:7d tool:search cost>0.5",
    "score.polite<0.5",
    "score.polite<0.001",
    "score.polite<0.5 tool:search model:gpt-5 version:1.3",
    "tag:never",
)


# Ingest


def make_requests(seed: int, traces: int = 100) -> list[bytes]:
    """Export requests as recorded of four libraries, each with ids and token counts of its own."""
    samples = [
        trace_service_pb2.ExportTraceServiceRequest.FromString(
            (RECORDED / f"{name}.pb").read_bytes()
        )
        for name in SAMPLES
    ]
    made = random.Random(seed)
    found = []
    for _ in range(SIZES[traces]):
        request = trace_service_pb2.ExportTraceServiceRequest()
        for nth in range(traces):
            one = trace_service_pb2.ExportTraceServiceRequest()
            one.CopyFrom(samples[nth % len(samples)])
            trace_id = made.randbytes(16)
            for batch in one.resource_spans:
                for scope in batch.scope_spans:
                    for span in scope.spans:
                        span.trace_id = trace_id
                        for each in span.attributes:
                            if "token" in each.key and each.value.HasField("int_value"):
                                each.value.int_value = made.randrange(20_000)
            request.MergeFrom(one)
        found.append(request.SerializeToString())
    return found


def read_plainly(wrapped: Any) -> Any:
    """What an `AnyValue` holds."""
    kind = wrapped.WhichOneof("value")
    if kind == "array_value":
        return [read_plainly(each) for each in wrapped.array_value.values]
    if kind == "kvlist_value":
        return {each.key: read_plainly(each.value) for each in wrapped.kvlist_value.values}
    value: Any = None if kind is None else getattr(wrapped, kind)
    return value.hex() if kind == "bytes_value" else value


def decode_rows(raw: bytes) -> Iterator[tuple[Any, ...]]:
    """A row for each span: what anybody would write first."""
    request = trace_service_pb2.ExportTraceServiceRequest.FromString(raw)
    for batch in request.resource_spans:
        for scope in batch.scope_spans:
            for span in scope.spans:
                attributes = {each.key: read_plainly(each.value) for each in span.attributes}
                events = [
                    [event.name, {each.key: read_plainly(each.value) for each in event.attributes}]
                    for event in span.events
                ]
                yield (
                    span.trace_id.hex(),
                    span.span_id.hex(),
                    span.parent_span_id.hex(),
                    span.name,
                    span.start_time_unix_nano,
                    span.end_time_unix_nano,
                    json.dumps(attributes),
                    json.dumps(events),
                )


def insert_plainly(connection: Any, raw: bytes, mark: str) -> None:
    """One request in a transaction."""
    places = ", ".join([mark] * 8)
    connection.cursor().executemany(
        f"INSERT INTO plain_spans VALUES ({places})", list(decode_rows(raw))
    )
    connection.commit()


def open_plain(url: str) -> tuple[Any, str]:
    """The table of the plain loop, and the sign for a value."""
    if url.startswith("postgresql"):
        connection: Any = psycopg.connect(url)
        mark = "%s"
    else:
        connection, mark = sqlite3.connect(f"{url}.plain"), "?"
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
    connection.execute(PLAIN)
    connection.execute(INDEX)
    connection.commit()
    return connection, mark


def take_in(intake: TraceIntake, raw: bytes) -> None:
    """The same by us: 2xx would be answered now."""
    taken = intake.keep(*intake.read(raw, "protobuf"))
    assert not taken.refused


# Filters


def fill(store: Store, filled: int, count: int) -> None:
    """Up to so many traces, settled, half of them with a score: ten thousand, then times ten."""
    if not filled:
        load_traces(store, FIRST)
        filled = FIRST
    while filled < count:
        multiply(store, filled)
        filled *= 10
    score_traces(store)


def multiply(store: Store, filled: int) -> None:
    """Nine more of each trace at other times of the month, in sessions of their own."""
    apart = 2.9 * DAY * FIRST / filled

    def work(connection: Any) -> None:
        labels = connection.exec_driver_sql("SELECT max(id) FROM labels").scalar()
        for nth in range(1, 10):
            later = f"started_at + {nth * apart}"
            moved = f"CASE WHEN {later} < {NOW} THEN {later} ELSE {later} - {30 * DAY} END"
            changed = {
                "traces": {
                    "key": f"key + {nth * filled}",
                    "trace_id": f"'{filled}-{nth}-' || trace_id",
                    "started_at": moved,
                    "session": f"session || '-{filled}-{nth}'",
                },
                "labels": {
                    "id": f"id + {nth * labels}",
                    "value": f"value || '-{filled}-{nth}'",
                },
                "trace_labels": {
                    "label": "CASE WHEN label IN (SELECT id FROM labels WHERE kind = 'session')"
                    f" THEN label + {nth * labels} ELSE label END",
                    "started_at": moved,
                    "trace": f"trace + {nth * filled}",
                },
            }
            limits = {
                "traces": f"key <= {filled}",
                "labels": f"id <= {labels} AND kind = 'session'",
                "trace_labels": f"trace <= {filled}",
            }
            for name, columns in changed.items():
                names = [each.name for each in metadata.tables[name].c]
                given = ", ".join(columns.get(each, each) for each in names)
                connection.exec_driver_sql(
                    f"INSERT INTO {name} ({', '.join(names)}) SELECT {given} FROM {name}"
                    f" WHERE {limits[name]}"
                )

    store._database.write(work)  # noqa: SLF001


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
                while database.store.traces.finalise(time.time() + SETTLED):
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


def filters(name: str) -> MakeSides:
    """The filter that costs most, of all kinds."""

    @contextmanager
    def make(size: int) -> Iterator[Sides]:
        with open_database(name) as database:
            fill(database.store, 0, size)
            page = database.store.traces.page
            if database.postmaster is not None:
                with psycopg.connect(database.url, autocommit=True) as connection:
                    connection.execute("VACUUM ANALYZE")  # as it does itself after a while
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
            "and a half times a plain loop.",
            ingest(name),
            (10, 100, 1_000),
            "traces in a request",
            (Promise(3.5, "a plain loop"),),
            each="trace",
        ),
        Bench(
            f"filters, {name}",
            f"A page of 50 by the dearest of {len(FILTERS)} kinds of filter: 50 ms at most.",
            filters(name),
            (10_000, 100_000, 1_000_000),
            "traces",
            (Promise(0.05),),
            each="page",
            rounds=3,
        ),
    )
)
