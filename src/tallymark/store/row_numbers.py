"""Numbers of rows: each tenant counts its own, so gaps in them reveal nothing about others.

Ids and event numbers that people see are row numbers, so the database must not number the rows of
`NUMBERED` across tenants. The default tenant counts from 1. Every other tenant counts in a range of
its own, whose start is derived from a hash of its name and is unique: keys stay unique in a table.

On SQLite a number is taken in the caller's transaction, which has the only write lock. On
PostgreSQL it is taken in a transaction of its own, as from a sequence: numbers of a transaction
that is rolled back are lost, and no writer waits until another one commits. Numbers that must grow
in commit order are taken while the writer holds the lock of the object that they count.
"""

from __future__ import annotations

import hashlib
import itertools
from typing import TYPE_CHECKING

from sqlalchemy import BigInteger, Column, Index, PrimaryKeyConstraint, Table

from tallymark.store.dialects import CodePointText, metadata
from tallymark.store.engines import NUMBERS_ENGINE
from tallymark.store.quick_statements import QuickStatements

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection, Engine

NUMBERED = {
    "attempts": "key",
    "contest_audit": "seq",
    "jobs": "number",
    "reviews": "id",
    "rule_backfills": "id",
    "rule_versions": "id",
    "rules": "id",
    "traces": "key",
    "versus_submissions": "id",
    "webhook_deliveries": "number",
}
"""Tables whose row numbers can be seen by a caller, with the column: in an id, in an event, in a
cursor or in a hash that is one. The other numbers stay inside the store."""
_DEFAULT = "default"
_RANGE = 10**10
_NEXT = "UPDATE row_numbers SET last = last + ? WHERE tenant = ? AND noun = ? RETURNING last"
_FIRST = (
    "INSERT INTO row_numbers (tenant, noun, start, last) VALUES (?, ?, ?, ?)"
    " ON CONFLICT DO NOTHING RETURNING last"
)

row_numbers = Table(
    "row_numbers",
    metadata,
    Column("tenant", CodePointText, nullable=False),
    Column("noun", CodePointText, nullable=False),  # the table that is numbered
    Column("start", BigInteger, nullable=False),  # of the tenant's range
    Column("last", BigInteger, nullable=False),  # that was given out
    PrimaryKeyConstraint("tenant", "noun", name="pk_row_numbers"),
    Index("ux_row_numbers_start", "noun", "start", unique=True),
    sqlite_with_rowid=False,
)


def take_number(connection: Connection, noun: str, tenant: str) -> int:
    """Take the next number for a row of a tenant."""
    return take_numbers(connection, noun, tenant, 1)[0]


def take_numbers(connection: Connection, noun: str, tenant: str, count: int) -> range:
    """Take the next numbers for rows of a tenant; `noun` is their table, one of `NUMBERED`."""
    engine: Engine | None = connection.get_execution_options().get(NUMBERS_ENGINE)
    if engine is None:
        return _take(connection, noun, tenant, count)
    with engine.connect() as aside:
        try:
            return _take(aside, noun, tenant, count)
        except engine.dialect.loaded_dbapi.Error:
            aside.invalidate()  # it may be lost, which the pool cannot know
            raise


def _take(connection: Connection, noun: str, tenant: str, count: int) -> range:
    # On this connection each statement commits by itself.
    statements = QuickStatements(connection, begin=False)
    for start in _list_starts(tenant):
        found = statements.read(_NEXT, count, tenant, noun)
        found = found or statements.read(_FIRST, tenant, noun, start, start + count)
        if found:
            last: int = found[0][0]
            return range(last - count + 1, last + 1)
    raise AssertionError  # there is always another start


def _list_starts(tenant: str) -> Iterator[int]:
    """Candidates for the start of a tenant's range; the first free one is taken.

    Short numbers come first. All stay below 2**53, so JavaScript reads them exactly.
    """
    if tenant == _DEFAULT:
        yield from itertools.repeat(0)
    for nth in itertools.count():
        digest = hashlib.blake2b(f"{nth} {tenant}".encode(), digest_size=8).digest()
        drawn = int.from_bytes(digest, "big")
        yield _RANGE * (1000 + drawn % 9000 if nth < 3 else 10_000 + drawn % 880_000)
