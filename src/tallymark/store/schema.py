"""Schema versions: tables of a new database, and migrations of an old one."""

from __future__ import annotations

import threading
import time
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

from tallymark.errors import WorkFailed
from tallymark.installation import require_extra

if TYPE_CHECKING:
    from sqlalchemy import Connection, Dialect

MIGRATIONS = Path(__file__).parent / "migrations"
FIRST, CURRENT = "0017", "0017"
"""The versions of the first migration and of the last. Databases from before the first one were
made by development versions; this one can neither use nor upgrade them."""
# Not `alembic_version`, which a shared database may have already.
VERSION_TABLE = "tallymark_version"
_statements: dict[str, list[str]] = {}
"""Statements that make all tables, by dialect: writing them takes longer than running them."""
_versions = Table(
    VERSION_TABLE,
    MetaData(),  # managed by Alembic, and not among the tables of `all_tables`
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name=f"{VERSION_TABLE}_pkc"),
)
LOGS = ("contest_audit", "score_history")
"""Tables that are only ever added to."""
_REFUSAL = "{log} is only ever added to"
# Triggers that refuse changes to logs.
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
    """Version of the database's schema; None if it has no Tallymark tables."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    version: str | None = connection.scalar(select(_versions.c.version_num))
    return version


def make_current(connection: Connection, shown: str) -> None:
    """Make or migrate the schema in the open transaction; the caller holds the lock."""
    version = schema_version(connection)
    if version is None:
        # The result of all migrations at once: a test compares the two.
        make_tables(connection)
        make_version(connection, CURRENT)
    else:
        upgrade_schema(connection, version, shown)


class SchemaChanged(WorkFailed):
    """Another version of Tallymark changed the tables while this one used them."""


def write_probe(connection: Connection, shown: str) -> None:
    """Write to the disk without changing anything, if the tables are still of this version."""
    same = update(_versions).where(_versions.c.version_num == CURRENT)
    if not connection.execute(same.values(version_num=CURRENT)).rowcount:
        raise SchemaChanged(f"another version of Tallymark changed the tables of {shown}")
    if connection.dialect.name == "sqlite":
        # It leaves out rows that are as they were. This number is in the file's head, and unused.
        connection.exec_driver_sql(f"PRAGMA user_version = {int(time.time()) % 2**31}")


def make_version(connection: Connection, version: str) -> None:
    """Store the version of tables that were just made."""
    _versions.create(connection, checkfirst=True)
    connection.execute(insert(_versions).values(version_num=version))


def make_tables(connection: Connection) -> None:
    """Make all tables as declared; logs get triggers that make them append-only."""
    from tallymark.store.all_tables import metadata  # noqa: PLC0415 (few commands make any)

    dialect = connection.dialect.name
    if dialect not in _statements:
        _statements[dialect] = _write_statements(connection.dialect, metadata)
    for statement in _statements[dialect]:
        connection.exec_driver_sql(statement)


def _write_statements(dialect: Dialect, metadata: MetaData) -> list[str]:
    made: list[Any] = []
    listener = MockConnection(dialect, lambda each, _: made.append(each))
    metadata.create_all(listener, checkfirst=False)
    triggers = [each.format(log=log) for log in LOGS for each in _TRIGGERS[dialect.name]]
    return [str(each.compile(dialect=dialect)).strip() for each in made] + triggers


def explain_version(version: str, shown: str) -> WorkFailed:
    """Explain why tables of another version cannot be used as they are."""
    if version < FIRST:
        return WorkFailed(
            f"{shown} was made by a development version of Tallymark from before 0.1.0 (schema"
            f" {version}), whose tables cannot be upgraded",
            hint="export what you need with the version that made it, or name a new database",
        )
    if version < CURRENT:
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
"""Alembic stores the current upgrade in globals of the process."""


def upgrade_schema(connection: Connection, version: str, shown: str) -> None:
    """Run the missing migrations."""
    if version == CURRENT:
        return
    if not FIRST <= version < CURRENT:  # another process was quicker
        raise explain_version(version, shown)
    require_extra("server", "an upgrade of the tables", "alembic")
    # Alembic costs a quarter of a second to import, and hardly any command needs it.
    from alembic import command  # noqa: PLC0415
    from alembic.config import Config  # noqa: PLC0415

    config = Config(attributes={"connection": connection, "version_table": VERSION_TABLE})
    # Alembic's options interpolate, so a percent sign in the path of an installation is doubled.
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    with _one_upgrade:
        command.upgrade(config, "head")
