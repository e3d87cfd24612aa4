"""Databases of earlier versions are brought up to date, with all that is in them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text
from tests.postgres import Postgres
from tests.store.next_version import NEXT, NextVersion, make_first, read_version
from tests.store.run_samples import FULL_RUN

from tallymark.errors import WorkFailed
from tallymark.store import open_store
from tallymark.store.database_address import parse_address
from tallymark.store.dialects import metadata
from tallymark.store.schema import CURRENT, FIRST, VERSION_TABLE


@pytest.mark.usefixtures("next_version")
def test_the_next_migration_is_applied_where_that_is_asked_for(empty_url: str) -> None:
    make_first(empty_url)
    with pytest.raises(WorkFailed, match=r"older version .* tally admin upgrade"):
        open_store(empty_url)
    assert read_version(empty_url) == FIRST
    for _ in range(2):  # the second time there is nothing to do
        with open_store(empty_url, upgrade=True) as store:
            assert store.vars() == {"kept": "safe, migrated"}
            store.create_run(FULL_RUN)
            store.delete_run(FULL_RUN.id)
    assert read_version(empty_url) == NEXT


def test_a_migration_that_fails_leaves_the_old_tables(
    empty_url: str, next_version: NextVersion
) -> None:
    make_first(empty_url)
    next_version.add("raise OSError('out of luck')")
    with pytest.raises(OSError, match="out of luck"):
        open_store(empty_url, upgrade=True)
    assert read_version(empty_url) == FIRST
    next_version.add("pass")
    with open_store(empty_url, upgrade=True) as store:
        assert store.vars() == {"kept": "safe, migrated"}


@pytest.mark.parametrize("version", ["0001", "0016"])
def test_development_versions_are_refused_and_left_alone(empty_url: str, version: str) -> None:
    make_first(empty_url)
    engine = create_engine(parse_address(empty_url).url)
    with engine.begin() as connection:
        connection.exec_driver_sql(f"UPDATE {VERSION_TABLE} SET version_num = '{version}'")
    engine.dispose()
    for upgrade in (False, True):
        said = rf"from before 0\.1\.0 \(schema {version}\).*; export what you need"
        with pytest.raises(WorkFailed, match=said):
            open_store(empty_url, upgrade=upgrade)
    assert read_version(empty_url) == version


# Everything that a schema consists of, as the databases themselves tell it.
_CATALOGUE = {
    "sqlite": [
        "SELECT type, name, tbl_name, sql FROM sqlite_master",
        "SELECT m.name, x.* FROM sqlite_master m, pragma_table_xinfo(m.name) x",
        "SELECT m.name, x.* FROM sqlite_master m, pragma_table_list(m.name) x",
        "SELECT m.name, x.* FROM sqlite_master m, pragma_foreign_key_list(m.name) x",
        (
            'SELECT m.name, l.name, l."unique", l.origin, l.partial, x.* FROM sqlite_master m,'
            " pragma_index_list(m.name) l, pragma_index_xinfo(l.name) x"
        ),
        "SELECT * FROM tallymark_version",
        "PRAGMA journal_mode",
    ],
    "postgresql": [
        "SELECT * FROM information_schema.tables WHERE table_schema = 'public'",
        "SELECT * FROM information_schema.columns WHERE table_schema = 'public'",
        "SELECT tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'",
        (
            "SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint"
            " WHERE connamespace = 'public'::regnamespace"
        ),
        (
            "SELECT tgrelid::regclass::text, tgname, tgtype, tgenabled, pg_get_triggerdef(oid)"
            " FROM pg_trigger WHERE NOT tgisinternal"
        ),
        (
            "SELECT proname, pg_get_functiondef(oid) FROM pg_proc"
            " WHERE pronamespace = 'public'::regnamespace"
        ),
        "SELECT sequencename, data_type::text, start_value, increment_by FROM pg_sequences",
        (
            "SELECT relname, relkind, relpersistence, reloptions, relhasindex, relchecks,"
            " relhastriggers, relreplident, relhasrules FROM pg_class"
            " WHERE relnamespace = 'public'::regnamespace"
        ),
        "SELECT * FROM tallymark_version",
    ],
}


def describe_schema(url: str) -> list[list[str]]:
    """What the database says of its schema, in an order that does not depend on how it was made."""
    engine = create_engine(parse_address(url).url)
    with engine.connect() as connection:
        answers = [connection.execute(text(query)) for query in _CATALOGUE[engine.name]]
        described = [sorted(" ".join(map(_show, row)) for row in rows) for rows in answers]
    engine.dispose()
    return described


def _show(value: Any) -> str:
    """Without the name of the database, which information_schema repeats, and line breaks.

    The parts of a table of SQLite are sorted: a column that was added stands behind the keys.
    """
    shown = re.sub(r"test_\d+", "", " ".join(str(value).split()))
    head, bracket, rest = shown.partition("(")
    if not head.startswith("CREATE TABLE"):
        return shown
    inner, _, tail = rest.rpartition(")")
    return head + bracket + ",".join(sorted(each.strip() for each in inner.split(","))) + tail


@pytest.fixture(params=["sqlite", "postgresql"])
def two_urls(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/made.db", f"sqlite:///{tmp_path}/migrated.db"
    server: Postgres = request.getfixturevalue("postgres")
    return server.fresh(), server.fresh()


def test_a_schema_made_at_once_is_what_all_migrations_make(two_urls: tuple[str, str]) -> None:
    at_once, migrated = two_urls
    make_first(migrated)
    for url in two_urls:
        with open_store(url, upgrade=True) as store:
            store.set_var("kept", "safe")
    described = describe_schema(at_once)
    assert described == describe_schema(migrated)
    assert all(described[:5])
    assert read_version(migrated) == CURRENT


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE runs ADD COLUMN more TEXT",
        "DROP INDEX ux_attempts_open",
        "CREATE INDEX more ON runs (model)",
    ],
)
def test_a_schema_that_differs_would_be_seen(empty_url: str, change: str) -> None:
    with open_store(empty_url, upgrade=True) as store:
        store.create_run(FULL_RUN)
        before = describe_schema(empty_url)
        with store._database.engine.begin() as connection:
            connection.execute(text(change))
    assert describe_schema(empty_url) != before


def test_every_row_has_a_tenant() -> None:
    without = [table.name for table in metadata.sorted_tables if "tenant" not in table.c]
    assert without == []
