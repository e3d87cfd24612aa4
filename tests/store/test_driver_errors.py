"""When the database fails: one sentence, and nothing lost that was stored before."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event
from tests.store.contest_samples import a_challenge, an_outcome, play
from tests.store.run_samples import a_result, a_run, many

from tallymark.errors import InvalidInput, WorkFailed
from tallymark.runs.record import CaseResult
from tallymark.store import Store, open_store

NOBODY = 65534


@contextmanager
def without_rights() -> Iterator[None]:
    """As a user whom permissions bind, also when the tests run as root."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(before)


@contextmanager
def locked(path: str) -> Iterator[sqlite3.Connection]:
    """The database while another writes; it is free again after the block or a rollback."""
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield other


def limit_pages(store: Store, count: int) -> None:
    """From now on the file can have only so many pages more, as on a small disk."""
    with store._database.engine.connect() as connection:
        most = count + connection.exec_driver_sql("PRAGMA page_count").scalar_one()
    store._database.engine.dispose()

    @event.listens_for(store._database.engine, "connect")
    def _limit(connection: sqlite3.Connection, _: object) -> None:
        connection.execute(f"PRAGMA max_page_count = {most}")


def test_a_file_that_is_not_a_database(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database\n" * 100)
    with pytest.raises(InvalidInput, match=r"notes.txt is not an SQLite database; name another"):
        open_store(str(path))
    assert path.read_text() == "not a database\n" * 100


def test_a_folder(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="is a folder; name a file in it"):
        open_store(str(tmp_path))


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        open_store(str(tmp_path / "file" / "deeper" / "tally.db")) as store,
        pytest.raises(WorkFailed, match=r"the folder of .* cannot be made: Not a directory"),
    ):
        store.create_run(a_run())


def test_a_folder_without_permission(tmp_path: Path) -> None:
    folder = tmp_path / "closed"
    folder.mkdir(mode=0o000)
    with (
        without_rights(),
        pytest.raises(WorkFailed, match=r"tally.db cannot be reached: Permission denied"),
    ):
        open_store(str(folder / "tally.db"))


def test_a_file_that_may_only_be_read() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tally.db"
        with open_store(str(path)) as store:
            store.create_run(a_run())
        path.chmod(0o444)
        Path(folder).chmod(0o555)
        with (
            without_rights(),
            pytest.raises(WorkFailed, match=r"tally.db can(not be opened| be read but not)"),
            open_store(str(path)) as store,
        ):
            store.create_run(a_run("other"))
        Path(folder).chmod(0o755)


def test_a_damaged_file(tmp_path: Path) -> None:
    path = tmp_path / "tally.db"
    with open_store(str(path)) as store:
        store.create_run(a_run())
        store.add_results("run", many(500))
    content = bytearray(path.read_bytes())
    content[-20_000:] = b"\xff" * 20_000  # the last pages hold results
    path.write_bytes(content)
    with (
        open_store(str(path)) as store,
        pytest.raises(WorkFailed, match=r"tally.db is damaged; restore it from a copy"),
    ):
        list(store.results("run"))


def test_a_result_that_cannot_be_read_is_named(sqlite_store: Store) -> None:
    sqlite_store.create_run(a_run())
    sqlite_store.add_results("run", [a_result("broken")])
    with closing(sqlite3.connect(sqlite_store.shown)) as other:
        other.execute("UPDATE case_results SET detail = '{'")
        other.commit()
    with pytest.raises(WorkFailed, match="result of case 'broken' of run run cannot be read"):
        list(sqlite_store.results("run"))


def test_a_locked_database_is_said_to_be_locked(sqlite_store: Store) -> None:
    sqlite_store.create_run(a_run())
    with locked(sqlite_store.shown):
        with pytest.raises(WorkFailed, match=r"tally.db is locked by another process; try again"):
            sqlite_store.add_results("run", [a_result()])
        assert sqlite_store.run("latest") == a_run()
    sqlite_store.add_results("run", [a_result()])
    assert list(sqlite_store.results("run")) == [a_result()]


def test_a_database_that_is_locked_while_it_is_made(tmp_path: Path) -> None:
    path = str(tmp_path / "tally.db")
    with (
        open_store(path, patience=0.1) as store,
        locked(path),
        pytest.raises(WorkFailed, match="is locked by another process"),
    ):
        store.create_run(a_run())
    with open_store(path) as store:
        store.create_run(a_run())


def test_a_lock_that_goes_away_is_waited_for(tmp_path: Path) -> None:
    with open_store(str(tmp_path / "tally.db"), patience=60) as store:
        store.create_run(a_run())
        begins = threading.Event()

        def note(*call: Any) -> None:
            begins.set()

        event.listen(store._database.engine, "before_cursor_execute", note)
        with locked(store.shown) as other:
            thread = threading.Thread(target=store.add_results, args=("run", many(5)))
            thread.start()
            assert begins.wait(30)
            other.execute("ROLLBACK")
            thread.join()
        assert len(store.result_keys("run")) == 5


def test_a_full_disk_costs_nothing_that_was_stored(sqlite_store: Store) -> None:
    sqlite_store.create_run(a_run())
    limit_pages(sqlite_store, 60)
    stored: list[CaseResult] = []

    def store_all() -> None:
        for result in many(1000, output="x" * 2000):
            sqlite_store.add_results("run", [result])
            stored.append(result)

    with pytest.raises(WorkFailed, match=r"the disk of .*tally.db is full; what was stored .*room"):
        store_all()
    assert stored
    assert list(sqlite_store.results("run")) == stored
    limit_pages(sqlite_store, 10_000)
    sqlite_store.add_results("run", many(1000))
    assert len(sqlite_store.result_keys("run")) == 1000


def test_a_file_that_may_not_grow(tmp_path: Path) -> None:
    """The kernel refuses the write: the sentence is one, and what was acknowledged is there."""
    path = str(tmp_path / "tally.db")
    with open_store(path) as store:
        store.create_run(a_run())
    code = (
        "import resource, sys; from tallymark.store import open_store;"
        "from tallymark.errors import WorkFailed; from tests.store.run_samples import many\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))\n"
        "store = open_store(sys.argv[1])\n"
        "try:\n"
        "    for each in many(1000, output='x' * 2000):\n"
        "        store.add_results('run', [each]); print(each.case, flush=True)\n"
        "except WorkFailed as error: sys.exit(str(error))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code, path], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 1
    assert ended.stderr.startswith(("reading or writing ", "the disk of "))
    assert ended.stderr.count("\n") == 1
    with open_store(path) as store:
        assert {case for case, _ in store.result_keys("run")} >= set(ended.stdout.split())
    assert ended.stdout


@pytest.mark.parametrize(
    "change", ["ALTER TABLE boards RENAME COLUMN place TO position", "DROP TABLE boards"]
)
def test_a_database_that_another_version_upgraded_meanwhile(own_url: str, change: str) -> None:
    with open_store(own_url) as store:
        store.challenges.publish(a_challenge(), b"", at=0.0)
        store._database.write(lambda connection: connection.exec_driver_sql(change))
        with pytest.raises(
            WorkFailed, match=r"no longer has the tables of .*; if another version upgraded it"
        ):
            store.boards.top("sums")
        with pytest.raises(WorkFailed, match="no longer has the tables of this version"):
            play(store, "alice", an_outcome(1.0), at=1.0)
