"""Secrets at rest: sealed, tied to their owner, and only opened with the right key."""

from __future__ import annotations

import base64
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import select, update

from tallymark.errors import InvalidInput, WorkFailed
from tallymark.store import Store, open_store
from tallymark.store.secrets import secret_rows

VALUE = "correct horse battery staple"
KEY = base64.b64encode(bytes(range(32))).decode()
OTHER_KEY = base64.urlsafe_b64encode(bytes(range(224, 256))).decode()


def key_of(store: Store) -> Path:
    return Path(store.shown + ".key")


def test_no_file_holds_the_plain_value(sqlite_store: Store) -> None:
    sqlite_store.set_secret("TOKEN", "older " + VALUE)
    sqlite_store.set_secret("TOKEN", VALUE)
    files = list(Path(sqlite_store.shown).parent.glob("tally.db*"))
    assert {"tally.db", "tally.db-wal", "tally.db.key"} <= {each.name for each in files}
    for form in (VALUE.encode(), base64.b64encode(VALUE.encode())[:20], VALUE.encode().hex()):
        raw = form if isinstance(form, bytes) else form.encode()
        assert [each.name for each in files if raw in each.read_bytes()] == []


def test_the_database_would_show_a_plain_value(sqlite_store: Store) -> None:
    sqlite_store.set_var("TOKEN", VALUE)
    files = Path(sqlite_store.shown).parent.glob("tally.db*")
    assert any(VALUE.encode() in each.read_bytes() for each in files)


def test_the_key_file_is_for_its_owner_alone(sqlite_store: Store) -> None:
    sqlite_store.set_secret("TOKEN", VALUE)
    assert stat.S_IMODE(key_of(sqlite_store).stat().st_mode) == 0o600


def test_a_key_file_that_others_can_read_is_refused(sqlite_store: Store) -> None:
    sqlite_store.set_secret("TOKEN", VALUE)
    key_of(sqlite_store).chmod(0o640)
    with pytest.raises(InvalidInput, match=r"can be read by others; run: chmod 600 .*tally.db.key"):
        sqlite_store.secrets_for_run(["TOKEN"])


def test_the_environments_key_comes_first(
    sqlite_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TALLY_SECRET_KEY", KEY)
    sqlite_store.set_secret("TOKEN", VALUE)
    assert sqlite_store.secrets_for_run(["TOKEN"]) == {"TOKEN": VALUE}
    assert not key_of(sqlite_store).exists()


def test_another_key_is_told_from_the_right_one(
    sqlite_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TALLY_SECRET_KEY", KEY)
    sqlite_store.set_secret("TOKEN", VALUE)
    monkeypatch.setenv("TALLY_SECRET_KEY", OTHER_KEY)
    with pytest.raises(WorkFailed, match="stored under another key than the one in use: TOKEN"):
        sqlite_store.secrets_for_run(["TOKEN"])


def test_a_key_that_is_gone_is_not_made_anew(sqlite_store: Store) -> None:
    sqlite_store.set_secret("TOKEN", VALUE)
    key_of(sqlite_store).unlink()
    with pytest.raises(WorkFailed, match="the key of the stored secrets is missing"):
        sqlite_store.secrets_for_run(["TOKEN"])
    assert not key_of(sqlite_store).exists()


@pytest.mark.parametrize("text", ["hush", "hush" * 20, "ö", base64.b64encode(b"x" * 31).decode()])
def test_a_key_that_is_none_is_refused_unquoted(
    sqlite_store: Store, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv("TALLY_SECRET_KEY", text)
    with pytest.raises(InvalidInput, match="TALLY_SECRET_KEY does not hold a key") as caught:
        sqlite_store.set_secret("TOKEN", VALUE)
    assert text not in str(caught.value)


def test_a_broken_key_file_is_refused(sqlite_store: Store) -> None:
    sqlite_store.set_secret("TOKEN", VALUE)
    key_of(sqlite_store).write_bytes(os.urandom(40))
    with pytest.raises(InvalidInput, match=r"tally.db.key does not hold a key"):
        sqlite_store.secrets_for_run(["TOKEN"])


def test_a_key_file_that_cannot_be_made_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        open_store(str(tmp_path / "file" / "tally.db")) as store,
        pytest.raises(WorkFailed, match=r"the key file .* cannot be used: "),
    ):
        store.set_secret("TOKEN", VALUE)


@pytest.mark.parametrize("change", ["swap", "bit"])
def test_a_value_that_was_tampered_with_does_not_open(sqlite_store: Store, change: str) -> None:
    sqlite_store.set_secret("TOKEN", VALUE)
    sqlite_store.set_secret("OTHER", "something else")
    with sqlite_store._database.engine.begin() as connection:
        names = {"swap": "OTHER", "bit": "TOKEN"}
        query = select(secret_rows.c.sealed).where(secret_rows.c.name == names[change])
        sealed: bytes = connection.execute(query).scalar_one()
        if change == "bit":
            sealed = sealed[:-1] + bytes([sealed[-1] ^ 1])
        connection.execute(
            update(secret_rows).where(secret_rows.c.name == "TOKEN").values(sealed=sealed)
        )
    with pytest.raises(WorkFailed, match="the stored secret 'TOKEN' is damaged; set it again"):
        sqlite_store.secrets_for_run(["TOKEN"])


def test_the_same_value_is_sealed_differently_each_time(sqlite_store: Store) -> None:
    for name in ("A", "B"):
        sqlite_store.set_secret(name, VALUE)
    with sqlite_store._database.engine.connect() as connection:
        first, second = connection.scalars(select(secret_rows.c.sealed))
    assert first != second


def test_of_many_first_keys_one_counts(tmp_path: Path) -> None:
    with open_store(str(tmp_path / "tally.db")) as store, ThreadPoolExecutor(8) as pool:
        store.set_var("warm", "up")
        names = [f"S{number}" for number in range(16)]
        list(pool.map(lambda name: store.set_secret(name, name), names))
        assert store.secrets_for_run(names) == {name: name for name in names}
    assert sorted(each.name for each in tmp_path.glob("*.key*")) == ["tally.db.key"]
