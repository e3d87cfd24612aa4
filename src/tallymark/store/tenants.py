"""Tenants and their settings."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import msgspec
from sqlalchemy import (
    Column,
    PrimaryKeyConstraint,
    Table,
    select,
    update,
)

from tallymark.errors import Conflict, InvalidInput, NotFound, suggest
from tallymark.store.contests.audit_log import write_account_entry
from tallymark.store.database import TenantRows
from tallymark.store.dialects import (
    CodePointText,
    FiniteFloat,
    JsonText,
    insert_once,
    lock_rows,
    metadata,
)
from tallymark.store.retention_policy import Retention, TraceSettings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import Connection


tenants = Table(
    "tenants",
    metadata,
    Column("tenant", CodePointText, nullable=False),
    Column("settings", JsonText, nullable=False),
    Column("created_at", FiniteFloat, nullable=False),
    PrimaryKeyConstraint("tenant", name="pk_tenants"),
)
DEFAULT = "default"
"""The tenant that is always there. Its admins are the operators of the server."""
Registration = Literal["closed", "invitation", "open"]
DEFAULT_REGISTRATION: Registration = "invitation"
_Count = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
_Rate = Annotated[int, msgspec.Meta(ge=1, le=10_000_000)]
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,38}[a-z0-9]")


class TenantSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of a tenant."""

    registration: Registration = DEFAULT_REGISTRATION
    """How agents are registered: by organisers (closed), with an invitation, or openly."""
    agents_per_owner: _Count = 20
    """Maximal number of agents that an owner may register; organisers may add more."""
    registrations_per_address: _Count = 5
    """Maximal number of open registrations from one address within a day."""
    limits: dict[str, _Rate] = {}
    """Requests a minute by class of routes, where the tenant has others than the server's."""
    traces: TraceSettings = TraceSettings()
    """Retention and redaction of production traces."""
    retention: Retention = Retention()
    """Retention of everything else."""


class Tenant(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    settings: TenantSettings
    created_at: float


class Tenants(TenantRows):
    """The store's own tenant, and for operators all tenants."""

    def settings(self) -> TenantSettings:
        with self._database.read() as connection:
            return read_settings(connection, self._tenant)

    def change(self, changes: Mapping[str, Any], *, at: float) -> TenantSettings:
        """Change settings by name; None restores a default."""

        def work(connection: Connection) -> TenantSettings:
            before = lock_tenant(connection, self._tenant, at)
            after = change_settings(before, changes)
            if after != before:
                values = {"settings": msgspec.to_builtins(after)}
                connection.execute(
                    update(tenants).where(tenants.c.tenant == self._tenant).values(values)
                )
                note = {name: msgspec.to_builtins(getattr(after, name)) for name in changes}
                write_account_entry(connection, self._tenant, "tenant changed", at, **note)
            return after

        return self._database.write(work)

    def all(self) -> list[Tenant]:
        """Every tenant of the database by name: for operators alone."""
        query = select(tenants).order_by(tenants.c.tenant)
        with self._database.read() as connection:
            return [
                Tenant(
                    name=row.tenant,
                    settings=msgspec.convert(row.settings, TenantSettings),
                    created_at=row.created_at,
                )
                for row in connection.execute(query)
            ]


def create_tenant(connection: Connection, name: str, settings: TenantSettings, at: float) -> None:
    """Make a tenant, in a transaction with its first key."""
    if not _NAME.fullmatch(name):
        raise InvalidInput(
            f"a tenant cannot be called {name!r}",
            hint="use 2 to 40 of a-z, 0-9 and '-', the first and the last a letter or a digit",
        )
    row = {"tenant": name, "settings": msgspec.to_builtins(settings), "created_at": at}
    if name == DEFAULT or not insert_once(connection, tenants, row):
        raise Conflict(f"there is a tenant {name!r} already", hint="choose another name")
    write_account_entry(connection, name, "tenant created", at)


def lock_tenant(connection: Connection, name: str, at: float) -> TenantSettings:
    """Settings of a tenant, its row locked so that quotas are counted one at a time.

    The default tenant's row is made when it is first needed.
    """
    if name == DEFAULT:
        insert_once(connection, tenants, {"tenant": name, "settings": {}, "created_at": at})
    query = lock_rows(select(tenants.c.settings).where(tenants.c.tenant == name))
    return _read(connection.scalars(query).all(), connection, name)


def read_settings(connection: Connection, name: str) -> TenantSettings:
    found = connection.scalars(select(tenants.c.settings).where(tenants.c.tenant == name)).all()
    return TenantSettings() if not found and name == DEFAULT else _read(found, connection, name)


def _read(found: Any, connection: Connection, name: str) -> TenantSettings:
    if not found:
        known = list(connection.scalars(select(tenants.c.tenant)))
        close = suggest(name, [*known, DEFAULT])
        make = f"make it with: tally admin tenants create {name}"
        hint = f"did you mean {close!r}?" if close else make
        raise NotFound(f"there is no tenant {name!r}", hint=hint)
    return msgspec.convert(found[0], TenantSettings)


def change_settings(before: TenantSettings, changes: Mapping[str, Any]) -> TenantSettings:
    """Return the settings with some changed; None restores a default."""
    known = TenantSettings.__struct_fields__
    for name in changes:
        if name not in known:
            close = suggest(name, known)
            hint = f"did you mean {close!r}?" if close else f"there is {', '.join(known)}"
            raise InvalidInput(f"a tenant has no setting {name!r}", hint=hint)
    registration = changes.get("registration") or DEFAULT_REGISTRATION
    if registration not in get_args(Registration):
        hint = "write closed, invitation or open"
        raise InvalidInput(f"registration cannot be {registration!r}", hint=hint)
    kept = {
        name: value
        for name, value in {**msgspec.to_builtins(before), **changes}.items()
        if value is not None
    }
    try:
        return msgspec.convert(kept, TenantSettings)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"the tenant's settings cannot be these: {error}") from None
