"""Database engines, and time limits for everything that they wait for.

On PostgreSQL the server limits statements (`limit_statements`) and locks, TCP notices a cut
network, and a client-side deadline covers a server that stopped answering. SQLite waits only for
writers.
"""

from __future__ import annotations

import math
import os
import time
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial, wraps
from pathlib import Path
from select import POLLIN, poll
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar
from urllib.parse import quote

from sqlalchemy import URL, create_engine, event

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from sqlite3 import Connection as SqliteConnection

    from sqlalchemy import URL, Connection, Dialect, Engine
    from sqlalchemy.pool import ConnectionPoolEntry

    from tallymark.store.database_address import DatabaseAddress


P = ParamSpec("P")
T = TypeVar("T")
REQUEST_SECONDS = 30.0
"""Limit for statements of requests."""
_WORK_SECONDS = 3600.0
"""For jobs and commands: rescoring, backups, checks, bulk loads."""
statement_seconds: ContextVar[float] = ContextVar("tally_statement_seconds", default=_WORK_SECONDS)
"""SQLite has no such limit: its statements wait only for other writers."""


@contextmanager
def limit_statements(seconds: float) -> Iterator[None]:
    """Limit the time of each statement inside, for this thread or task."""
    token = statement_seconds.set(seconds)
    try:
        yield
    finally:
        statement_seconds.reset(token)


def limited(function: Callable[P, T]) -> Callable[P, T]:
    """Wrap a function that works for all requests in the time limit of a request."""

    @wraps(function)
    def call(*given: P.args, **named: P.kwargs) -> T:
        with limit_statements(REQUEST_SECONDS):
            return function(*given, **named)

    return call


BEGIN = "tally_begin"
"""Execution option: how a transaction begins."""
NUMBERS_ENGINE = "tally_numbers_engine"
"""The execution option with the engine whose statements each commit by themselves."""
POOL_SECONDS = 30.0
"""Minimal time that a thread waits for a free connection of the pool."""
_CONNECTING = {
    "connect_timeout": "10",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",  # in ms
}
"""Defaults for options that the address does not set."""
_LATE = 2.0
"""Seconds after its own time limit in which the server must have answered."""
_ENDING_SECONDS, _LAST_SECONDS = 5.0, 1.0


class Ending:
    """The end of the process, which shortens how long threads wait for the database."""

    def __init__(self) -> None:
        self._since = math.inf

    def begin(self) -> None:
        self._since = min(self._since, time.monotonic())

    @property
    def has_begun(self) -> bool:
        return self._since < math.inf

    def find_deadline(self, began: float, usual: float) -> float:
        """Time until which to wait for a statement."""
        return min(usual, max(self._since + _ENDING_SECONDS, began + _LAST_SECONDS))


def make_postgres_engines(url: URL, patience: float, ending: Ending) -> tuple[Engine, Engine]:
    """Make an engine for transactions, and one for short queries that repeat often."""
    given = {name: value for name, value in _CONNECTING.items() if name not in url.query}
    url = url.update_query_dict(given)
    engine = create_engine(
        url,
        hide_parameters=True,
        pool_pre_ping=True,  # a server that was restarted has closed what the pool still holds
        pool_timeout=max(patience, POOL_SECONDS),
    )
    brief = create_engine(
        url,
        hide_parameters=True,
        isolation_level="AUTOCOMMIT",  # one statement needs no transaction: `Database.statement`
        pool_pre_ping=True,
        pool_timeout=POOL_SECONDS,
    )
    engine.update_execution_options(**{NUMBERS_ENGINE: brief})
    for each in (engine, brief):
        _ping_on_news(each.dialect)
        _stop_waiting(each, ending)

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        # LOCAL: forgotten at the end of the transaction.
        wanted = []
        if (seconds := statement_seconds.get()) != REQUEST_SECONDS:
            limit = 0 if seconds == math.inf else _count_ms(seconds)
            wanted.append(f"SET LOCAL statement_timeout = {limit}")
        if connection.get_execution_options().get(BEGIN) == "write":
            # PostgreSQL would wait for a lock for ever.
            wanted.append(f"SET LOCAL lock_timeout = {_count_ms(patience)}")
        if wanted:
            connection.exec_driver_sql("; ".join(wanted))

    @event.listens_for(brief, "begin")
    def _begin_briefly(connection: Connection) -> None:
        # A snapshot: all reads of the transaction see the same.
        connection.exec_driver_sql("BEGIN ISOLATION LEVEL REPEATABLE READ")

    @event.listens_for(brief, "connect")
    def _plan_once(connection: Any, _: ConnectionPoolEntry) -> None:
        # Otherwise it plans each query again, although every value uses the same index.
        connection.execute("SET plan_cache_mode = force_generic_plan")
        # Only row numbers are written here. The commit of the rows that use them flushes them too.
        connection.execute("SET synchronous_commit = off")
        connection.commit()

    return engine, brief


