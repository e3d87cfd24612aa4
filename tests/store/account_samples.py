"""Keys to store, and tenants of their own for them."""

from __future__ import annotations

from typing import Any

from tallymark.store import Store
from tallymark.store.invitations import PREFIX, Invitation, make_invitation
from tallymark.store.keys import Key, make_record, make_secret
from tallymark.store.tenants import TenantSettings


def a_key(store: Store, **fields: Any) -> Key:
    """A key that is not stored."""
    plain: dict[str, Any] = {"name": "ci", "owner": "alice", "role": "reporter", "created_at": 10.0}
    return make_record(tenant=store.tenant, **{**plain, **fields})


def add_key(store: Store, **fields: Any) -> tuple[Key, str]:
    """One that is, and its text."""
    record, text = a_key(store, **fields), make_secret()
    store.keys.add(record, text)
    return record, text


def an_agent_key(store: Store, owner: str, agent: str) -> Key:
    return a_key(store, owner=owner, role="agent", agent=agent)


def add_invitation(store: Store, **fields: Any) -> Invitation:
    """An invitation of an agent, good until 1000."""
    plain: dict[str, Any] = {"role": "agent", "uses_left": 1, "expires_at": 1000.0}
    plain |= {"made_by": "organiser alice", "created_at": 10.0}
    made = make_invitation(tenant=store.tenant, **{**plain, **fields})
    store.invitations.add(made, make_secret(PREFIX))
    return made


def make_tenant(store: Store, **settings: Any) -> None:
    """The store's own tenant, with its first admin."""
    record = a_key(store, role="admin", owner="operator", name="first key")
    store.keys.add_with_tenant(TenantSettings(**settings), record, make_secret())
