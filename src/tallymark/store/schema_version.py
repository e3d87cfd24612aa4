"""Which schema a database has, and which one this program expects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import column, inspect, select, table

if TYPE_CHECKING:
    from sqlalchemy import Connection

CURRENT = "0004"
# A name of our own: a database that others share may have an `alembic_version` already.
VERSION_TABLE = "tallymark_version"


def schema_version(connection: Connection) -> str | None:
    """The version that the database has; None when nothing of ours is in it."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    version: str | None = connection.scalar(
        select(column("version_num")).select_from(table(VERSION_TABLE))
    )
    return version


def migrate(connection: Connection, shown: str) -> None:
    """Runs the missing migrations in the transaction that is open; the caller holds the lock."""
    version = schema_version(connection)
    if version == CURRENT:
        return
    # Alembic costs a quarter of a second to import, and an up-to-date schema never needs it.
    from tallymark.store.schema_upgrade import upgrade_schema  # noqa: PLC0415

    upgrade_schema(connection, version, shown)
