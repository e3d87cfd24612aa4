"""A whole database written to a file and read back, on either kind of database.

What is written is one moment: a read transaction of SQLite, a repeatable read of PostgreSQL, so
that writers go on meanwhile. What is read back comes in one transaction, schema and all: whoever is
killed in between leaves nothing. Rows are streamed, in blocks of about a megabyte. See
docs/decisions/0049-backups.md.
"""

from __future__ import annotations

import math
import time
from importlib.metadata import version
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from sqlalchemy import (
    Boolean,
    Column,
    Double,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    inspect,
    select,
    text,
)
from sqlalchemy.types import TypeDecorator

from tallymark.errors import Conflict, InvalidInput, WorkFailed
from tallymark.store import secrets
from tallymark.store.backups.backup_file import (
    END,
    HEADER,
    ROWS,
    BackupFile,
    BackupWriter,
    End,
    Header,
    Rows,
    make_file,
)
from tallymark.store.column_types import FiniteFloat
from tallymark.store.contests.contest_tables import board_blocks, boards
from tallymark.store.database_dialects import insert_many
from tallymark.store.named_values import secrets as sealed_secrets
from tallymark.store.schema import (
    CURRENT,
    drop_tables,
    list_versions,
    make_tables,
    make_version,
    schema_version,
    upgrade_schema,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from sqlalchemy import Connection, Row

    from tallymark.store.database import Database

Values: TypeAlias = tuple[Any, ...]
_BLOCK_BYTES = 1_000_000
_FEW, _MANY = 4, 1000
"""Rows that are fetched at once: of those that may be bulky, and of others."""


class BackupSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What is in a backup."""

    schema: str
    made_by: str
    made_at: float
    database: str
    rows: dict[str, int]
    """By table; those that are empty are left out."""
    bytes: int
    secrets: int = 0
    """Stored secrets, which only their key opens."""
    has_key: bool = False


class Backups:
    """What `store.backups` is: of all tenants."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def write(self, path: Path, *, with_key: bool = False) -> BackupSummary:
        """Makes a backup of the database as it is now; the file appears when it is whole."""
        address = self._database.address
        key = secrets.find_key(address) if with_key else None
        if with_key and key is None:
            raise InvalidInput("there is no key of secrets here", hint="leave --with-key out")
        with make_file(path) as file, self._database.long_snapshot() as snapshot:
            connection = snapshot.connection
            tables = _list_tables()
            header = Header(
                schema=CURRENT,
                made_by=version("tallymark"),
                made_at=time.time(),
                database=connection.dialect.name,
                tables={
                    name: [str(each.key) for each in table.c] for name, table in tables.items()
                },
                key=None if key is None else key.text,
            )
            writer = BackupWriter(file)
            writer.write(HEADER, header)
            counts = {
                name: _write_rows(connection, table, writer) for name, table in tables.items()
            }
            end = End(rows=counts, sequences=_read_sequences(connection, tables))
            writer.write(END, end)
        return _summarise(header, end, path)

    def look(self, path: Path) -> BackupSummary:
        """Reads a backup from its first byte to its last, and says what is in it."""
        return _summarise(*BackupFile(path).check(), path)

    def restore(self, path: Path, *, replace: bool = False) -> BackupSummary:
        """Stores all that is in a backup, or nothing; what is there already only by `replace`."""
        file = BackupFile(path)
        header, end = file.check()
        tables = _find_tables(header, path)
        self._require_key(header)

        def work(connection: Connection) -> None:
            self._require_own(connection)
            if not replace and _holds_rows(connection):
                raise Conflict(
                    f"{self._database.address.shown} is not empty",
                    hint="restore to a new database, or say --replace to lose what is there",
                )
            drop_tables(connection)
            make_tables(connection, *tables.values())
            make_version(connection, header.schema)
            _store_rows(connection, file, header, end, tables)
            _set_sequences(connection, end.sequences, tables)
            upgrade_schema(connection, header.schema, self._database.address.shown)
            connection.execute(text("ANALYZE"))
            # The last step before it counts: where it is refused, no key is left behind.
            self._keep_key(header)

        self._database.change_schema(work)
        return _summarise(header, end, path)

    def _require_own(self, connection: Connection) -> None:
        """Refuses a database in which others have tables by the names of ours: they would go."""
        if schema_version(connection) is None:
            others = _list_tables().keys() & set(inspect(connection).get_table_names())
            if others:
                raise Conflict(
                    f"{self._database.address.shown} has tables of another program: "
                    + ", ".join(sorted(others)),
                    hint="restore to a database of its own",
                )

    def _require_key(self, header: Header) -> None:
        """Refuses a key that is not the one in use here."""
        here = secrets.find_key(self._database.address)
        if header.key is None or here is None:
            return
        if secrets.read_key(header.key, "the backup").id != here.id:
            raise Conflict(
                "the backup has another key of secrets than the one in use here",
                hint=f"move the key file away, or unset {secrets.KEY_VARIABLE}",
            )

    def _keep_key(self, header: Header) -> None:
        if header.key is not None and secrets.find_key(self._database.address) is None:
            secrets.write_key(self._database.address, header.key)


def _summarise(header: Header, end: End, path: Path) -> BackupSummary:
    return BackupSummary(
        schema=header.schema,
        made_by=header.made_by,
        made_at=header.made_at,
        database=header.database,
        rows={name: count for name, count in end.rows.items() if count},
        bytes=path.stat().st_size,
        secrets=end.rows.get(sealed_secrets.name, 0),
        has_key=header.key is not None,
    )


def _list_tables() -> dict[str, Table]:
    """All by name, those that others refer to first."""
    from tallymark.store.all_tables import metadata  # noqa: PLC0415 (few commands need them)

    return {str(table.name): table for table in metadata.sorted_tables}


def _find_tables(header: Header, path: Path) -> dict[str, Table]:
    """Ours, as the backup has them; one that has others was not made by any version of ours."""
    if header.schema not in list_versions():
        raise WorkFailed(
            f"the backup {path} was made by a newer version of Tallymark ({header.made_by}, schema"
            f" {header.schema}; this one knows {CURRENT})",
            hint="update Tallymark",
        )
    known = _list_tables() | _list_older_tables(header.schema)
    for name, columns in header.tables.items():
        strange = [] if name in known else [name]
        strange += [each for each in columns if name in known and each not in known[name].c]
        if strange or len(set(columns)) < len(columns):
            raise InvalidInput(
                f"the backup {path} holds what is not Tallymark's: {(strange or columns)[0]!r}",
                hint="name a file that tally admin backup made",
            )
    return {name: table for name, table in known.items() if name in header.tables}


def _list_older_tables(schema: str) -> dict[str, Table]:
    """Those that had other columns by an earlier schema; its migration makes them what they are."""
    if schema >= "0013":
        return {}
    return {str(each.name): _declare_before_editions(each) for each in (boards, board_blocks)}


def _declare_before_editions(table: Table) -> Table:
    columns = (
        Column("frozen", Boolean, nullable=False)
        if each is table.c.edition
        else Column(each.name, each.type, nullable=each.nullable)
        for each in table.c
    )
    return Table(table.name, MetaData(), *columns)


# Writing


def _write_rows(connection: Connection, table: Table, writer: BackupWriter) -> int:
    flags = [nth for nth, column in enumerate(table.c) if isinstance(column.type, Boolean)]
    count, size = 0, 0
    rows: list[tuple[Any, ...]] = []
    for found in _read_rows(connection, table):
        row = list(found)
        for nth in flags:  # SQLite has numbers in their place
            row[nth] = None if row[nth] is None else bool(row[nth])
        rows.append(tuple(row))
        count += 1
        size += sum(len(each) if isinstance(each, str | bytes) else 8 for each in row)
        if size >= _BLOCK_BYTES:
            writer.write(ROWS, Rows(str(table.name), rows))
            rows, size = [], 0
    if rows:
        writer.write(ROWS, Rows(str(table.name), rows))
    return count


def _read_rows(connection: Connection, table: Table) -> Iterator[Row[Any]]:
    """As the driver gives them: what a column's type would make of them is not needed."""
    columns = ", ".join(each.name for each in table.c)
    query = text(f"SELECT {columns} FROM {table.name}")  # noqa: S608  our own names
    most = _FEW if any(_is_bulky(each) for each in table.c) else _MANY
    options = {"stream_results": True, "yield_per": most}
    with connection.execute(query, execution_options=options) as found:
        yield from found


def _is_bulky(column: Column[Any]) -> bool:
    return isinstance(column.type, LargeBinary) or column.name in {
        *("submission", "trajectory", "evaluation", "definition", "detail", "trace", "payload"),
    }


def _read_sequences(connection: Connection, tables: Mapping[str, Table]) -> dict[str, int]:
    if connection.dialect.name == "sqlite":
        rows = connection.exec_driver_sql("SELECT name, seq FROM sqlite_sequence").all()
        return {name: number for name, number in rows if name in tables}
    found = {}
    for name, sequence in _name_sequences(connection, tables):
        query = f"SELECT last_value, is_called FROM {sequence}"  # noqa: S608  the database's name
        last, called = connection.exec_driver_sql(query).one()
        found[name] = last if called else 0
    return found


def _name_sequences(
    connection: Connection, tables: Mapping[str, Table]
) -> Iterator[tuple[str, str]]:
    """PostgreSQL's, by table."""
    for name, table in tables.items():
        column = table.autoincrement_column
        if column is not None:
            query = "SELECT pg_get_serial_sequence(%s, %s)"
            values = (f"{name}", column.name)
            yield name, connection.exec_driver_sql(query, values).scalar_one()


# Reading


def _holds_rows(connection: Connection) -> bool:
    if schema_version(connection) is None:
        return False
    return any(
        connection.execute(select(text("1")).select_from(table).limit(1)).first() is not None
        for table in _list_tables().values()
    )


def _store_rows(
    connection: Connection, file: BackupFile, header: Header, end: End, tables: dict[str, Table]
) -> None:
    counts = dict.fromkeys(tables, 0)

    def read(blocks: Iterator[Rows], check: Callable[[Values], None]) -> Iterator[Values]:
        for block in blocks:
            for row in block.rows:
                check(row)
            counts[block.table] += len(block.rows)
            yield from block.rows

    for name, blocks in groupby(file.read_rows(), key=lambda block: block.table):
        if name not in tables:
            raise InvalidInput(f"the backup {file.path} has rows of {name!r}, which it lacks")
        columns = [tables[name].c[each] for each in header.tables[name]]
        names = [each.name for each in columns]
        rows = read(blocks, _make_check(file.path, columns))
        try:
            insert_many(connection, tables[name], names, rows)
        except OverflowError:
            said = f"the backup {file.path} has a number in {name} that no database holds"
            raise InvalidInput(said) from None
    if counts != {name: end.rows.get(name, 0) for name in tables}:
        raise InvalidInput(f"the backup {file.path} does not have the rows that it counts")


def _make_check(path: Path, columns: list[Column[Any]]) -> Callable[[Values], None]:
    """Refuses rows whose values are of other kinds than their columns: SQLite would take any."""
    allowed = [_list_kinds(each) for each in columns]
    finite = [nth for nth, each in enumerate(columns) if isinstance(each.type, FiniteFloat)]
    count = len(allowed)

    def check(row: Values) -> None:
        if len(row) != count:
            raise InvalidInput(f"the backup {path} has a row of another length than its columns")
        for value, kinds, column in zip(row, allowed, columns, strict=True):
            if type(value) not in kinds:
                raise InvalidInput(
                    f"the backup {path} has a {type(value).__name__} in"
                    f" {column.table.name}.{column.name}"
                )
        for nth in finite:
            if row[nth] is not None and not math.isfinite(row[nth]):
                place = f"{columns[nth].table.name}.{columns[nth].name}"
                raise InvalidInput(f"the backup {path} has {row[nth]} in {place}")

    return check


def _list_kinds(column: Column[Any]) -> set[type]:
    kind: Any = column.type
    if isinstance(kind, TypeDecorator):
        kind = kind.impl_instance
    found: set[type] = {str}
    if isinstance(kind, Boolean):
        found = {bool}
    elif isinstance(kind, LargeBinary):
        found = {bytes}
    elif isinstance(kind, Integer):
        found = {int}
    elif isinstance(kind, Double):
        found = {float, int}
    return found | {type(None)} if column.nullable else found


def _set_sequences(
    connection: Connection, sequences: Mapping[str, int], tables: Mapping[str, Table]
) -> None:
    """The next number is none that was given out before, even where its row is gone."""
    if connection.dialect.name == "sqlite":
        for name, number in sequences.items():
            table = tables.get(name)
            if table is not None and table.dialect_options["sqlite"]["autoincrement"]:
                connection.exec_driver_sql("DELETE FROM sqlite_sequence WHERE name = ?", (name,))
                largest = text(f"SELECT coalesce(max({_number_column(table)}), 0) FROM {name}")  # noqa: S608
                last = max(number, connection.execute(largest).scalar_one())
                values = (name, last)
                connection.exec_driver_sql("INSERT INTO sqlite_sequence VALUES (?, ?)", values)
        return
    for name, sequence in _name_sequences(connection, tables):
        column = _number_column(tables[name])
        query = f"SELECT setval(%s, greatest(%s, (SELECT max({column}) FROM {name}), 1), %s)"  # noqa: S608
        there = connection.exec_driver_sql(f"SELECT 1 FROM {name} LIMIT 1").first() is not None  # noqa: S608
        number = sequences.get(name, 0)
        connection.exec_driver_sql(query, (sequence, number, there or number > 0))


def _number_column(table: Table) -> str:
    column = table.autoincrement_column
    if column is None:
        raise LookupError(table.name)
    return column.name
