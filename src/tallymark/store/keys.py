"""API keys, and the browser sessions that they open.

A key finds its tenant, so finding one is the only query without a tenant. Keys, invitations and
sessions are shown to their owners once; only a hash is stored. They are 32 random bytes, so a fast
hash is as good as a slow one.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import msgspec
from sqlalchemy import (
    Column,
    Index,
    PrimaryKeyConstraint,
    Table,
    delete,
    func,
    insert,
    or_,
    select,
    update,
)

from tallymark.errors import Conflict, InvalidInput, NotFound
from tallymark.store.contests.agents import claim_agent
from tallymark.store.contests.audit_log import write_account_entry
from tallymark.store.database import TenantRows
from tallymark.store.dialects import (
    CodePointText,
    FiniteFloat,
    insert_once,
    metadata,
)
from tallymark.store.tenants import TenantSettings, create_tenant, lock_tenant
from tallymark.text import shorten

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sqlalchemy import ColumnElement, Connection


access_keys = Table(
    "access_keys",
    metadata,
    Column("id", CodePointText, nullable=False),
    Column("tenant", CodePointText, nullable=False),
    Column("hash", CodePointText, nullable=False),
    Column("name", CodePointText, nullable=False),  # what its owner calls it
    Column("owner", CodePointText, nullable=False),
    Column("role", CodePointText, nullable=False),
    Column("agent", CodePointText),  # the one that an agent's key speaks for
    Column("created_at", FiniteFloat, nullable=False),
    Column("expires_at", FiniteFloat),
    Column("revoked_at", FiniteFloat),
    Column("last_used_at", FiniteFloat),  # to the hour, to save writes
    Column("replaced_by", CodePointText),  # the key that it was rotated to
    PrimaryKeyConstraint("id", name="pk_access_keys"),
    Index("ux_access_keys_hash", "hash", unique=True),
    Index("ix_access_keys_owner", "tenant", "owner"),
)

sessions = Table(
    "sessions",
    metadata,
    Column("hash", CodePointText, nullable=False),
    Column("tenant", CodePointText, nullable=False),
    Column("key_id", CodePointText, nullable=False),
    Column("csrf", CodePointText, nullable=False),
    Column("created_at", FiniteFloat, nullable=False),
    Column("expires_at", FiniteFloat, nullable=False),
    PrimaryKeyConstraint("hash", name="pk_sessions"),
    Index("ix_sessions_key", "key_id"),
)
PREFIX = "tly_"
USED_AFTER = 3600.0
"""Seconds after which the use of a key is written down again."""
_OWNER = re.compile(r"[a-z0-9][a-z0-9._@+-]{0,98}[a-z0-9]")
_LONGEST_NAME = 100


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """An API key without its secret."""

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
        expired = self.expires_at is not None and at >= self.expires_at
        return self.revoked_at is None and not expired


_FIELDS = [access_keys.c[name] for name in Key.__struct_fields__]


def make_secret(prefix: str = PREFIX) -> str:
    """Random secret of a key, an invitation or a session."""
    return prefix + secrets.token_urlsafe(32)


def hash_secret(text: str) -> str:
    """Hash that is stored in place of a secret."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def make_record(**fields: Any) -> Key:
    """Make a key that is not stored yet; names that cannot be used are refused."""
    check_owner(fields["owner"])
    name = fields["name"]
    if not (name.strip() and name.isprintable() and len(name) <= _LONGEST_NAME):
        raise InvalidInput(
            f"a key cannot be called {shorten(name, 40)!r}",
            hint=f"give 1 to {_LONGEST_NAME} characters that can be seen",
        )
    return Key(id=f"key_{secrets.token_hex(8)}", **fields)


def check_owner(owner: str) -> None:
    """Refuse a name that cannot be an owner's."""
    if not _OWNER.fullmatch(owner):
        raise InvalidInput(
            f"{shorten(owner, 60)!r} cannot be an owner",
            hint="use 2 to 100 of a-z, 0-9, '.', '_', '@', '+' and '-',"
            " the first and the last a letter or a digit",
        )


