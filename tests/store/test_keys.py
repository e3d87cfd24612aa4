"""Keys: kept as hashes, found by them, rotated once, revoked for good."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import select
from tests.store.account_samples import a_key, add_key, an_agent_key

from tallymark.errors import Conflict, InvalidInput, NotFound
from tallymark.store import Store
from tallymark.store.keys import PREFIX, access_keys, make_secret


def test_a_key_is_found_by_its_text(store: Store) -> None:
    record, text = add_key(store)
    assert store.keys.find(text) == record
    assert store.keys.get(record.id) == record
    assert store.keys.find(make_secret()) is None


def test_a_key_is_32_random_bytes() -> None:
    texts = {make_secret() for _ in range(100)}
    assert len(texts) == 100
    assert all(text.startswith(PREFIX) and len(text) == len(PREFIX) + 43 for text in texts)


def test_the_key_itself_is_nowhere_in_the_database(store: Store) -> None:
    _, text = add_key(store)
    with store._database.read() as connection:
        assert text not in repr(connection.execute(select(access_keys)).all())
    assert text not in repr(store.audit_log.entries())


def test_a_key_of_another_tenant_is_not_there(store: Store, make_store: Any) -> None:
    record, _ = add_key(store)
    other = make_store()
    with pytest.raises(NotFound, match=f"there is no key '{record.id}'"):
        other.keys.get(record.id)
    with pytest.raises(NotFound):
        other.keys.revoke(record.id, at=20.0)
    assert record.id not in [each.id for each in other.keys.all()]


def test_keys_are_listed_oldest_first_by_owner_and_agent(store: Store) -> None:
    later, _ = add_key(store, created_at=30.0)
    sooner, _ = add_key(store, created_at=20.0)
    bobs, _ = add_key(store, owner="bob", role="agent", agent="bobs-bot")
    assert [each.id for each in store.keys.all(owner="alice")] == [sooner.id, later.id]
    assert [each.id for each in store.keys.all(agent="bobs-bot")] == [bobs.id]


def test_an_agents_key_makes_the_agent_its_owners(store: Store) -> None:
    add_key(store, owner="bob", role="agent", agent="bobs-bot")
    assert store.agents.get("bobs-bot").owner == "bob"


def test_an_agent_of_another_owner_is_refused(store: Store) -> None:
    add_key(store, owner="bob", role="agent", agent="bobs-bot")
    with pytest.raises(Conflict, match="the agent 'bobs-bot' is another owner's"):
        store.keys.add(an_agent_key(store, "carol", "bobs-bot"), make_secret())
    assert store.agents.get("bobs-bot").owner == "bob"
    assert store.keys.all(owner="carol") == []


@pytest.mark.parametrize("owner", ["", "a", "Alice", "al ice", "-a", "a" * 101, "älice"])
def test_an_owner_that_cannot_be_written_is_refused(store: Store, owner: str) -> None:
    with pytest.raises(InvalidInput, match="cannot be an owner; use 2 to 100 of a-z"):
        a_key(store, owner=owner)


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "x" * 101, "\u202eabc"])
def test_a_name_that_cannot_be_read_is_refused(store: Store, name: str) -> None:
    with pytest.raises(InvalidInput, match="a key cannot be called"):
        a_key(store, name=name)


def test_a_rotated_key_is_good_until_the_overlap_ends(store: Store) -> None:
    old, _ = add_key(store)
    new = a_key(store, created_at=100.0)
    store.keys.rotate(old, new, make_secret(), until=160.0)
    kept = store.keys.get(old.id)
    assert (kept.replaced_by, kept.expires_at) == (new.id, 160.0)
    assert kept.is_valid(159.0)
    assert not kept.is_valid(160.0)


def test_an_overlap_makes_no_key_last_longer(store: Store) -> None:
    old, _ = add_key(store, expires_at=120.0)
    store.keys.rotate(old, a_key(store), make_secret(), until=1e9)
    assert store.keys.get(old.id).expires_at == 120.0


def test_of_rotations_that_race_one_wins(store: Store) -> None:
    old, _ = add_key(store)

    def rotate(_: int) -> str:
        try:
            store.keys.rotate(old, a_key(store), make_secret(), until=100.0)
        except Conflict:
            return "too late"
        return "rotated"

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(rotate, range(4))) == ["rotated", "too late", "too late", "too late"]
    assert len(store.keys.all(owner="alice")) == 2


def test_a_revoked_key_stays_revoked_since_then(store: Store) -> None:
    record, _ = add_key(store)
    assert store.keys.revoke(record.id, at=20.0).revoked_at == 20.0
    assert store.keys.revoke(record.id, at=30.0).revoked_at == 20.0
    with pytest.raises(Conflict):
        store.keys.rotate(record, a_key(store), make_secret(), until=100.0)


def test_its_use_is_written_down_once_an_hour(store: Store) -> None:
    record, _ = add_key(store)
    for at in (100.0, 3_000.0, 3_700.0):
        store.keys.mark_used(record.id, at=at)
    assert store.keys.get(record.id).last_used_at == 3_700.0
    store.keys.mark_used(record.id, at=3_800.0)
    assert store.keys.get(record.id).last_used_at == 3_700.0


def test_servers_that_start_together_make_one_first_key(make_store: Any) -> None:
    store: Store = make_store()
    for each in store.keys.all():
        store.keys.revoke(each.id, at=20.0)

    def make(_: int) -> bool:
        record = a_key(store, role="admin", created_at=30.0)
        return store.keys.add_first_admin(record, make_secret())

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(make, range(4))) == 1


def test_every_change_is_in_the_log_with_who_and_what(store: Store) -> None:
    record, _ = add_key(store)
    new = a_key(store, created_at=20.0)
    store.keys.rotate(record, new, make_secret(), until=30.0)
    store.keys.revoke(new.id, at=40.0)
    revoked, rotated, created, *_ = store.audit_log.entries()
    assert (created.event, created.actor, created.at) == ("key created", "operator", 10.0)
    assert created.note == {"key": record.id, "name": "ci", "owner": "alice", "role": "reporter"}
    assert rotated.note is not None
    assert (rotated.event, rotated.note["replaces"]) == ("key rotated", record.id)
    assert (revoked.event, revoked.at) == ("key revoked", 40.0)
