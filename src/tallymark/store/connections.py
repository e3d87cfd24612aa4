"""SQLAlchemy's engine, set up for how the store works on each database.

Transactions begin where we say: SQLite's writers take their lock at once (`BEGIN IMMEDIATE`), so
that none fails halfway because another was quicker, and its DDL can be rolled back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import create_engine, event

if TYPE_CHECKING:
    from sqlite3 import Connection as SqliteConnection

    from sqlalchemy import Connection, Engine
    from sqlalchemy.pool import ConnectionPoolEntry

    from tallymark.store.address import DatabaseAddress

BEGIN = "tally_begin"
"""The execution option that says how a transaction begins."""
CONNECT_SECONDS = "10"
_POOL_SECONDS = 30.0
"""How long a thread waits at least for one of the connections that others are using."""


def make_engine(address: DatabaseAddress, patience: float) -> Engine:
    """An engine that waits up to `patience` seconds for a lock."""
    make = _make_postgres_engine if address.path is None else _make_sqlite_engine
    return make(address, patience)


def connect_to_write(engine: Engine) -> Connection:
    """A connection whose transactions are going to write."""
    return engine.connect().execution_options(**{BEGIN: "write"})


def _make_sqlite_engine(address: DatabaseAddress, patience: float) -> Engine:
    engine = create_engine(
        address.url,
        hide_parameters=True,
        connect_args={"timeout": patience},
        pool_timeout=max(patience, _POOL_SECONDS),
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


def _make_postgres_engine(address: DatabaseAddress, patience: float) -> Engine:
    url = address.url
    if "connect_timeout" not in url.query:
        url = url.update_query_dict({"connect_timeout": CONNECT_SECONDS})
    engine = create_engine(
        url,
        hide_parameters=True,
        pool_pre_ping=True,  # a server that was restarted has closed what the pool still holds
        pool_timeout=max(patience, _POOL_SECONDS),
    )

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        # PostgreSQL would wait for a lock for ever. LOCAL: forgotten at the end of the transaction.
        if connection.get_execution_options().get(BEGIN) == "write":
            connection.exec_driver_sql(f"SET LOCAL lock_timeout = {max(1, int(patience * 1000))}")

    return engine
