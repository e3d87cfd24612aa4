"""Keys in the database: made, found by their hash, rotated and revoked.

A key finds its tenant, so finding one is the one query that asks for no tenant.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from typing import TYPE_CHECKING, Any

import msgspec
from sqlalchemy import delete, func, insert, or_, select, update

from tallymark.errors import Conflict, InvalidInput, NotFound
from tallymark.store.accounts.account_tables import keys as table
from tallymark.store.accounts.account_tables import sessions
from tallymark.store.accounts.tenants import TenantSettings, create_tenant, lock_tenant
from tallymark.store.contests.agents import claim_agent
from tallymark.store.contests.audit_log import write_account_entry
from tallymark.store.database import TenantRows
from tallymark.store.database_dialects import insert_once
from tallymark.text import shorten

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sqlalchemy import ColumnElement, Connection

PREFIX = "tly_"
USED_AFTER = 3600.0
"""Seconds after which the use of a key is written down again."""
_OWNER = re.compile(r"[a-z0-9][a-z0-9._@+-]{0,98}[a-z0-9]")
_LONGEST_NAME = 100


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a key, without the key."""

    id: str
    tenant: str
    name: str
    owner: str
    role: str
    agent: str | None = None
    created_at: float
    expires_at: float | None = None
    revoked_at: float | None = None
    last_used_at: float | None = None
    replaced_by: str | None = None

    def is_valid(self, at: float) -> bool:
        """Whether it opens anything."""
        expired = self.expires_at is not None and at >= self.expires_at
        return self.revoked_at is None and not expired


_FIELDS = [table.c[name] for name in Key.__struct_fields__]


def make_secret(prefix: str = PREFIX) -> str:
    """What nobody can guess: a key, an invitation or a session."""
    return prefix + secrets.token_urlsafe(32)


def hash_secret(text: str) -> str:
    """What is kept of it."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def make_record(**fields: Any) -> Key:
    """A key that is not stored yet; names that cannot be used are refused."""
    check_owner(fields["owner"])
    name = fields["name"]
    if not (name.strip() and name.isprintable() and len(name) <= _LONGEST_NAME):
        raise InvalidInput(
            f"a key cannot be called {shorten(name, 40)!r}",
            hint=f"give 1 to {_LONGEST_NAME} characters that can be seen",
        )
    return Key(id=f"key_{secrets.token_hex(8)}", **fields)


def check_owner(owner: str) -> None:
    """Refuses what no owner can be called."""
    if not _OWNER.fullmatch(owner):
        raise InvalidInput(
            f"{shorten(owner, 60)!r} cannot be an owner",
            hint="use 2 to 100 of a-z, 0-9, '.', '_', '@', '+' and '-',"
            " the first and the last a letter or a digit",
        )


class Keys(TenantRows):
    """What `store.keys` is."""

    def find(self, text: str) -> Key | None:
        """The key that this is, of whichever tenant."""
        return self.find_by_hash(hash_secret(text))

    def find_by_hash(self, digest: str) -> Key | None:
        """The same, where the hash is known."""
        if not self._database.look():
            return None
        with self._database.read() as connection:
            return _find_by_hash(connection, digest)

    def get(self, key_id: str) -> Key:
        """A key by its id."""
        with self._database.read() as connection:
            return _require(connection, self._tenant, key_id)

    def all(self, *, owner: str | None = None, agent: str | None = None) -> list[Key]:
        """The keys of the tenant, or of one owner or agent in it, oldest first."""
        wanted = {"tenant": self._tenant, "owner": owner, "agent": agent}
        where = [table.c[name] == value for name, value in wanted.items() if value is not None]
        query = select(*_FIELDS).where(*where).order_by(table.c.created_at, table.c.id)
        with self._database.read() as connection:
            return [Key(**row) for row in connection.execute(query).mappings()]

    def add(self, record: Key, text: str) -> None:
        """Keeps a new key. One for an agent makes the agent its owner's, if it is nobody's yet."""

        def work(connection: Connection) -> None:
            lock_tenant(connection, self._tenant, record.created_at)
            add_key(connection, record, text)

        self._database.write(work)

    def add_with_tenant(self, settings: TenantSettings, record: Key, text: str) -> None:
        """Makes the tenant, and keeps its first key."""

        def work(connection: Connection) -> None:
            if not is_key_known(connection, record):
                create_tenant(connection, self._tenant, settings, record.created_at)
                add_key(connection, record, text)

        self._database.write(work)

    def add_first_admin(self, record: Key, text: str) -> bool:
        """Keeps the key of an admin unless there is one; False where somebody was quicker."""

        def work(connection: Connection) -> bool:
            lock_tenant(connection, self._tenant, record.created_at)
            late = or_(table.c.expires_at.is_(None), table.c.expires_at > record.created_at)
            others = select(func.count()).where(
                *(table.c.tenant == self._tenant, table.c.role == "admin"),
                *(table.c.revoked_at.is_(None), late),
            )
            if connection.scalar(others):
                return False
            add_key(connection, record, text)
            return True

        return self._database.write(work)

    def add_given(self, record: Key, text: str) -> Key:
        """Keeps a key that somebody else made, or finds it where it is kept already."""
        digest = hash_secret(text)

        def work(connection: Connection) -> Key:
            lock_tenant(connection, self._tenant, record.created_at)
            if insert_once(connection, table, msgspec.structs.asdict(record) | {"hash": digest}):
                _write_entry(connection, record, "key created", record.created_at)
            query = select(*_FIELDS).where(table.c.hash == digest)
            return Key(**connection.execute(query).mappings().one())

        return self._database.write(work)

    def rotate(self, old: Key, new: Key, text: str, *, until: float) -> None:
        """Keeps a key in the place of another, which is good until then: of two, one does so."""
        ends = until if old.expires_at is None else min(until, old.expires_at)

        def work(connection: Connection) -> None:
            mine = _is_key(self._tenant, old.id)
            unused = (table.c.replaced_by.is_(None), table.c.revoked_at.is_(None))
            change = {"replaced_by": new.id, "expires_at": ends}
            if not connection.execute(update(table).where(mine, *unused).values(change)).rowcount:
                if _require(connection, self._tenant, old.id).replaced_by == new.id:
                    return  # a connection was lost, and this is the second try
                raise Conflict(
                    f"the key {old.id} was rotated or revoked before", hint="list the keys"
                )
            row = msgspec.structs.asdict(new) | {"hash": hash_secret(text)}
            connection.execute(insert(table).values(row))
            _write_entry(connection, new, "key rotated", new.created_at, replaces=old.id)

        self._database.write(work)

    def revoke(self, key_id: str, *, at: float) -> Key:
        """From now on the key opens nothing, and nobody is signed in by it."""

        def work(connection: Connection) -> Key:
            found = _require(connection, self._tenant, key_id)
            unrevoked = (_is_key(self._tenant, key_id), table.c.revoked_at.is_(None))
            done = connection.execute(update(table).where(*unrevoked).values(revoked_at=at))
            if done.rowcount:
                connection.execute(delete(sessions).where(sessions.c.key_id == key_id))
                _write_entry(connection, found, "key revoked", at)
            return _require(connection, self._tenant, key_id)

        return self._database.write(work)

    def mark_used(self, key_id: str, *, at: float) -> None:
        """Writes down that the key was used, unless that was done within the hour."""
        old = or_(table.c.last_used_at.is_(None), table.c.last_used_at <= at - USED_AFTER)
        change = update(table).where(_is_key(self._tenant, key_id), old).values(last_used_at=at)
        self._database.write(lambda c: c.execute(change))


def add_key(connection: Connection, record: Key, text: str) -> None:
    """Keeps a new key, in a transaction that holds the tenant's row."""
    if record.agent is not None:
        claim_agent(
            connection, record.tenant, record.agent, owner=record.owner, at=record.created_at
        )
    row = msgspec.structs.asdict(record) | {"hash": hash_secret(text)}
    if insert_once(connection, table, row):  # it is there when a lost connection had committed
        _write_entry(connection, record, "key created", record.created_at)


