"""The schema: made, migrated, raced for, and refused when it is newer than the program."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import text
from tests.store.next_version import make_first
from tests.store.run_samples import a_run

from tallymark.errors import WorkFailed
from tallymark.store import open_store
from tallymark.store.all_tables import metadata
from tallymark.store.schema import (
    CURRENT,
    FIRST,
    MIGRATIONS,
    VERSION_TABLE,
    schema_version,
)


def test_the_program_expects_the_last_migration() -> None:
    found = ScriptDirectory(MIGRATIONS)
    assert (found.get_bases(), found.get_heads()) == ([FIRST], [CURRENT])


def test_migrations_make_what_the_tables_declare(empty_url: str) -> None:
    make_first(empty_url)
    with (
        open_store(empty_url, upgrade=True) as store,
        store._database.engine.connect() as connection,
    ):
        assert schema_version(connection) == CURRENT
        context = MigrationContext.configure(
            connection, opts={"compare_type": True, "version_table": VERSION_TABLE}
        )
        assert compare_metadata(context, metadata) == []


def test_a_difference_would_be_seen(empty_url: str) -> None:
    with open_store(empty_url) as store:
        store.create_run(a_run())
        with store._database.engine.begin() as connection:
            connection.execute(text("ALTER TABLE runs DROP COLUMN formula"))
            context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
            assert len(compare_metadata(context, metadata)) == 1


def test_a_schema_that_is_up_to_date_needs_no_alembic(empty_url: str) -> None:
    with open_store(empty_url) as store:
        store.create_run(a_run())
    code = (
        "import sys; from tallymark.store import open_store\n"
        f"with open_store({empty_url!r}) as store: print(store.run('latest').id)\n"
        "print([name for name in sys.modules if 'alembic' in name or 'cryptography' in name])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split("\n")[:2] == ["run", "[]"]


def test_a_newer_schema_is_refused_and_left_alone(empty_url: str) -> None:
    with open_store(empty_url) as store:
        store.create_run(a_run())
        with store._database.engine.begin() as connection:
            connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '9999'"))
    message = r"written by a newer version of Tallymark \(schema 9999; .*; update Tallymark"
    with pytest.raises(WorkFailed, match=message):
        open_store(empty_url)


def fail(*_: object, **__: object) -> None:
    raise OSError("out of luck")


def test_a_schema_that_cannot_be_made_leaves_nothing(
    empty_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_store(empty_url) as store:
        with monkeypatch.context() as patch:
            patch.setattr("tallymark.store.schema.make_version", fail)
            with pytest.raises(OSError, match="out of luck"):
                store.create_run(a_run())
        assert store.exists is False
        store.create_run(a_run())
        assert store.run("latest") == a_run()


def test_processes_that_start_together_make_one_schema(empty_url: str) -> None:
    code = (
        "import sys; from tallymark.store import open_store;"
        "from tallymark.runs.record import RunRecord;"
        "print('ready', flush=True); sys.stdin.readline();"
        "store = open_store(sys.argv[1]);"
        "store.create_run(RunRecord(id=sys.argv[2], suite='s', model='m')); store.close()"
    )
    starters = [
        subprocess.Popen(
            [sys.executable, "-c", code, empty_url, f"run-{number}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(2)
    ]
    for each in starters:
        assert each.stdout is not None
        assert each.stdout.readline() == "ready\n"
    for each in starters:
        assert each.stdin is not None
        each.stdin.write("go\n")
        each.stdin.flush()
    assert [each.communicate()[1] for each in starters] == [""] * 2
    with closing(open_store(empty_url)) as store:
        assert {run.id for run in store.runs()} == {f"run-{number}" for number in range(2)}
