"""The next version of Tallymark, which has one more migration, to try what an upgrade does."""

from __future__ import annotations

import importlib
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from sqlalchemy import create_engine, text

from tallymark.store import database, schema
from tallymark.store.database_address import parse_address
from tallymark.store.schema import FIRST, VERSION_TABLE, schema_version

NEXT = "9000"
_MIGRATION = """
from alembic import op

revision, down_revision = "{next}", "{before}"


def upgrade():
    op.execute("UPDATE vars SET value = value || ', migrated'")
    {more}
"""


class NextVersion(NamedTuple):
    """Its migrations."""

    folder: str

    @classmethod
    def make(cls, folder: Path) -> NextVersion:
        """All that there are, and one more."""
        shutil.copytree(schema.MIGRATIONS, folder)
        made = cls(str(folder))
        made.add("pass")
        return made

    def add(self, more: str) -> None:
        """Write the migration again, with a statement at its end."""
        code = _MIGRATION.format(next=NEXT, before=FIRST, more=more)
        Path(self.folder, "versions", f"v{NEXT}_more.py").write_text(code)

    def command(self, *words: str) -> list[str]:
        """The command line of `tally` as that version has it."""
        return [sys.executable, __file__, self.folder, *words]


def become(version: NextVersion, change: Callable[[Any, str, Any], object]) -> None:
    """Make this process that version of Tallymark."""
    change(schema, "MIGRATIONS", Path(version.folder))
    for module in (schema, database):
        change(module, "CURRENT", NEXT)


@pytest.fixture
def next_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NextVersion:
    """Make this process the next version of Tallymark, with one more migration."""
    made = NextVersion.make(tmp_path / "next")
    become(made, monkeypatch.setattr)
    return made


def make_first(url: str) -> None:
    """Make a database with the tables of 0.1.0 and a variable in it.

    By the statements that made them then, which `schema_*.sql` keeps: what is declared may change.
    """
    engine = create_engine(parse_address(url).url)
    kept = Path(__file__).with_name(f"schema_{engine.name}.sql").read_text()
    with engine.begin() as connection:
        for statement in kept.partition("\n\n")[2].split(";\n\n"):
            connection.exec_driver_sql(statement)
        connection.execute(text(f"INSERT INTO {VERSION_TABLE} VALUES ('{FIRST}')"))
        connection.execute(text("INSERT INTO vars VALUES ('default', 'kept', 'safe')"))
    engine.dispose()


def read_version(url: str) -> str | None:
    engine = create_engine(parse_address(url).url)
    with engine.connect() as connection:
        found = schema_version(connection)
    engine.dispose()
    return found


if __name__ == "__main__":
    become(NextVersion(sys.argv.pop(1)), setattr)
    sys.argv[0] = "tally"
    importlib.import_module("tallymark.cli").main()
