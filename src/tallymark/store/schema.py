"""Which schema a database has, how a new one gets it, and how an old one is brought up to date."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    Column,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    insert,
    inspect,
    select,
    update,
)
from sqlalchemy.engine.mock import MockConnection
from sqlalchemy.schema import CreateColumn, CreateIndex

from tallymark.errors import WorkFailed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection, Dialect

MIGRATIONS = Path(__file__).parent / "migrations"
CURRENT = "0015"
# A name of our own: a database that others share may have an `alembic_version` already.
VERSION_TABLE = "tallymark_version"
_statements: dict[str, list[str]] = {}
"""What makes all tables, by the kind of database: to write it takes longer than to do it."""
_versions = Table(
    VERSION_TABLE,
    MetaData(),  # Alembic's business, and no table of ours
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name=f"{VERSION_TABLE}_pkc"),
)
LOGS = ("contest_audit", "score_history")
"""Tables that are only ever added to."""
_REFUSAL = "{log} is only ever added to"
# Whoever tries to change or remove rows of a log.
_TRIGGERS = {
    "sqlite": [
        f"CREATE TRIGGER {{log}}_{event.lower()} BEFORE {event} ON {{log}}"
        f" BEGIN SELECT RAISE(ABORT, '{_REFUSAL}'); END"
        for event in ("UPDATE", "DELETE")
    ],
    "postgresql": [
        (
            "CREATE FUNCTION {log}_refuse() RETURNS trigger LANGUAGE plpgsql"
            f" AS $$ BEGIN RAISE EXCEPTION '{_REFUSAL}'; END $$"
        ),
        (
            "CREATE TRIGGER {log}_refuse BEFORE UPDATE OR DELETE OR TRUNCATE ON {log}"
            " FOR EACH STATEMENT EXECUTE FUNCTION {log}_refuse()"
        ),
    ],
}


def schema_version(connection: Connection) -> str | None:
    """The version that the database has; None when nothing of ours is in it."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    version: str | None = connection.scalar(select(_versions.c.version_num))
    return version


def make_current(connection: Connection, shown: str) -> None:
    """Makes or changes the schema in the transaction that is open; the caller holds the lock."""
    version = schema_version(connection)
    if version is None:
        # All at once what the migrations come to: a test compares the two.
        make_tables(connection)
        make_version(connection, CURRENT)
    else:
        upgrade_schema(connection, version, shown)


class SchemaChanged(WorkFailed):
    """Another version of Tallymark changed the tables while this one used them."""


def write_probe(connection: Connection, shown: str) -> None:
    """Writes to the disk what changes nothing, where the tables are still those of this version."""
    same = update(_versions).where(_versions.c.version_num == CURRENT)
    if not connection.execute(same.values(version_num=CURRENT)).rowcount:
        raise SchemaChanged(f"another version of Tallymark changed the tables of {shown}")
    if connection.dialect.name == "sqlite":
        # It leaves out rows that are as they were. This number is in the file's head, and unused.
        connection.exec_driver_sql(f"PRAGMA user_version = {int(time.time()) % 2**31}")


def make_version(connection: Connection, version: str) -> None:
    """Says which version the tables have that were made just now."""
    _versions.create(connection, checkfirst=True)
    connection.execute(insert(_versions).values(version_num=version))


def drop_tables(connection: Connection) -> None:
    """Removes all that is ours, with all that is in it; the caller is sure."""
    from tallymark.store.all_tables import metadata  # noqa: PLC0415 (as below)

    metadata.drop_all(connection)
    _versions.drop(connection, checkfirst=True)
    if connection.dialect.name == "postgresql":
        for log in LOGS:
            connection.exec_driver_sql(f"DROP FUNCTION IF EXISTS {log}_refuse()")


def make_tables(connection: Connection, *some: Table) -> None:
    """Makes all tables, or some, as declared today; those that are logs can only be added to.

    A migration that changes a table looks first whether it is so already, because an earlier
    migration may have made it just now: see docs/decisions/0014-tables-declared-once.md.
    """
    from tallymark.store.all_tables import metadata  # noqa: PLC0415 (few commands make any)

    dialect = connection.dialect.name
    if some:
        # A table of that name that is not ours must be an error, not taken for ours.
        metadata.create_all(connection, some, checkfirst=False)
    else:
        if dialect not in _statements:
            _statements[dialect] = _write_statements(connection.dialect, metadata)
        for statement in _statements[dialect]:
            connection.exec_driver_sql(statement)
    for table in some or metadata.sorted_tables:
        for statement in _TRIGGERS[dialect] if table.name in LOGS else ():
            connection.exec_driver_sql(statement.format(log=table.name))


