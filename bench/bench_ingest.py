"""Production traces in one process: what spans cost to take in, and what questions cost.

Ingest: export requests as exporters send them, from bytes to rows that are committed, beside a
plain loop in the same run that decodes the same bytes and inserts a row for each span, a request of
each in turn and a transaction for each request. Filters: each kind over the kept columns of a
million traces, a page of 50. What is counted is the CPU of this process, in which SQLite's work is,
and that of all of PostgreSQL's own processes.

    python bench/bench_ingest.py [ingest | filters] [sqlite | postgresql]...

    BENCH_TRACES=10000,100000,1000000    of filters, at several sizes ten times apart

Exits 1 when a promise is broken.
"""

from __future__ import annotations

import json
import os
import random
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import psycopg
from bench.bench_server import say
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2
from scripts.server_process import open_postgres, read_cpu, read_family_cpu

from tallymark.app.accounts import AccountService
from tallymark.app.traces import TraceIntake
from tallymark.store import Store, open_store
from tallymark.store.all_tables import metadata
from tallymark.store.traces.trace_items import KeepTraces, TracePiece
from tallymark.traces.trace_facts import TraceFacts
from tallymark.traces.trace_query import parse_query

MOST_OF_PLAIN = 3.0
FILTER_MS = 50.0
SIZES = {10: 100, 100: 20, 1000: 2}
"""Traces in a request, and requests in a round: an exporter sends 512 spans when it is busy."""
ROUNDS = 7
COUNTS = [int(each) for each in os.environ.get("BENCH_TRACES", "1000000").split(",")]
FIRST = 10_000
ASKED = 10
"""Pages between two looks at what PostgreSQL has used: the kernel tells it in hundredths."""
RECORDED = Path(__file__).parents[1] / "tests" / "fixtures" / "traces"
SAMPLES = ("pydantic_ai", "openinference", "otel_sdk", "openllmetry")
NOW = 1_790_000_000.0
DAY = 86_400.0
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
    "since:2h",
    "since:7d tool:search cost>0.5",
    "score.polite<0.5",
    "score.polite<0.001",
    "score.polite<0.5 tool:search model:gpt-5 version:1.3",
    "tag:never",
)


# Ingest


def make_requests(seed: int, traces: int = 100) -> list[bytes]:
    """Export requests of many traces, as recorded of four libraries, each with ids of its own."""
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


