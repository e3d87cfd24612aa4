"""No command but `tally serve` and `tally admin upgrade` changes the tables of an older version."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from sqlalchemy import create_engine
from tests.cli.tally_process import Tally
from tests.http.conftest import run_server
from tests.store.next_version import NEXT, NextVersion, make_first, read_version

from tallymark.store.database_address import parse_address
from tallymark.store.schema import CURRENT, FIRST, VERSION_TABLE


def set_version(url: str, version: str) -> None:
    engine = create_engine(parse_address(url).url)
    with engine.begin() as connection:
        connection.exec_driver_sql(f"UPDATE {VERSION_TABLE} SET version_num = '{version}'")
    engine.dispose()


COMMANDS = [
    "admin check",
    "admin backup copy.db",
    "admin prune",
    "admin keys list",
    "admin keys create viewer --owner victor",
    "runs",
    "leaderboard speed",
    "log",
    "worker --once",
    "vars set city Lyon",
    "export traces -o all.parquet",
]


@pytest.fixture
def next_tally(tmp_path: Path) -> NextVersion:
    return NextVersion.make(tmp_path / "next")


def run_next(version: NextVersion, *words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = version.command(*words)
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("words", COMMANDS)
def test_other_commands_refuse_older_tables_and_leave_them(
    tmp_path: Path, next_tally: NextVersion, words: str
) -> None:
    make_first(str(tmp_path / "tally.db"))
    done = run_next(next_tally, *words.split(), "--db", "tally.db", folder=tmp_path)
    assert done.returncode == 3, done.stderr
    assert f"older version of Tallymark (schema {FIRST}" in done.stderr.replace("\n", " ")
    assert "tally admin upgrade" in done.stderr
    assert read_version(str(tmp_path / "tally.db")) == FIRST


def test_the_upgrade_is_a_command_of_its_own(
    empty_url: str, tmp_path: Path, next_tally: NextVersion
) -> None:
    make_first(empty_url)
    assert run_next(next_tally, "runs", "--db", empty_url, folder=tmp_path).returncode == 3
    done = run_next(next_tally, "admin", "upgrade", "--db", empty_url, folder=tmp_path)
    assert (done.returncode, f"schema {NEXT}" in done.stdout) == (0, True), done.stderr
    assert read_version(empty_url) == NEXT
    done = run_next(next_tally, "vars", "list", "--db", empty_url, folder=tmp_path)
    assert done.stdout == "kept=safe, migrated\n"


def test_a_server_upgrades_at_its_start(
    empty_url: str, tmp_path: Path, next_tally: NextVersion
) -> None:
    make_first(empty_url)
    command = next_tally.command("serve", "--port", "0", "--db", empty_url)
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        said = next((line for line in server.stderr if "Tallymark serves" in line), None)
        server.terminate()
        server.stderr.read()
    assert said is not None
    assert read_version(empty_url) == NEXT


@pytest.mark.parametrize("words", [*COMMANDS, "admin upgrade", "serve --port 0"])
def test_tables_of_development_versions_are_refused_by_all(tmp_path: Path, words: str) -> None:
    make_first(str(tmp_path / "tally.db"))
    set_version(str(tmp_path / "tally.db"), "0016")
    done = Tally(tmp_path)(*words.split(), "--db", "tally.db")
    assert done.returncode == 3, done.stderr
    said = " ".join(done.stderr.split())
    assert "made by a development version of Tallymark from before 0.1.0 (schema 0016)" in said
    assert "export what you need with the version that made it, or name a new database" in said
    assert read_version(str(tmp_path / "tally.db")) == "0016"


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
