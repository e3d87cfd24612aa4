"""The append-only audit log: every change of an attempt, a challenge, an agent or an account.

A server sets the actor of a request with `act_as`; threads that work for the request inherit it.
Without one, as in a command, the entry names what the code knows: the agent, or an organiser.
"""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import msgspec
from sqlalchemy import select, text

from tallymark.errors import InvalidInput
from tallymark.store.contests.tables import ACTS, attempt_id, attempts, challenges, contest_audit
from tallymark.store.database import TenantRows
from tallymark.store.dialects import json_text, lock_log, make_storable
from tallymark.store.quick_statements import QuickStatements
from tallymark.store.row_numbers import take_numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sqlalchemy import ColumnElement, Connection, Row, Select


class Actor(msgspec.Struct, frozen=True):
    """The holder of an authenticated key."""

    name: str
    """The agent that the key names, or whose the key is."""
    address: str | None = None


_acting: ContextVar[Actor | None] = ContextVar("acting", default=None)


def find_actor() -> Actor | None:
    return _acting.get()


@contextmanager
def act_as(actor: Actor | None) -> Iterator[None]:
    """Attribute changes inside to this actor."""
    token = _acting.set(actor)
    try:
        yield
    finally:
        _acting.reset(token)


SYSTEM = "system"
"""The actor when no agent acts."""
HIDDEN = "hidden"
"""In a note: what organisers alone may read, such as the words of a script that knows the truth."""
ORGANISER = "organiser"
OPERATOR = "operator"
"""The actor on accounts without a key: it may write to the database."""
SENT = "sent to a side"
JUDGED = "verdicts given"
PLAYED = frozenset({SENT, JUDGED})
"""Events of red against blue: shown to watchers, and acts of no person."""
_NO_CHALLENGE = 0
_LONGEST_REASON = 2000
_AT_ONCE = 500
_COLUMNS = tuple(each.name for each in contest_audit.c)


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One change: its time, actor, event and states before and after."""

    at: float
    actor: str
    event: str
    before: str | None = None
    after: str | None = None
    note: dict[str, Any] | None = None

    def without_hidden(self) -> AuditEntry:
        """The entry as the public may read it."""
        if not self.note or HIDDEN not in self.note:
            return self
        shown = {name: value for name, value in self.note.items() if name != HIDDEN}
        return msgspec.structs.replace(self, note=shown)


def write_entry(
    connection: Connection, tenant: str, challenge_id: int, attempt: int | None, entry: AuditEntry
) -> None:
    """Add an entry for an attempt, for a whole challenge, or for none."""
    if challenge_id == _NO_CHALLENGE:
        lock_log(connection, tenant)
    who, address = make_storable(entry.actor), None
    actor = find_actor()
    if actor is not None and who != SYSTEM:
        who, address = name_place(actor)
    facts = (entry.at, who, entry.event, entry.before, entry.after)
    note = None if entry.note is None else json_text(entry.note)
    row = (tenant, challenge_id, attempt, *facts, note, address)
    write_rows(QuickStatements(connection), [row])


def write_rows(statements: QuickStatements, rows: Sequence[tuple[Any, ...]]) -> None:
    """Add entries, given as their columns except `seq`, in the order of the table."""
    counts = Counter(tenant for tenant, *_ in rows)
    numbers = {
        tenant: iter(take_numbers(statements.connection, contest_audit.name, tenant, count))
        for tenant, count in counts.items()
    }
    numbered = [(next(numbers[row[0]]), *row) for row in rows]
    statements.insert(contest_audit.name, _COLUMNS, numbered)


def name_place(actor: Actor) -> tuple[str, str | None]:
    """Name and address of an actor as they are stored."""
    address = actor.address
    return make_storable(actor.name), None if address is None else make_storable(address)


def name_actor() -> str:
    """Name of the actor; a command on one's own store acts as the organiser."""
    actor = find_actor()
    return ORGANISER if actor is None else actor.name


def read_entries(
    connection: Connection, tenant: str, challenge_id: int, attempt: int | None
) -> list[AuditEntry]:
    """The entries of an attempt, or those for the whole challenge, oldest first."""
    fields = AuditEntry.__struct_fields__
    query = (
        select(*(contest_audit.c[name] for name in fields))
        .where(contest_audit.c.tenant == tenant, contest_audit.c.challenge_id == challenge_id)
        .where(contest_audit.c.attempt == attempt)
        .order_by(contest_audit.c.seq)
    )
    rows = connection.execute(query)
    return [AuditEntry(**dict(zip(fields, row, strict=True))) for row in rows]


class LogEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An act on a whole challenge, an agent or an account, or of an organiser on an attempt."""

    seq: int
    """Later entries have greater ones."""
    at: float
    actor: str
    event: str
    challenge: str | None = None
    attempt: str | None = None
    agent: str | None = None
    note: dict[str, Any] | None = None
    address: str | None = None
    """The network address; None without a server."""

    @property
    def reason(self) -> str:
        return str((self.note or {}).get("reason") or "")

    @property
    def facts(self) -> str:
        """The rest of the note in one line."""
        return ", ".join(
            f"{'organisers only' if name == HIDDEN else name} {value}"
            for name, value in (self.note or {}).items()
            if name != "reason" and value not in (None, "")
        )


class LogFilter(TypedDict, total=False):
    """Filters of log entries; None is any."""

    challenge: str | None
    agent: str | None
    actor: str | None
    event: str | None
    since: int | None
    """A `seq`: those after it."""
    before: int | None
    """A `seq`: those before it."""
    earliest: float | None
    latest: float | None
    """Moments."""


_PASSES: dict[str, Callable[[Any], ColumnElement[bool]]] = {
    "challenge": lambda name: challenges.c.name == name,
    "actor": lambda name: contest_audit.c.actor == name,
    "event": lambda name: contest_audit.c.event == name,
    "since": lambda seq: contest_audit.c.seq > seq,
    "before": lambda seq: contest_audit.c.seq < seq,
    "earliest": lambda at: contest_audit.c.at >= at,
    "latest": lambda at: contest_audit.c.at <= at,
}


class AuditLog(TenantRows):
    """Acts with their actors and reasons. Of attempts, only acts of organisers."""

    def entries(self, *, limit: int = 100, **filters: Unpack[LogFilter]) -> list[LogEntry]:
        """Entries that pass every filter, newest first."""
        query = self._select(filters)
        agent = filters.get("agent")
        found: list[LogEntry] = []
        with (
            self._database.read() as connection,
            connection.execute(query, execution_options={"yield_per": _AT_ONCE}) as rows,
        ):
            for row in rows:
                entry = _make_log_entry(row)
                if agent in (None, entry.agent):  # of some it is in the note
                    found.append(entry)
                    if len(found) >= limit:
                        break
        return found

    def _select(self, filters: LogFilter) -> Select[Any]:
        passes = [
            _PASSES[name](value)
            for name, value in filters.items()
            if value is not None and name in _PASSES
        ]
        return (
            select(contest_audit, challenges.c.name, attempts.c.agent)
            .outerjoin(challenges, challenges.c.id == contest_audit.c.challenge_id)
            .outerjoin(attempts, attempts.c.key == contest_audit.c.attempt)
            # In the words of the index: otherwise the database reads all entries of attempts.
            .where(contest_audit.c.tenant == self._tenant, text(f"({ACTS})"), *passes)
            .where(contest_audit.c.event.not_in(PLAYED))
            .order_by(contest_audit.c.seq.desc())
        )


def _make_log_entry(row: Row[Any]) -> LogEntry:
    note = dict(row.note or {})
    return LogEntry(
        seq=row.seq,
        at=row.at,
        actor=row.actor,
        event=row.event,
        challenge=row.name,
        attempt=None if row.attempt is None else attempt_id(row.attempt),
        agent=note.pop("agent", row.agent),
        note=note or None,
        address=row.address,
    )


def make_act(event: str, reason: str, at: float, **note: Any) -> AuditEntry:
    """Entry for an act of an organiser; one without a reason is refused."""
    return AuditEntry(
        at=at, actor=ORGANISER, event=event, note=note | {"reason": check_reason(reason)}
    )


def check_reason(reason: str) -> str:
    """Return the reason as it is stored; an empty or very long one is refused."""
    if not reason.strip() or len(reason) > _LONGEST_REASON:
        raise InvalidInput(
            f"what an organiser does needs a reason of 1 to {_LONGEST_REASON} characters",
            hint='as in --reason "the data were broken"',
        )
    return make_storable(reason.strip())


def write_agent_entry(connection: Connection, tenant: str, entry: AuditEntry) -> None:
    """Add an entry for an agent, whom its note names."""
    write_entry(connection, tenant, _NO_CHALLENGE, None, entry)


def write_account_entry(
    connection: Connection, tenant: str, event: str, at: float, **note: Any
) -> None:
    """Add an entry about keys, tenants, settings or variables; never with a secret."""
    entry = AuditEntry(at=at, actor=OPERATOR, event=event, note=note or None)
    write_entry(connection, tenant, _NO_CHALLENGE, None, entry)
