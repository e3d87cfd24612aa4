"""The audit log: every change of an attempt or a challenge, never changed itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from sqlalchemy import insert, select

from tallymark.store.contests.contest_tables import contest_audit as table

if TYPE_CHECKING:
    from sqlalchemy import Connection

SYSTEM = "system"
"""Who acts when no agent does."""
HIDDEN = "hidden"
"""In a note: what organisers alone may read, such as the words of a script that knows the truth."""


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One change: when, by whom, what, and from which state to which."""

    at: float
    actor: str
    event: str
    before: str | None = None
    after: str | None = None
    note: dict[str, Any] | None = None

    def without_hidden(self) -> AuditEntry:
        """As anybody may read it."""
        if not self.note or HIDDEN not in self.note:
            return self
        shown = {name: value for name, value in self.note.items() if name != HIDDEN}
        return msgspec.structs.replace(self, note=shown)


def write_entry(
    connection: Connection, tenant: str, challenge_id: int, attempt: int | None, entry: AuditEntry
) -> None:
    """Adds an entry for an attempt, or for the whole challenge."""
    row = {"tenant": tenant, "challenge_id": challenge_id, "attempt": attempt}
    connection.execute(insert(table).values(row | msgspec.structs.asdict(entry)))


def read_entries(
    connection: Connection, tenant: str, challenge_id: int, attempt: int | None
) -> list[AuditEntry]:
    """The entries of an attempt, or those for the whole challenge, oldest first."""
    fields = AuditEntry.__struct_fields__
    query = (
        select(*(table.c[name] for name in fields))
        .where(table.c.tenant == tenant, table.c.challenge_id == challenge_id)
        .where(table.c.attempt == attempt)
        .order_by(table.c.seq)
    )
    rows = connection.execute(query)
    return [AuditEntry(**dict(zip(fields, row, strict=True))) for row in rows]