def find_key(connection: Connection, text: str) -> Key | None:
    """The key that this is, of whichever tenant."""
    return _find_by_hash(connection, hash_secret(text))


def _find_by_hash(connection: Connection, digest: str) -> Key | None:
    query = select(*_FIELDS).where(table.c.hash == digest)
    row = connection.execute(query).mappings().one_or_none()
    return None if row is None else Key(**row)


def describe_holder(record: Key) -> tuple[str, str, str, str | None]:
    """Whose key it is, and for what."""
    return record.tenant, record.owner, record.role, record.agent


def is_key_known(connection: Connection, record: Key) -> bool:
    """Whether this very key is kept."""
    found = connection.scalar(select(table.c.id).where(_is_key(record.tenant, record.id)))
    return found is not None


def is_owner_known(connection: Connection, tenant: str, owner: str) -> bool:
    """Whether anybody has, or had, a key as this owner."""
    mine = (table.c.tenant == tenant, table.c.owner == owner)
    return connection.scalar(select(table.c.id).where(*mine).limit(1)) is not None


def _write_entry(connection: Connection, record: Key, event: str, at: float, **more: str) -> None:
    facts: Iterable[str] = ("id", "name", "owner", "role", "agent")
    told = {name: getattr(record, name) for name in facts if getattr(record, name) is not None}
    note = {"key" if name == "id" else name: value for name, value in told.items()}
    write_account_entry(connection, record.tenant, event, at, **note, **more)


def _require(connection: Connection, tenant: str, key_id: str) -> Key:
    query = select(*_FIELDS).where(_is_key(tenant, key_id))
    row = connection.execute(query).mappings().one_or_none()
    if row is None:
        raise NotFound(f"there is no key {shorten(key_id, 40)!r}", hint="list the keys")
    return Key(**row)


def _is_key(tenant: str, key_id: str) -> ColumnElement[bool]:
    return (table.c.tenant == tenant) & (table.c.id == key_id)
