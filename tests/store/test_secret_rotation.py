"""Another key: everything opens before, while and after it is rotated."""

from __future__ import annotations

import base64
import stat
from pathlib import Path

import pytest

from tallymark.errors import WorkFailed
from tallymark.store import Store
from tallymark.store.webhooks import Webhook, make_signing_secret

OLD, NEW = (base64.b64encode(bytes([each]) * 32).decode() for each in (1, 2))
HOOK = Webhook(
    id="whk_a",
    url="https://example.com/x",
    events=("run.finished",),
    made_by="alice",
    created_at=0.0,
)


@pytest.fixture
def store(sqlite_store: Store) -> Store:
    """With a secret in each of two tenants, and a webhook."""
    sqlite_store.set_secret("TOKEN", "one")
    sqlite_store.for_tenant("other").set_secret("TOKEN", "two")
    sqlite_store.webhooks.add(HOOK, make_signing_secret())
    return sqlite_store


def key_of(store: Store, more: str = "") -> Path:
    return Path(f"{store.shown}.key{more}")


def read_all(store: Store) -> tuple[str, str, str]:
    other = store.for_tenant("other")
    found = (store.secrets_for_run(["TOKEN"]), other.secrets_for_run(["TOKEN"]))
    return found[0]["TOKEN"], found[1]["TOKEN"], store.webhooks.open_secret(HOOK.id)


def test_all_is_sealed_by_a_new_key(store: Store) -> None:
    before, key = read_all(store), key_of(store).read_text()
    done = store.rotate_secret_key()
    assert (done.secrets, done.webhooks) == (2, 1)
    assert key_of(store).read_text() != key
    assert key_of(store, ".before").read_text() == key
    for path in (key_of(store), key_of(store, ".before")):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read_all(store) == before
    key_of(store, ".before").unlink()
    assert read_all(store) == before


def test_it_can_be_interrupted_before_anything_is_sealed_anew(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, calls = read_all(store), []

    def fail(*given: object) -> list[int]:
        calls.append(given)
        if len(calls) == 2:
            raise WorkFailed("killed")
        return [0, 0]

    with monkeypatch.context() as patched:
        patched.setattr("tallymark.store.secrets._reseal", fail)
        with pytest.raises(WorkFailed, match="killed"):
            store.rotate_secret_key()
    assert read_all(store) == before
    # The next one first finishes that, then takes another key.
    assert store.rotate_secret_key().secrets == 2
    key_of(store, ".before").unlink()
    assert read_all(store) == before


def test_what_was_sealed_meanwhile_is_sealed_anew_at_the_end(store: Store) -> None:
    store.rotate_secret_key()
    new = key_of(store).read_text()
    key_of(store).write_text(key_of(store, ".before").read_text())  # as a server saw it
    store.set_secret("LATE", "three")
    key_of(store).write_text(new)
    assert store.rotate_secret_key(last=True).secrets == 1
    assert not key_of(store, ".before").exists()
    assert store.secrets_for_run(["LATE"]) == {"LATE": "three"}
    assert read_all(store)[:2] == ("one", "two")


def test_the_keys_of_the_environment(sqlite_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TALLY_SECRET_KEY", OLD)
    sqlite_store.set_secret("TOKEN", "one")
    monkeypatch.setenv("TALLY_SECRET_KEY", NEW)
    with pytest.raises(WorkFailed, match="sealed by a key that is not here") as told:
        sqlite_store.rotate_secret_key()
    assert "TALLY_SECRET_KEY_BEFORE" in str(told.value)
    monkeypatch.setenv("TALLY_SECRET_KEY_BEFORE", OLD)
    assert sqlite_store.secrets_for_run(["TOKEN"]) == {"TOKEN": "one"}
    done = sqlite_store.rotate_secret_key()
    assert (done.secrets, done.key_file) == (1, None)
    monkeypatch.delenv("TALLY_SECRET_KEY_BEFORE")
    assert sqlite_store.secrets_for_run(["TOKEN"]) == {"TOKEN": "one"}
    assert sqlite_store.rotate_secret_key().secrets == 0
