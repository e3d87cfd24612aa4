"""All rows from one database to another, of either kind: how a team moves to PostgreSQL and back.

The source is read in one snapshot, so others may go on writing to it. The target gets tables and
rows in one transaction, tables that others refer to first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import inspect

from tallymark.errors import Conflict, WorkFailed
from tallymark.store.database_dialects import insert_many, read_many
from tallymark.store.schema import CURRENT, make_tables, make_version

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sqlalchemy import Connection, Table

    from tallymark.store.database import Database


def copy_rows(source: Database, target: Database) -> dict[str, int]:
    """Copy all rows to a database that has nothing yet; return how many, by table."""
    source.require()
    with source.long_snapshot() as snapshot:
        reader = snapshot.connection

        def work(writer: Connection) -> dict[str, int]:
            require_empty(writer, target.address.shown)
            make_tables(writer)
            make_version(writer, CURRENT)
            for table in list_tables().values():
                names = [each.name for each in table.c]
                insert_many(writer, table, names, read_many(reader, table, names))
                _copy_last_number(reader, writer, table)
            counts = count_rows(writer, list_tables())
            if counts != count_rows(reader, list_tables()):
                raise WorkFailed(f"{target.address.shown} has not the rows that were read")
            writer.exec_driver_sql("ANALYZE")
            return counts

        return target.change_schema(work)


def list_tables() -> Mapping[str, Table]:
    """All by name, those that others refer to first."""
    from tallymark.store.all_tables import metadata  # noqa: PLC0415 (few commands need them)

    return {str(table.name): table for table in metadata.sorted_tables}


def count_rows(connection: Connection, names: Iterable[str]) -> dict[str, int]:
    """How many rows these tables have."""
    query = "SELECT count(*) FROM {}"
    return {name: connection.exec_driver_sql(query.format(name)).scalar_one() for name in names}


def require_empty(connection: Connection, shown: str) -> None:
    """Refuse a database that has tables, ours or those of another program."""
    if inspect(connection).get_table_names():
        raise explain_full(f"{shown} is not empty")


def explain_full(what: str) -> Conflict:
    """Say what to do where only a new database will do."""
    return Conflict(what, hint="take a new one, and point --db or TALLY_DB to it afterwards")


def _copy_last_number(source: Connection, target: Connection, table: Table) -> None:
    """Give no number out again, even if its row is gone."""
    column = table.autoincrement_column
    if column is None:
        return
    last = _read_last_number(source, table, column.name)
    if target.dialect.name == "postgresql":
        query = "SELECT setval(pg_get_serial_sequence(%s, %s), %s)"
        if last:
            target.exec_driver_sql(query, (table.name, column.name, last))
    elif last and table.dialect_options["sqlite"]["autoincrement"]:
        target.exec_driver_sql("DELETE FROM sqlite_sequence WHERE name = ?", (table.name,))
        target.exec_driver_sql("INSERT INTO sqlite_sequence VALUES (?, ?)", (table.name, last))


def _read_last_number(connection: Connection, table: Table, column: str) -> int:
    given = (
        f"pg_sequence_last_value(pg_get_serial_sequence('{table.name}', '{column}'))"
        if connection.dialect.name == "postgresql"
        else f"(SELECT max(seq) FROM sqlite_sequence WHERE name = '{table.name}')"  # noqa: S608  our names
    )
    # SQLite numbers some tables by their largest number alone.
    query = f"SELECT coalesce({given}, max({column}), 0) FROM {table.name}"  # noqa: S608  our names
    last: int = connection.exec_driver_sql(query).scalar_one()
    return last
