"""Bringing a schema up to date: the migrations that a database lacks, run by Alembic."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory

from tallymark.errors import WorkFailed
from tallymark.store.schema_version import CURRENT, VERSION_TABLE

if TYPE_CHECKING:
    from sqlalchemy import Connection

MIGRATIONS = Path(__file__).parent / "migrations"


def upgrade_schema(connection: Connection, version: str | None, shown: str) -> None:
    """Runs the migrations after `version` in the transaction that is open."""
    known = {each.revision for each in ScriptDirectory(MIGRATIONS).walk_revisions()}
    if version is not None and version not in known:
        raise WorkFailed(
            f"{shown} was written by a newer version of Tallymark (schema {version}; this one"
            f" knows {CURRENT})",
            hint="update Tallymark, or use another database",
        )
    config = Config(attributes={"connection": connection, "version_table": VERSION_TABLE})
    # Alembic's options interpolate, so a percent sign in the path of an installation is doubled.
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    command.upgrade(config, "head")