class Keys(TenantRows):
    def find(self, text: str) -> Key | None:
        """Find the key with this secret, of any tenant."""
        return self.find_by_hash(hash_secret(text))

    def find_by_hash(self, digest: str) -> Key | None:
        """Find a key by the hash of its secret, of any tenant."""
        if not self._database.look():
            return None
        with self._database.read() as connection:
            return _find_by_hash(connection, digest)

    def get(self, key_id: str) -> Key:
        with self._database.read() as connection:
            return _require_key(connection, self._tenant, key_id)

    def all(self, *, owner: str | None = None, agent: str | None = None) -> list[Key]:
        """The keys of the tenant, or of one owner or agent in it, oldest first."""
        wanted = {"tenant": self._tenant, "owner": owner, "agent": agent}
        where = [
            access_keys.c[name] == value for name, value in wanted.items() if value is not None
        ]
        query = select(*_FIELDS).where(*where).order_by(access_keys.c.created_at, access_keys.c.id)
        with self._database.read() as connection:
            return [Key(**row) for row in connection.execute(query).mappings()]

    def add(self, record: Key, text: str) -> None:
        """Store a new key. A key for an agent without an owner makes the agent its owner's."""

        def work(connection: Connection) -> None:
            lock_tenant(connection, self._tenant, record.created_at)
            add_key(connection, record, text)

        self._database.write(work)

    def add_with_tenant(self, settings: TenantSettings, record: Key, text: str) -> None:
        """Make the tenant and store its first key."""

        def work(connection: Connection) -> None:
            if not is_key_known(connection, record):
                create_tenant(connection, self._tenant, settings, record.created_at)
                add_key(connection, record, text)

        self._database.write(work)

    def add_first_admin(self, record: Key, text: str) -> bool:
        """Store an admin key unless there is a valid one; return whether it was stored."""

        def work(connection: Connection) -> bool:
            lock_tenant(connection, self._tenant, record.created_at)
            late = or_(
                access_keys.c.expires_at.is_(None), access_keys.c.expires_at > record.created_at
            )
            others = select(func.count()).where(
                *(access_keys.c.tenant == self._tenant, access_keys.c.role == "admin"),
                *(access_keys.c.revoked_at.is_(None), late),
            )
            if connection.scalar(others):
                return False
            add_key(connection, record, text)
            return True

        return self._database.write(work)

    def add_given(self, record: Key, text: str) -> Key:
        """Store a key that was made elsewhere, or find it if it is stored already."""
        digest = hash_secret(text)

        def work(connection: Connection) -> Key:
            lock_tenant(connection, self._tenant, record.created_at)
            if insert_once(
                connection, access_keys, msgspec.structs.asdict(record) | {"hash": digest}
            ):
                _write_entry(connection, record, "key created", record.created_at)
            query = select(*_FIELDS).where(access_keys.c.hash == digest)
            return Key(**connection.execute(query).mappings().one())

        return self._database.write(work)

    def rotate(self, old: Key, new: Key, text: str, *, until: float) -> None:
        """Replace a key, which stays valid until `until`. Of two concurrent rotations, one
        succeeds.
        """
        ends = until if old.expires_at is None else min(until, old.expires_at)

        def work(connection: Connection) -> None:
            mine = _is_key(self._tenant, old.id)
            unused = (access_keys.c.replaced_by.is_(None), access_keys.c.revoked_at.is_(None))
            change = {"replaced_by": new.id, "expires_at": ends}
            if not connection.execute(
                update(access_keys).where(mine, *unused).values(change)
            ).rowcount:
                if _require_key(connection, self._tenant, old.id).replaced_by == new.id:
                    return  # a connection was lost, and this is the second try
                raise Conflict(
                    f"the key {old.id} was rotated or revoked before", hint="list the keys"
                )
            row = msgspec.structs.asdict(new) | {"hash": hash_secret(text)}
            connection.execute(insert(access_keys).values(row))
            _write_entry(connection, new, "key rotated", new.created_at, replaces=old.id)

        self._database.write(work)

    def revoke(self, key_id: str, *, at: float) -> Key:
        """Revoke a key and end its sessions."""

        def work(connection: Connection) -> Key:
            found = _require_key(connection, self._tenant, key_id)
            unrevoked = (_is_key(self._tenant, key_id), access_keys.c.revoked_at.is_(None))
            done = connection.execute(update(access_keys).where(*unrevoked).values(revoked_at=at))
            if done.rowcount:
                connection.execute(delete(sessions).where(sessions.c.key_id == key_id))
                _write_entry(connection, found, "key revoked", at)
            return _require_key(connection, self._tenant, key_id)

        return self._database.write(work)

    def mark_used(self, key_id: str, *, at: float) -> None:
        """Note that the key was used, at most once an hour."""
        old = or_(
            access_keys.c.last_used_at.is_(None), access_keys.c.last_used_at <= at - USED_AFTER
        )
        change = (
            update(access_keys).where(_is_key(self._tenant, key_id), old).values(last_used_at=at)
        )
        self._database.write(lambda c: c.execute(change))


def add_key(connection: Connection, record: Key, text: str) -> None:
    """Store a new key in a transaction that holds the lock of the tenant's row."""
    if record.agent is not None:
        claim_agent(
            connection, record.tenant, record.agent, owner=record.owner, at=record.created_at
        )
    row = msgspec.structs.asdict(record) | {"hash": hash_secret(text)}
    if insert_once(
        connection, access_keys, row
    ):  # it is there when a lost connection had committed
        _write_entry(connection, record, "key created", record.created_at)


def find_key(connection: Connection, text: str) -> Key | None:
    """Find the key with this secret, of any tenant."""
    return _find_by_hash(connection, hash_secret(text))


def _find_by_hash(connection: Connection, digest: str) -> Key | None:
    query = select(*_FIELDS).where(access_keys.c.hash == digest)
    row = connection.execute(query).mappings().one_or_none()
    return None if row is None else Key(**row)


def describe_holder(record: Key) -> tuple[str, str, str, str | None]:
    """Fields that two keys of the same holder share."""
    return record.tenant, record.owner, record.role, record.agent


