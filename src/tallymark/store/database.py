"""One database: whether it exists, its schema, reading, and writing with retries.

Transactions begin explicitly: SQLite's writers take their lock at once (`BEGIN IMMEDIATE`), so none
fails halfway because another was quicker, and its DDL can be rolled back.
"""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import func, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import QueuePool

from tallymark.errors import NothingStored, TallymarkError, WorkFailed
from tallymark.store.database_address import DatabaseAddress
from tallymark.store.dialects import repeatable_read
from tallymark.store.driver_errors import explain_driver_error, explain_locked
from tallymark.store.dry_run import is_dry_run
from tallymark.store.engines import (
    BEGIN,
    POOL_SECONDS,
    Ending,
    limit_statements,
    limited,
    make_postgres_engines,
    make_sqlite_engine,
)
from tallymark.store.group_commit import GroupCommit, Overtaken
from tallymark.store.quick_statements import QuickStatements, ReadSnapshot
from tallymark.store.schema import (
    CURRENT,
    FIRST,
    explain_version,
    make_current,
    schema_version,
    write_probe,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sqlalchemy import Connection, Engine

    from tallymark.store.contests.attempt_items import Answer, Item
    from tallymark.store.driver_errors import FailureKind


T = TypeVar("T")
_PAUSE = 0.02
# The pool logs a traceback for each connection that broke while idle, and replaces it.
logging.getLogger("sqlalchemy.pool").setLevel(logging.CRITICAL)
# Any number will do, as long as every process that migrates takes the same one.
_MIGRATION_LOCK = 0x7A11E


class Database:
    """Safe to use from several threads. Nothing is created before the first write."""

    def __init__(self, address: DatabaseAddress, patience: float) -> None:
        self.address = address
        self._ending = Ending()
        # Engine for short, frequent queries, which need no new plan each time.
        if address.path is not None:
            self.engine = self._brief = make_sqlite_engine(address, patience)
        else:
            self.engine, self._brief = make_postgres_engines(address.url, patience, self._ending)
        self._patience = patience
        self._ready = False
        self._lock = threading.Lock()
        self._open = threading.local()
        self._driver_error: type[Exception] = self.engine.dialect.loaded_dbapi.Error
        # SQLite's writers of one process wait for each other here, and need not poll the file.
        self._turn = threading.Lock() if address.path is not None else None
        self._writer: GroupCommit | None = None
        self.on_board_change: Callable[[int], None] | None = None
        """Called with the id of each challenge of which something was committed; it must be
        fast."""
        self.on_run_change: Callable[[str, str], None] | None = None
        """Called with the tenant and id of each run with new results; it must be fast."""

    def look(self, *, create: bool = False, upgrade: bool = False) -> bool:
        """Return whether the tables exist; `create` makes them.

        Tables of an older version are refused unless `upgrade` migrates them: servers of that
        version may be using them. One thread changes tables, the others wait.
        """
        if not self._ready:
            with self._lock:
                there = self.address.path is None or self.address.path.exists()
                version = self._retry(self._read_version, {"busy"}) if there else None
                if version is None:
                    if create:
                        self._retry(self._migrate, {"busy"})
                elif version != CURRENT:
                    if not (upgrade and FIRST <= version < CURRENT):
                        raise explain_version(version, self.address.shown)
                    if "mode" in self.engine.url.query:
                        raise WorkFailed(
                            f"{self.address.shown} can be read but not upgraded",
                            hint="copy it to a folder where you may write",
                        )
                    self._retry(self._migrate, {"busy"})
                self._ready = create or version is not None
        return self._ready

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Connection for reading."""
        with self._read_by(self.engine) as connection:
            yield connection

    @contextmanager
    def _read_by(self, engine: Engine) -> Iterator[Connection]:
        self.require()
        with self._explain_errors(), engine.connect() as connection:
            try:
                yield connection
            except self._driver_error as error:
                if explain_driver_error(error, self.address).kind == "lost":
                    connection.invalidate()  # or the pool would try to use it, and log that
                raise

    @contextmanager
    def connect_alone(self) -> Iterator[Connection]:
        """Connection without transactions and time limits, as VACUUM needs."""
        with (
            limit_statements(math.inf),
            self._explain_errors(),
            self.engine.connect() as connection,
        ):
            if self.address.path is not None:
                yield connection.execution_options(**{BEGIN: "none"})
                return
            try:
                connection.execution_options(isolation_level="AUTOCOMMIT")
                connection.exec_driver_sql("SET statement_timeout = 0")
                yield connection
            finally:
                connection.invalidate()  # others need the limit

    @contextmanager
    def _explain_errors(self) -> Iterator[None]:
        """Translate errors of the database into Tallymark's."""
        try:
            yield
        except (SQLAlchemyError, self._driver_error) as error:
            raise explain_driver_error(error, self.address).error from None

    @contextmanager
    def long_snapshot(self) -> Iterator[ReadSnapshot]:
        """Read transaction of its own, without a time limit."""
        with self.read() as connection, repeatable_read(connection).begin():
            yield ReadSnapshot(connection)

    @contextmanager
    def snapshot(self) -> Iterator[ReadSnapshot]:
        """Read transaction of this thread, or a new one, for short queries.

        Stored per thread and not in a context variable: contexts are copied into other threads, and
        a connection must not be used by two.
        """
        known = self._find_snapshot()
        if known is not None:
            yield known
            return
        with self._read_by(self._brief) as connection, connection.begin():
            self._open.snapshot = ReadSnapshot(connection)
            try:
                yield self._open.snapshot
            finally:
                self._open.snapshot = None

    def _find_snapshot(self) -> ReadSnapshot | None:
        return getattr(self._open, "snapshot", None)

    @contextmanager
    def statement(self) -> Iterator[QuickStatements]:
        """Statements for one short query: in the open snapshot, or alone without a transaction."""
        known = self._find_snapshot()
        if known is not None:
            yield known
            return
        with self._read_by(self._brief) as connection:
            yield QuickStatements(connection, begin=False)

    def require(self) -> None:
        """Refuse if nothing is stored, as every read does."""
        if not self.look():
            raise NothingStored(
                f"nothing is stored at {self.address.shown} yet",
                hint="run a suite or publish a challenge first, or name another database with --db",
            )

    def write(self, work: Callable[[Connection], T]) -> T:
        """Run `work` in one transaction; retry for a while on transient failures (a lock).

        `work` may run twice, so it must be idempotent.
        """
        self._refuse_inside_snapshot()
        self.look(create=True)
        # A connection lost during a commit leaves open whether it committed: hence idempotent.
        return self._retry(lambda: self._write_once(work), {"busy", "lost"})

    def _refuse_inside_snapshot(self) -> None:
        if self._find_snapshot() is not None:
            raise RuntimeError("a write inside `Store.read`, whose snapshot would not show it")

    def _write_once(self, work: Callable[[Connection], T]) -> T:
        with self._take_turn():
            connection = self.engine.connect().execution_options(**{BEGIN: "write"})
            with connection, connection.begin() as transaction:
                done = work(connection)
                if is_dry_run():
                    transaction.rollback()
                return done

    def check_writing(self) -> None:
        """Write a probe row; raise an error if that is impossible."""
        self.require()
        probe = partial(write_probe, shown=self.address.shown)
        self._retry(lambda: self._write_once(probe), set())

    @contextmanager
    def _take_turn(self) -> Iterator[None]:
        if self._turn is None:
            yield
            return
        if not self._turn.acquire(timeout=max(self._patience, POOL_SECONDS)):
            raise explain_locked(self.address)
        try:
            yield
        finally:
            self._turn.release()

    # Items, applied in batches: see `contests.attempt_items`

    def start_writer(self) -> GroupCommit:
        """Start the thread that applies the items of all threads in batches."""
        with self._lock:
            if self._writer is None:
                self._writer = GroupCommit(limited(self._apply))
            return self._writer

    def stop_writer(self) -> None:
        """Apply what is waiting; from then on every thread applies its own items again."""
        if self._writer is not None:
            self._writer.close()
        self._writer = None

    def end_soon(self) -> None:
        """Shorten all waiting for a database that does not answer, because the process ends."""
        self._ending.begin()

    def count_connections(self) -> dict[str, int]:
        """Number of connections in use, and idle in the pools."""
        pools = [each.pool for each in {self.engine, self._brief}]
        found = [each for each in pools if isinstance(each, QueuePool)]
        return {
            "in_use": sum(each.checkedout() for each in found),
            "idle": sum(each.checkedin() for each in found),
        }

    def close(self) -> None:
        """Apply what is waiting, and close every connection."""
        self.stop_writer()
        for each in {self.engine, self._brief}:
            each.dispose()

    def do(self, item: Item) -> Answer:
        """Apply an item: in the next batch if there is a writer, else in this thread."""
        found: Answer = _unpack(self._do_all([item]))
        return found

    async def ado(self, item: Item) -> Answer:
        """Apply an item without blocking the event loop; starts a writer."""
        found: Answer = _unpack(await (self._writer or self.start_writer()).aput([item]))
        return found

    def do_all(self, items: Sequence[Item]) -> list[Answer | TallymarkError]:
        """Apply many items; return an answer or a refusal for each."""
        return _raise_faults(self._do_all(items))

    async def ado_all(self, items: Sequence[Item]) -> list[Answer | TallymarkError]:
        """Apply many items without blocking the event loop; starts a writer."""
        return _raise_faults(await (self._writer or self.start_writer()).aput(items))

    def do_all_or_none(self, items: Sequence[Item]) -> list[Answer | TallymarkError]:
        """Apply many items in one transaction, or none if one is refused."""
        return self._apply(items, all_or_none=True)

    def put(self, item: Item) -> None:
        """Apply an item without waiting for the writer, or now if there is none."""
        if self._writer is not None and not is_dry_run():
            self._writer.put([item])
        else:
            self.do(item)

    @property
    def writer(self) -> GroupCommit | None:
        return self._writer

    def _do_all(self, items: Sequence[Item]) -> list[Any]:
        self._refuse_inside_snapshot()
        if self._writer is None or is_dry_run():
            return self._apply(items)
        return self._writer.put(items).result()

    def _apply(
        self, items: Sequence[Item], *, all_or_none: bool = False
    ) -> list[Answer | TallymarkError]:
        # Formulas load with it.
        from tallymark.store.contests.attempt_writer import AttemptWriter  # noqa: PLC0415

        traced = [each for each in items if each.subject == "traces"]
        if traced:
            return self._apply_traces(items, traced)

        def work(connection: Connection) -> tuple[list[Answer | TallymarkError], set[int]]:
            writer = AttemptWriter(connection)
            answers = writer.apply(items)
            if all_or_none and any(isinstance(each, TallymarkError) for each in answers):
                raise _Undone(answers)
            return answers, set(writer.challenges)

        self.require()
        while True:
            try:
                answers, challenge_ids = self.write(work)
            except _Undone as undone:
                return undone.answers
            except Overtaken:  # the other transaction is committed by now
                continue
            if self.on_board_change is not None:
                for each in challenge_ids:
                    self.on_board_change(each)
            return answers

    def _apply_traces(self, items: Sequence[Any], traced: Sequence[Any]) -> list[Any]:
        """Apply spans in a transaction of their own, before the other items of the batch."""
        from tallymark.store.traces.trace_batch import TraceBatch  # noqa: PLC0415

        while True:
            try:
                kept = iter(self.write(lambda connection: TraceBatch(connection, traced).apply()))
                break
            except Overtaken:
                continue
        others = [each for each in items if each.subject != "traces"]
        done = iter(self._apply(others) if others else ())
        return [next(kept if each.subject == "traces" else done) for each in items]

    def _read_version(self) -> str | None:
        with self.engine.connect() as connection:
            return schema_version(connection)

    def _migrate(self) -> None:
        """Migrate under the lock; another process may have been quicker, so look again."""
        self._change_schema(lambda connection: make_current(connection, self.address.shown))

    def change_schema(self, work: Callable[[Connection], T]) -> T:
        """Run `work` that makes or removes tables, alone and in one transaction."""
        done = self._retry(lambda: self._change_schema(work), {"busy"})
        self._ready = False
        return done

    def _change_schema(self, work: Callable[[Connection], T]) -> T:
        path = self.address.path
        self.address.make_folder()
        if path is not None and not path.exists():
            # The database holds truth, submissions and mail addresses: it is readable by its owner
            # alone, whatever the umask. SQLite gives its other files the same permissions.
            with suppress(OSError):  # SQLite reports the error
                os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        with limit_statements(math.inf), self.engine.connect() as connection:
            # Not for the pool: a table that is rebuilt must not take its children with it.
            connection.detach()
            if path is not None:
                # SQLite ignores or refuses both pragmas inside a transaction.
                connection.execution_options(**{BEGIN: "none"})
                connection.exec_driver_sql("PRAGMA journal_mode = WAL")
                connection.exec_driver_sql("PRAGMA foreign_keys = OFF")
                connection.commit()
            with connection.execution_options(**{BEGIN: "write"}).begin():
                if path is None:
                    connection.execute(select(func.pg_advisory_xact_lock(_MIGRATION_LOCK)))
                return work(connection)

    def _retry(self, work: Callable[[], T], again: set[FailureKind]) -> T:
        deadline = time.monotonic() + self._patience
        while True:
            try:
                return work()
            except (SQLAlchemyError, self._driver_error) as error:
                failure = explain_driver_error(error, self.address)
                late = time.monotonic() >= deadline or self._ending.has_begun
                if failure.kind not in again or late:
                    raise failure.error from None
            time.sleep(_PAUSE)


class _Undone(Exception):
    """Carries the answers out of a transaction that is rolled back."""

    def __init__(self, answers: list[Answer | TallymarkError]) -> None:
        super().__init__()
        self.answers = answers


def _unpack(answers: list[Any]) -> Any:
    """Return or raise the only answer of a request."""
    (answer,) = answers
    if isinstance(answer, Exception):
        raise answer
    return answer


def _raise_faults(answers: list[Any]) -> list[Any]:
    """Return answers and refusals; raise any other exception."""
    for each in answers:
        if isinstance(each, Exception) and not isinstance(each, TallymarkError):
            raise each
    return answers


class TenantRows:
    """Base of the classes that read and write one subject for one tenant."""

    def __init__(self, database: Database, tenant: str) -> None:
        self._database = database
        self._tenant = tenant
