"""Invitations and open registration: how new users get agents and keys.

A registration holds the lock of the tenant's row until it is done, so every use and every quota is
counted once, however many come together.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

import msgspec
from sqlalchemy import (
    Column,
    Index,
    Integer,
    PrimaryKeyConstraint,
    Table,
    insert,
    select,
    update,
)

from tallymark.errors import Conflict, InvalidInput, NotAllowed, NotFound, TooMany
from tallymark.store.contests.agents import count_agents, is_agent_known
from tallymark.store.contests.audit_log import write_account_entry
from tallymark.store.database import TenantRows
from tallymark.store.dialects import (
    CodePointText,
    FiniteFloat,
    RowKey,
    insert_once,
    lock_rows,
    metadata,
)
from tallymark.store.keys import (
    Key,
    add_key,
    check_owner,
    describe_holder,
    find_key,
    hash_secret,
    is_key_known,
    is_owner_known,
)
from tallymark.store.tenants import TenantSettings, lock_tenant
from tallymark.text import shorten

if TYPE_CHECKING:
    from sqlalchemy import Connection


invitation_rows = Table(
    "invitations",
    metadata,
    Column("id", CodePointText, nullable=False),
    Column("tenant", CodePointText, nullable=False),
    Column("hash", CodePointText, nullable=False),
    Column("role", CodePointText, nullable=False),
    Column("owner", CodePointText),  # if NULL, the accepting person chooses one
    Column("uses_left", Integer, nullable=False),
    Column("expires_at", FiniteFloat, nullable=False),
    Column("made_by", CodePointText, nullable=False),
    Column("created_at", FiniteFloat, nullable=False),
    Column("revoked_at", FiniteFloat),
    PrimaryKeyConstraint("id", name="pk_invitations"),
    Index("ux_invitations_hash", "hash", unique=True),
    Index("ix_invitations_tenant", "tenant", "created_at"),
)


# Open registrations, for the quotas of addresses.
registrations = Table(
    "registrations",
    metadata,
    Column("id", RowKey, primary_key=True),
    Column("tenant", CodePointText, nullable=False),
    Column("address", CodePointText, nullable=False),
    Column("at", FiniteFloat, nullable=False),
    Index("ix_registrations_address", "tenant", "address", "at"),
    sqlite_autoincrement=True,
)
PREFIX = "tli_"
_DAY = 86_400.0


class Invitation(msgspec.Struct, frozen=True, kw_only=True):
    """An invitation without its secret."""

    id: str
    tenant: str
    role: str
    owner: str | None = None
    uses_left: int
    expires_at: float
    made_by: str
    created_at: float
    revoked_at: float | None = None


_FIELDS = [invitation_rows.c[name] for name in Invitation.__struct_fields__]


def make_invitation(**fields: Any) -> Invitation:
    """Make an invitation that is not stored yet."""
    if fields.get("owner") is not None:
        check_owner(fields["owner"])
    if fields["uses_left"] < 1:
        raise InvalidInput("an invitation needs at least one use", hint="allow 1 use or more")
    if fields["expires_at"] <= fields["created_at"]:
        raise InvalidInput("the invitation would have expired already", hint="name a later time")
    return Invitation(id=f"inv_{secrets.token_hex(8)}", **fields)


class Invitations(TenantRows):
    def add(self, invitation: Invitation, text: str) -> None:
        def work(connection: Connection) -> None:
            lock_tenant(connection, self._tenant, invitation.created_at)
            row = msgspec.structs.asdict(invitation) | {"hash": hash_secret(text)}
            if not insert_once(connection, invitation_rows, row):  # a lost connection had committed
                return
            facts = {"invitation": invitation.id, "role": invitation.role}
            facts |= {} if invitation.owner is None else {"owner": invitation.owner}
            at = invitation.created_at
            write_account_entry(
                connection, self._tenant, "invited", at, **facts, uses=invitation.uses_left
            )

        self._database.write(work)

    def find(self, text: str) -> Invitation | None:
        """Find the invitation with this secret, of any tenant."""
        if not self._database.look():
            return None
        query = select(*_FIELDS).where(invitation_rows.c.hash == hash_secret(text))
        with self._database.read() as connection:
            row = connection.execute(query).mappings().one_or_none()
        return None if row is None else Invitation(**row)

    def all(self) -> list[Invitation]:
        """The invitations of the tenant, oldest first."""
        query = select(*_FIELDS).where(invitation_rows.c.tenant == self._tenant)
        with self._database.read() as connection:
            rows = connection.execute(
                query.order_by(invitation_rows.c.created_at, invitation_rows.c.id)
            ).mappings()
            return [Invitation(**row) for row in rows]

    def revoke(self, invitation_id: str, *, at: float) -> Invitation:
        """Revoke an invitation; keys made with it stay."""

        def work(connection: Connection) -> Invitation:
            mine = (invitation_rows.c.tenant == self._tenant) & (
                invitation_rows.c.id == invitation_id
            )
            change = (
                update(invitation_rows)
                .where(mine, invitation_rows.c.revoked_at.is_(None))
                .values(revoked_at=at)
            )
            if connection.execute(change).rowcount:
                note = {"invitation": invitation_id}
                write_account_entry(connection, self._tenant, "invitation revoked", at, **note)
            row = connection.execute(select(*_FIELDS).where(mine)).mappings().one_or_none()
            if row is None:
                raise NotFound(
                    f"there is no invitation {shorten(invitation_id, 40)!r}", hint="list them"
                )
            return Invitation(**row)

        return self._database.write(work)

    def accept(self, invitation: Invitation, key: Key, text: str, *, at: float) -> Key:
        """Take one use of an invitation for a key and its agent, in one transaction.

        The same secret again returns its key and takes no further use.
        """

        def work(connection: Connection) -> Key:
            settings = lock_tenant(connection, self._tenant, at)
            if (known := find_key(connection, text)) is not None:
                if describe_holder(known) != describe_holder(key):
                    raise Conflict("this key is another's already", hint="make a new one")
                return known
            if settings.registration == "closed":
                raise NotAllowed("registration is closed", hint="ask the organisers")
            _take_use(connection, invitation, at)
            if invitation.owner is None:
                _refuse_taken_owner(connection, key)
            _register(connection, settings, key, text)
            facts = {"invitation": invitation.id, "key": key.id, "owner": key.owner}
            facts |= {} if key.agent is None else {"agent": key.agent}
            write_account_entry(connection, self._tenant, "invitation accepted", at, **facts)
            return key

        return self._database.write(work)

    def register(self, key: Key, text: str, *, address: str, known_owner: bool, at: float) -> None:
        """Store a key and its agent for an open registration; `known_owner` if the owner was
        proved.

        Addresses and owners have quotas.
        """

        def work(connection: Connection) -> None:
            settings = lock_tenant(connection, self._tenant, at)
            if is_key_known(connection, key):  # as above
                return
            if settings.registration != "open":
                raise NotAllowed(
                    "agents cannot be registered here without an invitation",
                    hint="ask the organisers for one",
                )
            if not known_owner:
                _refuse_taken_owner(connection, key)
            self._count_address(connection, settings, address, at)
            _register(connection, settings, key, text)
            facts = {"key": key.id, "owner": key.owner, "agent": key.agent}
            write_account_entry(connection, self._tenant, "registered", at, **facts)

        self._database.write(work)

    def _count_address(
        self, connection: Connection, settings: TenantSettings, address: str, at: float
    ) -> None:
        mine = (registrations.c.tenant == self._tenant, registrations.c.address == address)
        query = select(registrations.c.at).where(*mine, registrations.c.at > at - _DAY)
        earlier = sorted(connection.scalars(query))
        most = settings.registrations_per_address
        if len(earlier) >= most:
            raise TooMany(
                f"{most} agents were registered from this address within a day",
                hint="wait, or ask the organisers for an invitation",
                retry_after=max(1.0, earlier[-most] + _DAY - at),
            )
        row = {"tenant": self._tenant, "address": address, "at": at}
        connection.execute(insert(registrations).values(row))


def _take_use(connection: Connection, invitation: Invitation, at: float) -> None:
    row = connection.execute(
        lock_rows(select(*_FIELDS).where(invitation_rows.c.id == invitation.id))
    ).one()
    if row.revoked_at is not None or row.expires_at <= at:
        raise NotAllowed("the invitation is over", hint="ask for another one")
    if row.uses_left < 1:
        raise Conflict("the invitation was used up", hint="ask for another one")
    fewer = update(invitation_rows).where(invitation_rows.c.id == invitation.id)
    connection.execute(fewer.values(uses_left=invitation_rows.c.uses_left - 1))


def _refuse_taken_owner(connection: Connection, key: Key) -> None:
    taken = is_owner_known(connection, key.tenant, key.owner)
    if taken or count_agents(connection, key.tenant, key.owner):
        raise Conflict(
            f"there is an owner {key.owner!r} already",
            hint="choose another name; if it is yours, register with a key of yours",
        )


def _register(connection: Connection, settings: TenantSettings, key: Key, text: str) -> None:
    if key.agent is not None:
        if is_agent_known(connection, key.tenant, key.agent):
            raise Conflict(f"there is an agent {key.agent!r} already", hint="choose another handle")
        most = settings.agents_per_owner
        if count_agents(connection, key.tenant, key.owner) >= most:
            raise Conflict(
                f"{key.owner} has {most} agents, and may not have more", hint="ask the organisers"
            )
    add_key(connection, key, text)
