"""The audit log: every change of an attempt, a challenge or an agent, never changed itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from sqlalchemy import insert, select

from tallymark.errors import InvalidInput
from tallymark.store.actors import Actor, find_actor
from tallymark.store.column_types import make_storable
from tallymark.store.contests.attempt_tables import attempt_id, attempts
from tallymark.store.contests.contest_tables import challenges
from tallymark.store.contests.contest_tables import contest_audit as table
from tallymark.store.database import TenantRows

if TYPE_CHECKING:
    from sqlalchemy import Connection

SYSTEM = "system"
"""Who acts when no agent does."""
HIDDEN = "hidden"
"""In a note: what organisers alone may read, such as the words of a script that knows the truth."""
ORGANISER = "organiser"
_NO_CHALLENGE = 0
_LONGEST_REASON = 2000
_OF_ATTEMPTS = ("voided", "unvoided")


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
    connection.execute(insert(table).values(row | make_row(entry, find_actor())))


def make_row(entry: AuditEntry, actor: Actor | None) -> dict[str, Any]:
    """The columns of an entry: of what somebody did through a server, who and from where."""
    row = msgspec.structs.asdict(entry)
    if actor is None or entry.actor == SYSTEM:
        return row | {"address": None}
    return row | {"actor": actor.name, "address": actor.address}


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


class LogEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One act on a challenge as a whole, on an attempt as an organiser, or on an agent."""

    at: float
    actor: str
    event: str
    challenge: str | None = None
    attempt: str | None = None
    agent: str | None = None
    note: dict[str, Any] | None = None


class AuditLog(TenantRows):
    """What `store.audit_log` is: what was done, by whom and why. Of attempts, organisers' acts."""

    def entries(
        self, *, challenge: str | None = None, agent: str | None = None, limit: int = 100
    ) -> list[LogEntry]:
        """Newest first; of a challenge or an agent, if one is named."""
        query = (
            select(table, challenges.c.name, attempts.c.agent)
            .outerjoin(challenges, challenges.c.id == table.c.challenge_id)
            .outerjoin(attempts, attempts.c.key == table.c.attempt)
            .where(table.c.tenant == self._tenant)
            .where(table.c.attempt.is_(None) | table.c.event.in_(_OF_ATTEMPTS))
            .order_by(table.c.seq.desc())
        )
        found: list[LogEntry] = []
        with self._database.read() as connection:
            for row in connection.execute(query):
                note = dict(row.note or {})
                entry = LogEntry(
                    at=row.at,
                    actor=row.actor,
                    event=row.event,
                    challenge=row.name,
                    attempt=None if row.attempt is None else attempt_id(row.attempt),
                    agent=note.pop("agent", row.agent),
                    note=note or None,
                )
                named = challenge in (None, entry.challenge) and agent in (None, entry.agent)
                if named and len(found) < limit:
                    found.append(entry)
        return found


def make_act(event: str, reason: str, at: float, **note: Any) -> AuditEntry:
    """The entry for what an organiser does; one without a reason is refused."""
    if not reason.strip() or len(reason) > _LONGEST_REASON:
        raise InvalidInput(
            f"what an organiser does needs a reason of 1 to {_LONGEST_REASON} characters",
            hint='as in --reason "the data were broken"',
        )
    why = {"reason": make_storable(reason.strip())}
    return AuditEntry(at=at, actor=ORGANISER, event=event, note=note | why)


def write_agent_entry(connection: Connection, tenant: str, entry: AuditEntry) -> None:
    """Adds an entry for an agent, whom its note names."""
    write_entry(connection, tenant, _NO_CHALLENGE, None, entry)