class Spent:
    """Adds up seconds of CPU of this process."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def add(self, work: Callable[..., Any], *given: Any) -> Any:
        """Does it."""
        began = time.process_time()
        found = work(*given)
        self.seconds += time.process_time() - began
        return found


def read_backends(connection: Any, mine: bool) -> float:
    """Seconds of CPU of the process that serves a connection, or of those that serve others."""
    if isinstance(connection, sqlite3.Connection):
        return 0.0
    sign = "=" if mine else "<>"
    found = connection.execute(
        "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend'"
        f" AND pid {sign} pg_backend_pid()"
    ).fetchall()
    connection.rollback()
    return sum(read_cpu(pid)[1] for (pid,) in found)


def bench_ingest(url: str, name: str) -> bool:
    """Ours beside the plain loop, a request of each in turn; settling apart."""
    connection, mark = open_plain(url)
    kept = True
    with open_store(url) as store:
        store.prepare()
        accounts = AccountService(store)  # which remembers settings, as the server's does
        intake = TraceIntake(store, settings=lambda: accounts.find_settings().traces)
        for size, count in SIZES.items():
            rounds = []
            for number in range(ROUNDS):
                plain, ours, settled = Spent(), Spent(), Spent()
                before = [read_backends(connection, mine) for mine in (True, False)]
                for raw in make_requests(1000 * size + number, size):
                    plain.add(insert_plainly, connection, raw, mark)
                    ours.add(take_in, intake, raw)
                after = [read_backends(connection, mine) for mine in (True, False)]
                plain.seconds += after[0] - before[0]
                ours.seconds += after[1] - before[1]
                while settled.add(store.traces.settle, time.time() + 1000.0):
                    pass
                rounds.append([each.seconds for each in (plain, ours, settled)])
            print(
                f"{name}: requests of {size} traces of four spans, in milliseconds of CPU a trace"
            )
            for what, spent in zip(
                ("a plain loop", "taken in", "settled later"),
                zip(*rounds, strict=True),
                strict=True,
            ):
                say(what, 1000 * statistics.median(spent) / (size * count))
            ratio = statistics.median(mine / other for other, mine, _ in rounds)
            kept &= say("times the plain loop", ratio, MOST_OF_PLAIN, "")
    connection.close()
    return kept


# Filters


def make_pieces(count: int) -> Iterator[TracePiece]:
    """Traces of a month, with what production has: few errors, long tails, many sessions."""
    drawn = random.Random(1)
    models = ("gpt-5", "gpt-5-mini", "claude-opus", "gemini-pro")
    tools = ("search", "fetch", "calculator", "send_mail")
    for nth in range(count):
        rare = nth % 5_000 == 7
        yield TracePiece(
            trace_id=f"{nth:032x}",
            format="otel",
            body=b"",
            facts=TraceFacts(
                started_at=NOW - (1 - nth / count) * 30 * DAY + drawn.random(),
                duration=drawn.expovariate(0.5),
                status="error" if drawn.random() < 0.02 else "ok",
                has_root=True,
                spans=5,
                model_calls=2,
                tool_calls=1,
                input_tokens=drawn.randrange(10_000),
                output_tokens=drawn.randrange(10_000),
                cost=drawn.expovariate(500.0) if drawn.random() < 0.9 else drawn.random(),
                name="desk",
                service=f"desk-{nth % 10}",
                version=f"1.{nth % 7}",
                session=f"s-{nth // 5}",
                user=f"u-{nth % 1000}",
                models=(models[nth % 4],),
                tools=("rare",) if rare else (tools[drawn.randrange(4)],),
                tags=("env:prod",),
                asked="How warm is it in Paris?",
                answered="It is 12 degrees in Paris.",
            ),
        )


def fill(store: Store, filled: int, count: int) -> None:
    """Up to so many traces, settled, half of them with a score: ten thousand, then times ten."""
    if not filled:
        store.prepare()
        pieces = make_pieces(FIRST)
        while some := tuple(islice(pieces, 2_000)):
            store.traces.keep(KeepTraces(tenant="default", at=NOW, pieces=some))
        while store.traces.settle(NOW + 1000, limit=20_000):
            pass
        filled = FIRST
    while filled < count:
        multiply(store, filled)
        filled *= 10
    scores = (
        "INSERT INTO trace_scores (trace, version, rule_version, name, author, tenant, rule, value,"
        " at, started_at, is_current) SELECT key, 1, 1, 'polite', '', tenant, 1,"
        " ((key * 7919) % 100000) / 100000.0, settled_at, started_at, true FROM traces"
        " WHERE key % 2 = 0 ON CONFLICT DO NOTHING"
    )
    store._database.write(lambda c: c.exec_driver_sql(scores.replace("%", _percent(store))))  # noqa: SLF001


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


def _percent(store: Store) -> str:
    return "%%" if store._database.address.path is None else "%"  # noqa: SLF001


def measure_filter(ask: Callable[[], Any], postmaster: int | None) -> float:
    """Milliseconds of CPU of one, the median of some rounds, with PostgreSQL's own."""
    found = []
    for _ in range(5):
        theirs = 0.0 if postmaster is None else -read_family_cpu(postmaster)
        began = time.process_time()
        for _ in range(ASKED):
            ask()
        ours = time.process_time() - began
        theirs += 0.0 if postmaster is None else read_family_cpu(postmaster)
        found.append((ours + theirs) / ASKED)
    return 1000 * statistics.median(found)


def find_postmaster(url: str) -> int | None:
    """The process that started all others of a PostgreSQL."""
    if not url.startswith("postgresql"):
        return None
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")  # as it does itself after a while
        return read_cpu(connection.info.backend_pid)[0]


def bench_filters(url: str, name: str) -> bool:
    """Each kind of filter, a page of 50 and the one after it, at every size."""
    kept, filled = True, 0
    for count in COUNTS:
        with open_store(url) as store:
            fill(store, filled, count)
            filled, postmaster = count, find_postmaster(url)
            print(f"{name}: a page of 50 of {count:,} traces, in milliseconds of CPU")
            for text in FILTERS:
                query = parse_query(text, now=NOW)

                def ask(query: Any = query, store: Store = store) -> Any:
                    first = store.traces.page(query)
                    return first, store.traces.page(query, after=first.next)

                first, _ = ask()
                found = measure_filter(ask, postmaster) / 2
                kept &= say(f"{text or 'all'} ({len(first.items)})", found, FILTER_MS)
    return kept


def main() -> int:
    """All that is asked for, on each database."""
    wanted = set(sys.argv[1:])
    databases = wanted & {"sqlite", "postgresql"} or {"sqlite", "postgresql"}
    benches = {"ingest": bench_ingest, "filters": bench_filters}
    kept = True
    for bench in [benches[each] for each in wanted & benches.keys() or benches]:
        if "sqlite" in databases:
            with tempfile.TemporaryDirectory(prefix="tally-bench-") as folder:
                kept &= bench(f"{folder}/bench.db", "SQLite")
        if "postgresql" in databases:
            with open_postgres() as url:
                kept &= bench(url, "PostgreSQL")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
