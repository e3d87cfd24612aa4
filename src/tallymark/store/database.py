"""One database: whether it is there, its schema, reading, and writing with patience."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from sqlalchemy import func, select
from sqlalchemy.exc import SQLAlchemyError

from tallymark.errors import InvalidInput, WorkFailed
from tallymark.store.connections import BEGIN, connect_to_write, make_engine
from tallymark.store.driver_errors import explain_driver_error
from tallymark.store.schema_version import CURRENT, migrate, schema_version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sqlalchemy import Connection

    from tallymark.store.address import DatabaseAddress
    from tallymark.store.driver_errors import FailureKind

T = TypeVar("T")
_PAUSE = 0.02
# Any number will do, as long as every process that migrates takes the same one.
_MIGRATION_LOCK = 0x7A11E


class Database:
    """Safe to use from several threads. Nothing is created before the first write."""

    def __init__(self, address: DatabaseAddress, patience: float) -> None:
        self.address = address
        self.engine = make_engine(address, patience)
        self._patience = patience
        self._ready = False
        self._lock = threading.Lock()

    def look(self) -> bool:
        """True when our tables are there; older ones are brought up to date first."""
        if not self._ready:
            # One thread migrates; the others wait for it and then find the schema there.
            with self._lock:
                version = self._retry(self._read_version, {"busy"}) if self._is_there() else None
                if version not in (None, CURRENT):
                    self._retry(self._migrate, {"busy"})
                self._ready = version is not None
        return self._ready

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A connection to read from."""
        if not self.look():
            raise InvalidInput(
                f"nothing is stored at {self.address.shown} yet",
                hint="run a suite first, or name another database with --db",
            )
        try:
            with self.engine.connect() as connection:
                yield connection
        except SQLAlchemyError as error:
            raise explain_driver_error(error, self.address).error from None

    def write(self, work: Callable[[Connection], T]) -> T:
        """Does the work in one transaction; what may pass (a lock) is tried again for a while.

        The work may so be done twice, and must come to the same.
        """
        if not self.look():
            self._create()

        def once() -> T:
            with connect_to_write(self.engine) as connection, connection.begin():
                return work(connection)

        # A connection lost while it commits does not tell whether it did: hence "come to the same".
        return self._retry(once, {"busy", "lost"})

    def close(self) -> None:
        """Lets go of all connections."""
        self.engine.dispose()

    def _is_there(self) -> bool:
        path = self.address.path
        if path is None:
            return True
        try:
            if path.is_dir():
                raise InvalidInput(f"{self.address.shown} is a folder", hint="name a file in it")
            return path.exists()
        except OSError as error:
            raise WorkFailed(f"{self.address.shown} cannot be reached: {error.strerror}") from None

    def _create(self) -> None:
        path = self.address.path
        with self._lock:
            try:
                if path is not None:
                    path.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise WorkFailed(
                    f"the folder of {self.address.shown} cannot be made: {error.strerror}",
                    hint="name another place with --db",
                ) from None
            self._retry(self._migrate, {"busy"})
            self._ready = True

    def _read_version(self) -> str | None:
        with self.engine.connect() as connection:
            return schema_version(connection)

    def _migrate(self) -> None:
        """Takes the lock, then looks again: another process may have been quicker."""
        with self.engine.connect() as connection:
            # Not for the pool: a table that is rebuilt must not take its children with it.
            connection.detach()
            if self.address.path is not None:
                # SQLite ignores or refuses both pragmas inside a transaction.
                connection.execution_options(**{BEGIN: "none"})
                connection.exec_driver_sql("PRAGMA journal_mode = WAL")
                connection.exec_driver_sql("PRAGMA foreign_keys = OFF")
                connection.commit()
            with connection.execution_options(**{BEGIN: "write"}).begin():
                if self.address.path is None:
                    connection.execute(select(func.pg_advisory_xact_lock(_MIGRATION_LOCK)))
                migrate(connection, self.address.shown)

    def _retry(self, work: Callable[[], T], again: set[FailureKind]) -> T:
        deadline = time.monotonic() + self._patience
        while True:
            try:
                return work()
            except SQLAlchemyError as error:
                failure = explain_driver_error(error, self.address)
                if failure.kind not in again or time.monotonic() >= deadline:
                    raise failure.error from None
            time.sleep(_PAUSE)
