"""The store in an SQLite file."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from tests.store.conformance import OpenAs, StoreConformance
from tests.store.run_samples import a_result, a_run

from tallymark.errors import InvalidInput
from tallymark.store import Store, open_store


class TestSQLite(StoreConformance):
    """The conformance suite."""

    @pytest.fixture
    def open_as(self, tmp_path: Path) -> Iterator[OpenAs]:
        """Opens the file of this test as a tenant."""
        with ExitStack() as stack:
            yield lambda tenant: stack.enter_context(
                open_store(str(tmp_path / "tally.db"), tenant=tenant)
            )

    @pytest.fixture
    def store(self, open_as: OpenAs) -> Store:
        """The store of the default tenant."""
        return open_as("default")


def test_the_default_place_is_made_by_the_first_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with open_store() as store:
        assert store.shown == ".tally/tally.db"
        before = store.exists, (tmp_path / ".tally").exists()
        store.create_run(a_run())
        after = store.exists, (tmp_path / ".tally" / "tally.db").exists()
    assert (before, after) == ((False, False), (True, True))


@pytest.mark.parametrize("content", [None, b""], ids=["missing", "empty"])
@pytest.mark.parametrize("use", ["runs", "vars", "secret_names"])
def test_reading_what_is_not_there_says_so_and_makes_nothing(
    tmp_path: Path, content: bytes | None, use: str
) -> None:
    path = tmp_path / "tally.db"
    if content is not None:
        path.write_bytes(content)
    with (
        open_store(str(path)) as store,
        pytest.raises(
            InvalidInput,
            match=r"nothing is stored at .*tally.db yet; run a suite or publish",
        ),
    ):
        getattr(store, use)()
    assert (path.read_bytes() if path.exists() else None) == content


def test_a_reader_sees_what_another_process_made_later(tmp_path: Path) -> None:
    path = str(tmp_path / "tally.db")
    with open_store(path) as early, open_store(path) as late:
        late.create_run(a_run())
        assert early.run("latest") == a_run()


def test_another_programs_database_is_not_touched_by_reading(tmp_path: Path) -> None:
    path = tmp_path / "theirs.db"
    with closing(sqlite3.connect(path)) as theirs:
        theirs.execute("CREATE TABLE notes (text)")
    before = path.read_bytes()
    with open_store(str(path)) as store, pytest.raises(InvalidInput, match="nothing is stored"):
        store.runs()
    assert path.read_bytes() == before


def test_readers_and_a_writer_do_not_wait_for_each_other(sqlite_store: Store) -> None:
    sqlite_store.create_run(a_run())
    sqlite_store.add_results("run", [a_result("a"), a_result("b")])
    with closing(sqlite3.connect(sqlite_store.shown)) as other:
        assert other.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        reader = sqlite_store.results("run")
        assert next(reader).case == "a"
        other.execute("BEGIN IMMEDIATE")
        assert next(reader).case == "b"


def test_a_changed_folder_does_not_move_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with open_store("tally.db") as store:
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        store.create_run(a_run())
    assert (tmp_path / "tally.db").exists()


def test_results_can_be_read_with_sql(sqlite_store: Store) -> None:
    sqlite_store.create_run(a_run())
    sqlite_store.add_results("run", [a_result("a", latency=0.5, output="42")])
    query = "SELECT case_name, status, latency, detail ->> 'output' FROM case_results"
    with closing(sqlite3.connect(sqlite_store.shown)) as other:
        assert other.execute(query).fetchall() == [("a", "passed", 0.5, "42")]
