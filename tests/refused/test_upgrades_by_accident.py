"""No command but `tally serve` and `tally admin upgrade` changes the tables of an older version."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from sqlalchemy import create_engine
from tests.cli.tally_process import Tally
from tests.http.conftest import run_server
from tests.store.test_migrations import make_old

from tallymark.store import open_store
from tallymark.store.database import parse_address
from tallymark.store.schema import CURRENT, VERSION_TABLE, schema_version


def set_version(url: str, version: str) -> None:
    engine = create_engine(parse_address(url).url)
    with engine.begin() as connection:
        connection.exec_driver_sql(f"UPDATE {VERSION_TABLE} SET version_num = '{version}'")
    engine.dispose()


def read_version(url: str) -> str | None:
    engine = create_engine(parse_address(url).url)
    with engine.connect() as connection:
        found = schema_version(connection)
    engine.dispose()
    return found


@pytest.mark.parametrize(
    "words",
    [
        "admin check",
        "admin backup copy.tally",
        "admin prune",
        "admin keys list",
        "admin keys create viewer --owner victor",
        "runs",
        "leaderboard speed",
        "log",
        "worker --once",
        "vars set city Lyon",
        "export traces -o all.parquet",
    ],
)
def test_other_commands_refuse_older_tables_and_leave_them(
    empty_url: str, tmp_path: Path, words: str
) -> None:
    make_old(empty_url, "0005")
    done = Tally(tmp_path)(*words.split(), "--db", empty_url)
    assert done.returncode == 3, done.stderr
    assert "older version of Tallymark (schema 0005" in done.stderr.replace("\n", " ")
    assert "tally admin upgrade" in done.stderr
    assert read_version(empty_url) == "0005"


def test_the_upgrade_is_a_command_of_its_own(empty_url: str, tmp_path: Path) -> None:
    make_old(empty_url, "0005")
    tally = Tally(tmp_path)
    for _ in range(2):  # the second time there is nothing to do
        done = tally("admin", "upgrade", "--db", empty_url)
        assert (done.returncode, f"schema {CURRENT}" in done.stdout) == (0, True), done.stderr
    assert tally("runs", "--db", empty_url).returncode == 0
    with open_store(empty_url) as store:
        assert store.vars() == {"kept": "safe"}


def test_there_must_be_something_to_upgrade(tmp_path: Path) -> None:
    done = Tally(tmp_path)("admin", "upgrade", "--db", "none.db")
    assert done.returncode == 2
    assert "nothing is stored" in done.stderr
    assert not (tmp_path / "none.db").exists()


def test_a_server_whose_tables_another_version_changed_is_not_ready(empty_url: str) -> None:
    with run_server(empty_url, workers=0) as server:
        assert server.ask("nobody", "GET", "/readyz").status_code == 200
        set_version(empty_url, "9999")
        server.service.readiness.forget()
        found = server.ask("nobody", "GET", "/readyz")
        assert found.status_code == 503
        (problem,) = found.json()["errors"]
        assert "another version of Tallymark changed the tables" in problem["message"]
        set_version(empty_url, CURRENT)


def test_files_of_a_database_are_their_owners_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with run_server(str(tmp_path / "new" / "tally.db"), workers=0) as server:
            names = {"tally.db", "tally.db-wal", "tally.db-shm"}
            server.service.app.store.backups.write(tmp_path / "new" / "copy.tally")
            made = {each.name: each.stat().st_mode & 0o777 for each in (tmp_path / "new").iterdir()}
        assert made.keys() >= names | {"copy.tally"}
        assert set(made.values()) == {0o600}
    finally:
        os.umask(before)