def is_key_known(connection: Connection, record: Key) -> bool:
    """Return whether this very key is stored."""
    found = connection.scalar(select(access_keys.c.id).where(_is_key(record.tenant, record.id)))
    return found is not None


def is_owner_known(connection: Connection, tenant: str, owner: str) -> bool:
    """Return whether there is or was a key of this owner."""
    mine = (access_keys.c.tenant == tenant, access_keys.c.owner == owner)
    return connection.scalar(select(access_keys.c.id).where(*mine).limit(1)) is not None


def _write_entry(connection: Connection, record: Key, event: str, at: float, **more: str) -> None:
    facts: Iterable[str] = ("id", "name", "owner", "role", "agent")
    told = {name: getattr(record, name) for name in facts if getattr(record, name) is not None}
    note = {"key" if name == "id" else name: value for name, value in told.items()}
    write_account_entry(connection, record.tenant, event, at, **note, **more)


def _require_key(connection: Connection, tenant: str, key_id: str) -> Key:
    query = select(*_FIELDS).where(_is_key(tenant, key_id))
    row = connection.execute(query).mappings().one_or_none()
    if row is None:
        raise NotFound(f"there is no key {shorten(key_id, 40)!r}", hint="list the keys")
    return Key(**row)


def _is_key(tenant: str, key_id: str) -> ColumnElement[bool]:
    return (access_keys.c.tenant == tenant) & (access_keys.c.id == key_id)


SESSION_PREFIX = "tls_"
_AT_ONCE = 500


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """A browser session without its token."""

    key: Key
    csrf: str
    """CSRF token of the session's forms."""
    created_at: float
    expires_at: float


_SESSION_KEY = [access_keys.c[name] for name in Key.__struct_fields__]


class Sessions(TenantRows):
    def add(self, session: Session, token: str) -> None:
        """Store a new session, and delete expired ones."""
        row = {
            "hash": hash_secret(token),
            "tenant": session.key.tenant,
            "key_id": session.key.id,
            "csrf": session.csrf,
            "created_at": session.created_at,
            "expires_at": session.expires_at,
        }
        key, at = session.key, session.created_at

        def work(connection: Connection) -> None:
            over = (sessions.c.key_id == key.id, sessions.c.expires_at <= at)
            connection.execute(delete(sessions).where(*over))
            if not insert_once(connection, sessions, row):  # a lost connection had committed
                return
            facts = {"key": key.id, "owner": key.owner}
            write_account_entry(connection, key.tenant, "signed in", at, **facts)

        self._database.write(work)

    def find(self, token: str) -> Session | None:
        """Find the session with this token and its key, of any tenant; it may have expired."""
        if not self._database.look():
            return None
        query = (
            select(
                *_SESSION_KEY,
                sessions.c.csrf,
                sessions.c.created_at.label("began"),
                sessions.c.expires_at,
            )
            .join(access_keys, access_keys.c.id == sessions.c.key_id)
            .where(sessions.c.hash == hash_secret(token))
        )
        with self._database.read() as connection:
            row = connection.execute(query).one_or_none()
        if row is None:
            return None
        *fields, csrf, began, until = row
        key = Key(**dict(zip(Key.__struct_fields__, fields, strict=True)))
        return Session(key=key, csrf=csrf, created_at=began, expires_at=until)

    def find_open(self, hashes: Collection[str], *, at: float) -> set[str]:
        """Select the hashes of keys and sessions, of any tenant, that are still valid."""
        valid = access_keys.c.revoked_at.is_(None) & (
            access_keys.c.expires_at.is_(None) | (access_keys.c.expires_at > at)
        )
        mine = sessions.join(access_keys, access_keys.c.id == sessions.c.key_id)
        asked, found = sorted(hashes), set[str]()
        with self._database.read() as connection:
            for start in range(0, len(asked), _AT_ONCE):
                some = asked[start : start + _AT_ONCE]
                by_key = select(access_keys.c.hash).where(access_keys.c.hash.in_(some), valid)
                by_session = (
                    select(sessions.c.hash)
                    .select_from(mine)
                    .where(sessions.c.hash.in_(some), sessions.c.expires_at > at, valid)
                )
                found.update(connection.scalars(by_key.union_all(by_session)))
        return found

    def remove(self, token: str) -> None:
        mine = sessions.c.hash == hash_secret(token)
        self._database.write(lambda c: c.execute(delete(sessions).where(mine)))

    def remove_all(self, owner: str, *, at: float) -> int:
        """End all sessions of an owner; return their number."""

        def work(connection: Connection) -> int:
            theirs = select(access_keys.c.id).where(
                access_keys.c.tenant == self._tenant, access_keys.c.owner == owner
            )
            ended = connection.execute(
                delete(sessions).where(sessions.c.key_id.in_(theirs))
            ).rowcount
            if ended:
                note = {"owner": owner, "sessions": ended}
                write_account_entry(connection, self._tenant, "signed out", at, **note)
            return ended

        return self._database.write(work)
