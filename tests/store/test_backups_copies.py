"""All rows move from one kind of database to the other, and back."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text
from tests.store.contest_samples import a_challenge, quick_store
from tests.store.played_store import make_played

from tallymark.errors import Conflict, WorkFailed
from tallymark.store import Store, backups, open_store
from tallymark.store.backups import list_tables
from tallymark.store.database_address import parse_address
from tallymark.store.dialects import read_many


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_played(tmp_path_factory.mktemp("played") / "tally.db")


def read_all(store: Store) -> dict[str, Counter[str]]:
    """All rows by table; SQLite has numbers for booleans, which are equal to them."""
    with store._database.read() as connection:
        return {
            name: Counter(
                repr([int(each) if isinstance(each, bool) else each for each in row])
                for row in read_many(connection, table, [each.name for each in table.c])
            )
            for name, table in list_tables().items()
        }


def test_tables_come_after_those_that_they_refer_to() -> None:
    names = list(list_tables())
    for name, table in list_tables().items():
        for key in table.foreign_keys:
            assert names.index(key.column.table.name) <= names.index(name)


def test_rows_go_to_the_other_kind_of_database_and_back(
    played: Path, tmp_path: Path, empty_url: str
) -> None:
    again = f"sqlite:///{tmp_path}/again.db"
    with open_store(str(played)) as store:
        before = store.check_all()
        rows = read_all(store)
        counts = store.backups.copy(empty_url)
    assert counts == {name: found.total() for name, found in rows.items()}
    with quick_store(empty_url) as store:
        assert read_all(store) == rows
        assert store.check_all() == before
        store.backups.copy(again)
    with quick_store(again) as store:
        assert read_all(store) == rows
    assert not before.counts


def test_no_number_is_given_out_again(tmp_path: Path, empty_url: str) -> None:
    first, last = f"sqlite:///{tmp_path}/first.db", f"sqlite:///{tmp_path}/last.db"
    with quick_store(first) as store:
        for name in ("one", "two", "three"):
            store.challenges.publish(a_challenge(name=name), b"", at=0.0)
    for nth, (source, target) in enumerate(((first, empty_url), (empty_url, last))):
        with quick_store(source) as store:
            with store._database.engine.begin() as connection:
                connection.execute(text("DELETE FROM challenge_versions WHERE challenge_id > 1"))
                connection.execute(text("DELETE FROM challenges WHERE id > 1"))
            store.backups.copy(target)
        with quick_store(target) as store:
            store.challenges.publish(a_challenge(name="new"), b"", at=0.0)
            with store._database.read() as connection:
                ids = connection.execute(text("SELECT id FROM challenges ORDER BY id")).scalars()
                assert ids.all() == [1, 4 + nth]


def test_a_database_with_tables_is_left_as_it_is(played: Path, empty_url: str) -> None:
    address = parse_address(empty_url)
    engine = create_engine(address.url)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE runs (name TEXT)"))
        connection.execute(text("INSERT INTO runs VALUES ('theirs')"))
    said = "is not empty" if address.path is None else "is there already"
    with open_store(str(played)) as store, pytest.raises(Conflict, match=said):
        store.backups.copy(empty_url)
    with engine.begin() as connection:
        assert connection.execute(text("SELECT name FROM runs")).scalars().all() == ["theirs"]
    engine.dispose()


@pytest.mark.parametrize("failing", ["_copy_last_number", "count_rows"])
def test_nothing_is_left_of_a_copy_that_ends_early(
    played: Path, tmp_path: Path, empty_url: str, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(backups, failing, fail)
    with open_store(str(played)) as store, pytest.raises(KeyboardInterrupt):
        store.backups.copy(empty_url)
    with open_store(empty_url) as store:
        assert not store.exists
    assert not list(tmp_path.glob("*tally.db*"))


def test_rows_are_counted(played: Path, empty_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backups, "insert_many", lambda *_: None)
    with open_store(str(played)) as store, pytest.raises(WorkFailed, match="not the rows"):
        store.backups.copy(empty_url)
    with open_store(empty_url) as store:
        assert not store.exists
