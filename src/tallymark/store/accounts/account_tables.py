"""The tables of tenants, keys and whatever else a server keeps of those who use it.

Keys, invitations and sessions are told to their owners once: what is kept is a hash. They are 32
random bytes, so a quick hash is as good as a slow one.
"""

from __future__ import annotations

from sqlalchemy import Column, Index, Integer, LargeBinary, PrimaryKeyConstraint, Table

from tallymark.store.column_types import CodePointText, FiniteFloat, JsonText, RowKey, metadata

tenants = Table(
    "tenants",
    metadata,
    Column("tenant", CodePointText, nullable=False),
    Column("settings", JsonText, nullable=False),
    Column("created_at", FiniteFloat, nullable=False),
    PrimaryKeyConstraint("tenant", name="pk_tenants"),
)

keys = Table(
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
    Column("last_used_at", FiniteFloat),  # to the hour: nobody writes for every request
    Column("replaced_by", CodePointText),  # the key that it was rotated to
    PrimaryKeyConstraint("id", name="pk_access_keys"),
    Index("ux_access_keys_hash", "hash", unique=True),
    Index("ix_access_keys_owner", "tenant", "owner"),
)

invitations = Table(
    "invitations",
    metadata,
    Column("id", CodePointText, nullable=False),
    Column("tenant", CodePointText, nullable=False),
    Column("hash", CodePointText, nullable=False),
    Column("role", CodePointText, nullable=False),
    Column("owner", CodePointText),  # whoever accepts chooses one where none is given
    Column("uses_left", Integer, nullable=False),
    Column("expires_at", FiniteFloat, nullable=False),
    Column("made_by", CodePointText, nullable=False),
    Column("created_at", FiniteFloat, nullable=False),
    Column("revoked_at", FiniteFloat),
    PrimaryKeyConstraint("id", name="pk_invitations"),
    Index("ux_invitations_hash", "hash", unique=True),
    Index("ix_invitations_tenant", "tenant", "created_at"),
)

# Who registered by themselves, for the quotas of addresses.
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

# What was answered to a request under an Idempotency-Key. Those of attempts are in `idempotency`.
idempotent_answers = Table(
    "idempotent_answers",
    metadata,
    Column("tenant", CodePointText, nullable=False),
    Column("caller", CodePointText, nullable=False),
    Column("key", CodePointText, nullable=False),
    Column("digest", CodePointText, nullable=False),  # of what was asked
    Column("at", FiniteFloat, nullable=False),
    Column("token", CodePointText, nullable=False),  # of whoever serves it
    Column("status", Integer),  # NULL while the request is being served
    Column("headers", JsonText),
    Column("body", LargeBinary),
    PrimaryKeyConstraint("tenant", "caller", "key", name="pk_idempotent_answers"),
    Index("ix_idempotent_answers_age", "tenant", "at"),
)
