"""Which schema a database has, and bringing it up to date.

Alembic costs a quarter of a second to import, so it is only asked when the version in the
database is not the one that this program expects.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import column, inspect, select, table

from tallymark.errors import WorkFailed

if TYPE_CHECKING:
    from sqlalchemy import Connection

CURRENT = "0004"
# A name of our own: a database that others share may have an `alembic_version` already.
VERSION_TABLE = "tallymark_version"
MIGRATIONS = Path(__file__).parent / "migrations"


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
    from alembic import command  # noqa: PLC0415  heavy, see above
    from alembic.config import Config  # noqa: PLC0415
    from alembic.script import ScriptDirectory  # noqa: PLC0415

    known = {each.revision for each in ScriptDirectory(MIGRATIONS).walk_revisions()}
    if version is not None and version not in known:
        raise WorkFailed(
            f"{shown} was written by a newer version of Tallymark (schema {version}; this one"
            f" knows {CURRENT})",
            hint="update Tallymark, or use another database",
        )
    config = Config(attributes={"connection": connection, "version_table": VERSION_TABLE})
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    command.upgrade(config, "head")
