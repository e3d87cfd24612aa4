"""Leases: which process works on a subject, and until when, by the database's clock.

A lease is claimed, renewed while the work goes on, and given back. One that has run out, or whose
process has ended on this machine, can be claimed by another. Results are stored in a transaction
that holds the lease: a process that lost its lease stores nothing. See
docs/decisions/0026-leases.md.
"""

from __future__ import annotations

import getpass
import os
import platform
import secrets
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from sqlalchemy import (
    Column,
    Index,
    PrimaryKeyConstraint,
    Table,
    delete,
    literal_column,
    select,
)

from tallymark.errors import InvalidInput, LeaseLost
from tallymark.store.dialects import CodePointText, FiniteFloat, JsonText, json_text, metadata
from tallymark.store.quick_statements import QuickStatements
from tallymark.text import format_utc_moment

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection

SECONDS = 60
"""Seconds until a lease that is not renewed runs out."""
RENEWED_AFTER = 20.0
"""Seconds after which a lease is renewed without other writes."""
_UNNAMED = {"work": "the same work"}
"""Kinds whose subjects are hashes, which are not shown."""
_NOW = {
    # To the millisecond; `unixepoch('subsec')` is younger than the SQLite of many systems.
    "sqlite": "((julianday('now') - 2440587.5) * 86400.0)",
    # Not `now()`, which stands still while a transaction waits for a lock.
    "postgresql": "extract(epoch FROM clock_timestamp())::float8",
}
# One statement: of two concurrent claims, the later finds the row of the other. Our own token
# exists already when a claim is repeated after a lost connection.
_CLAIM = {
    name: "INSERT INTO leases (tenant, kind, subject, token, holder, claimed_at, expires_at)"  # noqa: S608
    f" VALUES (?, ?, ?, ?, ?, {now}, {now} + {SECONDS})"
    " ON CONFLICT (tenant, kind, subject) DO UPDATE SET token = excluded.token,"
    " holder = excluded.holder, claimed_at = excluded.claimed_at,"
    " expires_at = excluded.expires_at"
    f" WHERE leases.expires_at <= {now} OR leases.token IN (excluded.token, ?) RETURNING token"
    for name, now in _NOW.items()
}
_HOLD = {
    name: f"UPDATE leases SET expires_at = {now} + ?"  # noqa: S608
    " WHERE tenant = ? AND kind = ? AND subject = ? AND token = ?"
    for name, now in _NOW.items()
}
try:
    _MACHINE = "{} {}".format(
        Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip(),
        Path("/proc/self/ns/pid").readlink(),
    )
except OSError:  # not Linux: there, only time shows that a process has ended
    _MACHINE = ""

leases = Table(
    "leases",
    metadata,
    Column("tenant", CodePointText, nullable=False),
    Column("kind", CodePointText, nullable=False),
    Column("subject", CodePointText, nullable=False),
    Column("token", CodePointText, nullable=False),
    Column("holder", JsonText, nullable=False),
    Column("claimed_at", FiniteFloat, nullable=False),
    Column("expires_at", FiniteFloat, nullable=False),
    PrimaryKeyConstraint("tenant", "kind", "subject", name="pk_leases"),
    Index("ix_leases_expiry", "tenant", "kind", "expires_at"),
)


class Holder(msgspec.Struct, frozen=True):
    """The process that has a lease."""

    user: str
    host: str
    process: int
    machine: str
    """This boot of this machine, as its containers see it: process numbers are unique in there."""
    started: str
    """When it began, in the kernel's ticks, since its number may be given to another one later."""

    def __str__(self) -> str:
        return f"{self.user} on {self.host}, process {self.process}"

    @property
    def is_gone(self) -> bool:
        """Return whether the process is known to have ended; never so for another machine's."""
        if not self.machine or (self.host, self.machine) != (platform.node(), _MACHINE):
            return False
        try:
            os.kill(self.process, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            pass  # another user's, and alive
        return describe_process(self.process).started not in (self.started, "")


class Lease(msgspec.Struct, frozen=True):
    """Claim of one worker to one subject, identified by its token."""

    tenant: str
    kind: str
    subject: str
    token: str = msgspec.field(default_factory=lambda: secrets.token_hex(16))

    def claim(self, connection: Connection, *, gone: str | None = None) -> None:
        """Claim the lease, or refuse and name its holder; `gone` is the token of a holder that has
        ended.
        """
        holder = json_text(describe_process(os.getpid()))
        values = (*msgspec.structs.astuple(self), holder, gone or self.token)
        if QuickStatements(connection).read(_CLAIM[connection.dialect.name], *values):
            return
        token, other, since = self._read_holder(connection)
        if other.is_gone and gone is None:
            self.claim(connection, gone=token)
            return
        raise InvalidInput(
            f"{self._called} is held by {other}, since {since}",
            hint=f"wait for it, or stop it; a process that has died lets go within {SECONDS} s",
        )

    def hold(self, connection: Connection, *, seconds: float = SECONDS) -> None:
        """Renew the lease, locked until the transaction ends; `seconds=0` gives it back.

        The row stays, so that a worker whose lease was taken over and given back learns of it.
        """
        statement, values = _HOLD[connection.dialect.name], msgspec.structs.astuple(self)
        if not QuickStatements(connection).run(statement, seconds, *values):
            _, holder, since = self._read_holder(connection)
            raise LeaseLost(
                f"{self._called} was taken over by {holder}, at {since}",
                hint="what is done here from then on is not stored",
            )

    def remove(self, connection: Connection) -> None:
        """Delete the row, together with its subject."""
        connection.execute(delete(leases).where(*self._list_conditions()))

    @property
    def _called(self) -> str:
        return _UNNAMED.get(self.kind, f"the {self.kind} {self.subject}")

    def _list_conditions(self) -> list[ColumnElement[bool]]:
        names = [column.name for column in leases.primary_key]
        return [leases.c[name] == getattr(self, name) for name in names]

    def _read_holder(self, connection: Connection) -> tuple[str, Holder, str]:
        """The current token, holder and time of the claim."""
        columns = (leases.c.token, leases.c.holder, leases.c.claimed_at)
        row = connection.execute(select(*columns).where(*self._list_conditions())).one_or_none()
        if row is None:
            raise LeaseLost(f"{self._called} was removed meanwhile")
        return row.token, msgspec.convert(row.holder, Holder), format_utc_moment(row.claimed_at)


def read_clock(connection: Connection) -> ColumnElement[float]:
    """Time of the database's clock when the statement runs."""
    return literal_column(_NOW[connection.dialect.name], FiniteFloat)


def find_live(connection: Connection, tenant: str, kind: str) -> list[str]:
    """Subjects of leases that have not run out and whose process has not ended."""
    live = leases.c.expires_at > read_clock(connection)
    query = select(leases.c.subject, leases.c.holder).where(live)
    rows = connection.execute(query.filter_by(tenant=tenant, kind=kind))
    return [subject for subject, held in rows if not msgspec.convert(held, Holder).is_gone]


def describe_process(number: int) -> Holder:
    """Describe a process of this machine; `user` is reliable only for this process."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a number without a name, as in many containers
        user = f"user {os.getuid()}"
    started = ""
    with suppress(OSError):
        told = Path(f"/proc/{number}/stat").read_text("utf-8", "replace")
        # Behind the name of the program, which may hold anything: its state, and much more.
        fields = told.rpartition(")")[2].split()
        started = "ended" if fields[0] in "ZX" else fields[19]
    return Holder(user, platform.node(), number, _MACHINE, started)
