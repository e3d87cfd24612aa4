"""A database that can only be read: it is read, and nothing is left beside it."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.store.contest_samples import a_challenge, an_outcome, play
from tests.store.next_version import make_first
from tests.store.run_samples import a_result, a_run
from tests.store.test_driver_errors import without_rights

from tallymark.errors import WorkFailed
from tallymark.store import open_store


@pytest.fixture
def folder() -> Iterator[Path]:
    """With a database in it, where others can go: pytest's own folders are closed to them."""
    with tempfile.TemporaryDirectory(prefix="tally read #1% ") as name:
        folder = Path(name)
        folder.chmod(0o755)
        with open_store(f"{name}/tally.db") as store:
            store.create_run(a_run())
            store.add_results("run", [a_result()])
            store.challenges.publish(a_challenge(), b"", at=1.0)
            play(store, "alice", an_outcome())
        yield folder
        folder.chmod(0o755)


@pytest.mark.parametrize(("of_folder", "of_file"), [(0o555, 0o644), (0o777, 0o444), (0o555, 0o444)])
def test_it_is_read_and_left_as_it_is(folder: Path, of_folder: int, of_file: int) -> None:
    (folder / "tally.db").chmod(of_file)
    folder.chmod(of_folder)
    with without_rights(), open_store(f"{folder}/tally.db") as store:
        assert [each.case for each in store.results(store.run("latest").id)] == ["case"]
        assert [each.agent for each in store.boards.top("sums")] == ["alice"]
        with pytest.raises(WorkFailed, match="can be read but not written; check the file's perm"):
            store.create_run(a_run("other"))
    assert [path.name for path in folder.iterdir()] == ["tally.db"]


def test_what_another_has_written_and_not_yet_merged_is_seen(folder: Path) -> None:
    with closing(sqlite3.connect(folder / "tally.db")) as other:
        other.execute("UPDATE runs SET suite = 'changed'")
        other.commit()
        for path in folder.iterdir():
            path.chmod(0o444)
        folder.chmod(0o555)
        with without_rights(), open_store(f"{folder}/tally.db") as store:
            assert store.run("latest").suite == "changed"
        # Its index is gone, and can neither be made nor done without: better nothing than the past.
        changes = (folder / "tally.db-wal").read_bytes()
    folder.chmod(0o755)
    (folder / "tally.db-wal").write_bytes(changes)
    folder.chmod(0o555)
    with without_rights(), pytest.raises(WorkFailed, match="cannot be opened; check the perm"):
        open_store(f"{folder}/tally.db")


@pytest.mark.usefixtures("next_version")
def test_an_older_one_says_that_it_cannot_be_changed(folder: Path) -> None:
    (folder / "old").mkdir()
    make_first(f"sqlite:///{folder}/old/tally.db")
    (folder / "old").chmod(0o555)
    said = "can be read but not upgraded; copy it to a folder"
    with without_rights(), pytest.raises(WorkFailed, match=said):
        open_store(f"{folder}/old/tally.db", upgrade=True)
    (folder / "old").chmod(0o755)
