"""Databases of earlier versions are brought up to date, with all that is in them."""

from __future__ import annotations

from alembic import command
from alembic.config import Config
from sqlalchemy import create_engine, text
from tests.store.contest_samples import a_challenge, an_outcome, play
from tests.store.run_samples import FULL_RUN

from tallymark.store import open_store
from tallymark.store.address import parse_address
from tallymark.store.column_types import metadata
from tallymark.store.schema_upgrade import MIGRATIONS
from tallymark.store.schema_version import VERSION_TABLE


def make_old(url: str, version: str) -> None:
    """A database as an earlier version made it, with a variable in it."""
    engine = create_engine(parse_address(url).url)
    with engine.begin() as connection:
        config = Config(attributes={"connection": connection, "version_table": VERSION_TABLE})
        config.set_main_option("script_location", str(MIGRATIONS))
        command.upgrade(config, version)
        connection.execute(text("INSERT INTO vars VALUES ('default', 'kept', 'safe')"))
    engine.dispose()


def test_a_database_from_before_challenges_gets_them(empty_url: str) -> None:
    make_old(empty_url, "0001")
    with open_store(empty_url) as store:
        assert store.vars() == {"kept": "safe"}
        store.create_run(FULL_RUN)
        store.challenges.publish(a_challenge(), b"files", at=0.0)
        play(store, "alice", an_outcome(5.0))
        assert [each.agent for each in store.boards.top("sums")] == ["alice"]


def test_every_row_has_a_tenant() -> None:
    without = [table.name for table in metadata.sorted_tables if "tenant" not in table.c]
    assert without == []