def _write_statements(dialect: Dialect, metadata: MetaData) -> list[str]:
    made: list[Any] = []
    listener = MockConnection(dialect, lambda each, _: made.append(each))
    metadata.create_all(listener, checkfirst=False)
    return [str(each.compile(dialect=dialect)) for each in made]


def list_columns(connection: Connection, table: Table) -> set[str]:
    """What the table of that name has in the database."""
    return {each["name"] for each in inspect(connection).get_columns(table.name)}


def add_missing_columns(connection: Connection, table: Table) -> None:
    """A table as it is declared today, with all its rows; nothing where it is so already."""
    there = list_columns(connection, table)
    missing = [each for each in table.c if each.name not in there]
    if not missing:
        return
    if connection.dialect.name == "postgresql":
        for column in missing:
            declared = CreateColumn(column).compile(dialect=connection.dialect)
            connection.exec_driver_sql(f"ALTER TABLE {table.name} ADD COLUMN {declared}")
        add_missing_indexes(connection, table)
        return
    # SQLite would write a column that is added later behind the constraints, and a table that is
    # renamed in quotes. Without the pragma it would follow the old table with every reference.
    old = f"{table.name}_before"
    guards = f"SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = '{table.name}'"  # noqa: S608
    for (guard,) in connection.exec_driver_sql(guards).all():
        connection.exec_driver_sql(f"DROP TRIGGER {guard}")
    connection.exec_driver_sql("PRAGMA legacy_alter_table = ON")
    connection.exec_driver_sql(f"ALTER TABLE {table.name} RENAME TO {old}")
    connection.exec_driver_sql("PRAGMA legacy_alter_table = OFF")
    for found in inspect(connection).get_indexes(old):
        connection.exec_driver_sql(f"DROP INDEX {found['name']}")
    make_tables(connection, table)
    names = ", ".join(each.name for each in table.c if each.name in there)
    copy = f"INSERT INTO {table.name} ({names}) SELECT {names} FROM {old}"  # noqa: S608  our names
    connection.exec_driver_sql(copy)
    connection.exec_driver_sql(f"DROP TABLE {old}")


def add_missing_indexes(connection: Connection, table: Table) -> None:
    """Those that are declared today, where they are not there already."""
    known = {each["name"] for each in inspect(connection).get_indexes(table.name)}
    for index in table.indexes:
        if index.name not in known:
            connection.execute(CreateIndex(index))


@contextmanager
def open_logs(connection: Connection) -> Iterator[None]:
    """Lets a migration change rows of logs, which nobody else can; the guards are back after it."""
    if connection.dialect.name == "postgresql":
        for log in LOGS:
            connection.exec_driver_sql(f"ALTER TABLE {log} DISABLE TRIGGER USER")
        yield
        for log in LOGS:
            connection.exec_driver_sql(f"ALTER TABLE {log} ENABLE TRIGGER USER")
        return
    query = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"
    guards = connection.exec_driver_sql(query).all()
    for name, _ in guards:
        connection.exec_driver_sql(f"DROP TRIGGER {name}")
    yield
    for _, statement in guards:
        connection.exec_driver_sql(statement)


def list_versions() -> set[str]:
    """All that this version of Tallymark knows."""
    from alembic.script import ScriptDirectory  # noqa: PLC0415 (as below)

    return {each.revision for each in ScriptDirectory(MIGRATIONS).walk_revisions()}


def explain_version(version: str, shown: str) -> WorkFailed:
    """Why tables of another version cannot be used as they are."""
    if version in list_versions():
        return WorkFailed(
            f"{shown} has the tables of an older version of Tallymark (schema {version}; this one"
            f" has {CURRENT})",
            hint="end the servers of that version, then run: tally admin upgrade",
        )
    return WorkFailed(
        f"{shown} was written by a newer version of Tallymark (schema {version}; this one"
        f" knows {CURRENT})",
        hint="update Tallymark, or use another database",
    )


_one_upgrade = threading.Lock()
"""Alembic keeps the upgrade that is under way in globals of the process."""


def upgrade_schema(connection: Connection, version: str, shown: str) -> None:
    """Runs the migrations that the database lacks."""
    if version == CURRENT:
        return
    # Alembic costs a quarter of a second to import, and hardly any command needs it.
    from alembic import command  # noqa: PLC0415
    from alembic.config import Config  # noqa: PLC0415

    if version not in list_versions():
        raise explain_version(version, shown)
    config = Config(attributes={"connection": connection, "version_table": VERSION_TABLE})
    # Alembic's options interpolate, so a percent sign in the path of an installation is doubled.
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    with _one_upgrade:
        command.upgrade(config, "head")