def _count_ms(seconds: float) -> int:
    return max(1, int(seconds * 1000))


def _ping_on_news(dialect: Dialect) -> None:
    """Ping only connections with unread bytes: a connection that the server closed has some."""
    ping = dialect.do_ping

    def do_ping(connection: Any) -> bool:
        waiting = poll()
        waiting.register(connection.fileno(), POLLIN)
        return ping(connection) if waiting.poll(0) else True

    dialect.do_ping = do_ping  # type: ignore[method-assign, assignment]


def _stop_waiting(engine: Engine, ending: Ending) -> None:
    """Give connections up when the server is late with an answer."""
    from psycopg import Connection as Plain  # noqa: PLC0415 (only PostgreSQL needs the driver)
    from psycopg import OperationalError  # noqa: PLC0415

    class Bounded(Plain[Any]):
        def wait(self, gen: Any, *given: Any, **named: Any) -> Any:
            return super().wait(self._watch(gen), *given, **named)

        def _watch(self, gen: Any) -> Generator[Any, int, Any]:
            """Wrap psycopg's generator, which gets 0 every tenth of a second without an answer."""
            began = time.monotonic()
            usual = began + statement_seconds.get() + _LATE
            try:
                state = next(gen)
                while True:
                    ready = yield state
                    if not ready and time.monotonic() > ending.find_deadline(began, usual):
                        self.pgconn.finish()
                        raise OperationalError("it does not answer")
                    state = gen.send(ready)
            except StopIteration as ended:
                return ended.value

    @event.listens_for(engine, "do_connect")
    def _connect(_: Dialect, __: ConnectionPoolEntry, given: Any, named: dict[str, Any]) -> Any:
        most = 0.0 if ending.has_begun else statement_seconds.get()
        if most < float(named["connect_timeout"]):
            named = {**named, "connect_timeout": max(2, int(most))}  # the driver takes no less
        return Bounded.connect(*given, **named)

    @event.listens_for(engine, "connect")
    def _set_up(connection: Any, _: ConnectionPoolEntry) -> None:
        connection.execute(f"SET statement_timeout = {_count_ms(REQUEST_SECONDS)}")
        connection.commit()


def make_sqlite_engine(address: DatabaseAddress, patience: float) -> Engine:
    path = address.path or Path()
    may = partial(os.access, effective_ids=os.access in os.supports_effective_ids)
    alone = may(path, os.R_OK) and not (may(path, os.W_OK) and may(path.parent, os.W_OK))
    engine = create_engine(
        _make_read_only(path) if alone else address.url,
        hide_parameters=True,
        connect_args={"timeout": patience},
        pool_timeout=max(patience, POOL_SECONDS),
    )

    @event.listens_for(engine, "connect")
    def _set_up(connection: SqliteConnection, _: ConnectionPoolEntry) -> None:
        connection.isolation_level = None  # no BEGIN by Python's driver: `_begin` does that
        connection.execute("PRAGMA foreign_keys = ON")
        # With NORMAL a power cut loses what was acknowledged: docs/decisions/0006-store.md.
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA cache_size = -64000")  # negative: in KiB

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        how = connection.get_execution_options().get(BEGIN, "read")
        if how != "none":
            connection.exec_driver_sql("BEGIN IMMEDIATE" if how == "write" else "BEGIN")

    return engine


def _make_read_only(path: Path) -> URL:
    """Open a file without creating -wal and -shm files, which its owner could not write to."""
    query = {"uri": "true", "mode": "ro"}
    # While it is open elsewhere, or after a crash, changes are in -wal and -shm files, which SQLite
    # reads. Otherwise SQLite would make those files, unless the database is declared immutable.
    changes, index = (path.with_name(path.name + end) for end in ("-wal", "-shm"))
    if not changes.exists() or not (changes.stat().st_size or index.exists()):
        query["immutable"] = "1"
    return URL.create("sqlite", database=f"file:{quote(str(path))}", query=query)
