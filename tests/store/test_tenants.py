"""Tenants: made once, with settings that are checked and logged."""

from __future__ import annotations

from typing import Any

import pytest
from tests.store.account_samples import a_key

from tallymark.errors import Conflict, InvalidInput, NotFound
from tallymark.store import Store
from tallymark.store.keys import make_secret
from tallymark.store.tenants import TenantSettings


def test_settings_are_changed_and_set_back(store: Store) -> None:
    changed = store.tenants.change({"registration": "open", "agents_per_owner": 3}, at=20.0)
    assert store.tenants.settings() == changed
    assert (changed.registration, changed.agents_per_owner) == ("open", 3)
    assert store.tenants.change({"agents_per_owner": None}, at=30.0).agents_per_owner == 20


def test_a_change_is_in_the_log_and_none_is_not(store: Store) -> None:
    store.tenants.change({"registration": "open"}, at=20.0)
    store.tenants.change({"registration": "open"}, at=30.0)
    (entry,) = store.audit_log.entries(event="tenant changed")
    assert (entry.at, entry.note) == (20.0, {"registration": "open"})


def test_a_tenant_that_nobody_made_is_refused(store: Store) -> None:
    other = store.for_tenant("nobody")
    for ask in (other.tenants.settings, lambda: other.tenants.change({}, at=20.0)):
        with pytest.raises(NotFound, match="there is no tenant 'nobody'"):
            ask()
    with pytest.raises(NotFound):
        other.keys.add(a_key(other), make_secret())


def test_the_default_tenant_is_always_there(empty_url: str) -> None:
    from tallymark.store import open_store

    with open_store(empty_url) as store:
        store.keys.add(a_key(store), make_secret())
        assert store.tenants.settings() == TenantSettings()
        assert [each.name for each in store.tenants.all()] == ["default"]


def test_a_name_is_given_once(store: Store) -> None:
    with pytest.raises(Conflict, match="there is a tenant"):
        store.keys.add_with_tenant(TenantSettings(), a_key(store), make_secret())


@pytest.mark.parametrize("name", ["A", "a b", "-a", "a_b", "x" * 41])
def test_a_name_that_is_none_is_refused(store: Store, name: str) -> None:
    other = store.for_tenant(name)
    with pytest.raises(InvalidInput, match="a tenant cannot be called"):
        other.keys.add_with_tenant(TenantSettings(), a_key(other), make_secret())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"registration": "opne"}, "registration cannot be 'opne'"),
        ({"registation": "open"}, "no setting 'registation'; did you mean 'registration'"),
        ({"agents_per_owner": 0}, "cannot be these"),
        ({"agents_per_owner": "many"}, "cannot be these"),
        ({"limits": {"read": -1}}, "cannot be these"),
    ],
)
def test_a_setting_that_cannot_be_is_refused(
    store: Store, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        store.tenants.change(changes, at=20.0)
    assert store.tenants.settings() == TenantSettings()
