"""Remove what is older than a tenant's retention policy, by kind; traces by their size too.

A transaction removes a few hundred rows, so no writer waits long. The log of contests, attempts and
their scores are never removed: everything else is derived from them. The age of a trace counts from
its arrival, by the server's clock: an agent whose clock is wrong loses nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
from sqlalchemy import delete, func, select, tuple_

from tallymark.errors import NotFound
from tallymark.store import runs
from tallymark.store.case_results import case_results
from tallymark.store.dialects import lock_traces
from tallymark.store.idempotency import idempotent_answers
from tallymark.store.invitations import registrations
from tallymark.store.jobs import ENDED, jobs
from tallymark.store.keys import sessions
from tallymark.store.quick_statements import ManyQuery, QuickStatements
from tallymark.store.runs import run_rows
from tallymark.store.traces.rule_days import count_removed
from tallymark.store.traces.trace_rows import remove_trace_labels
from tallymark.store.webhook_deliveries import webhook_deliveries

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Column, ColumnElement, Connection, Table

    from tallymark.store.database import Database
    from tallymark.store.retention_policy import TraceSettings
    from tallymark.store.tenants import TenantSettings


DAY = 86_400.0
_AT_ONCE = 500


class Pruned(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of one kind that were removed, or would be."""

    tenant: str
    kind: str
    days: float | None
    rows: int
    bytes: int
    """About: of texts and bodies alone."""


@dataclass(frozen=True, slots=True)
class _Aged:
    """Rows of a table that grow old."""

    at: ColumnElement[Any]
    keys: tuple[Column[Any], ...]
    bulk: tuple[Column[Any], ...]
    where: tuple[ColumnElement[bool], ...] = ()

    @property
    def table(self) -> Table:
        found: Any = self.keys[0].table
        table: Table = found
        return table


_AGED = {
    "runs": _Aged(
        func.coalesce(run_rows.c.finished_at, run_rows.c.created_at),
        (run_rows.c.id,),
        (run_rows.c.definition, run_rows.c.metrics),
        (run_rows.c.status.not_in(("queued", "running")),),
    ),
    "jobs": _Aged(
        jobs.c.finished_at, (jobs.c.number,), (jobs.c.payload,), (jobs.c.state.in_(ENDED),)
    ),
    "answers": _Aged(
        idempotent_answers.c.at,
        (idempotent_answers.c.caller, idempotent_answers.c.key),
        (idempotent_answers.c.body,),
    ),
    "sessions": _Aged(sessions.c.expires_at, (sessions.c.hash,), (sessions.c.hash,)),
    "deliveries": _Aged(
        webhook_deliveries.c.created_at,
        (webhook_deliveries.c.number,),
        (webhook_deliveries.c.body,),
        (webhook_deliveries.c.state != "waiting",),
    ),
    "registrations": _Aged(registrations.c.at, (registrations.c.id,), (registrations.c.address,)),
}
KINDS = ("traces", *_AGED)


class Pruner:
    """Removes what is older than one tenant's retention policy."""

    def __init__(
        self, database: Database, tenant: str, settings: TenantSettings, now: float
    ) -> None:
        self._now = now
        self._database = database
        self._tenant = tenant
        self._settings = settings

    def find_days(self, kind: str) -> float | None:
        """Days for which a kind is stored; None is forever."""
        if kind == "traces":
            return self._settings.traces.keep_days
        found: float | None = getattr(self._settings.retention, kind)
        return found

    def measure(self, kind: str) -> Pruned:
        """Count what would be removed."""
        if kind == "traces":
            rows, size = measure_outdated(
                self._database, self._tenant, self._settings.traces, self._now
            )
        else:
            rows, size = self._measure(kind)
        return Pruned(
            tenant=self._tenant, kind=kind, days=self.find_days(kind), rows=rows, bytes=size
        )

    def remove_some(self, kind: str) -> int:
        """Remove some of it, in one transaction or a few short ones; 0 when nothing is left."""
        if kind == "traces":
            return remove_outdated(
                self._database, self._tenant, self._settings.traces, self._now, _AT_ONCE
            )
        days = self.find_days(kind)
        if days is None:
            return 0
        aged = _AGED[kind]
        old = self._is_old(aged, self._now - days * DAY)
        with self._database.read() as connection:
            rows = connection.execute(select(*aged.keys).where(*old).limit(_AT_ONCE)).all()
        if kind == "runs":
            return sum(self._remove_run(run_id) for (run_id,) in rows)
        if not rows:
            return 0
        gone = tuple_(*aged.keys).in_([tuple(row) for row in rows])
        # Compared again: a row may have been renewed meanwhile.
        change = delete(aged.table).where(*old, gone)
        return self._database.write(lambda c: c.execute(change).rowcount)

    def _is_old(self, aged: _Aged, before: float) -> tuple[ColumnElement[bool], ...]:
        return (aged.table.c.tenant == self._tenant, aged.at < before, *aged.where)

    def _measure(self, kind: str) -> tuple[int, int]:
        days = self.find_days(kind)
        if days is None:
            return 0, 0
        aged = _AGED[kind]
        old = self._is_old(aged, self._now - days * DAY)
        with self._database.read() as connection:
            rows, size = _measure_rows(connection, aged.bulk, old)
            if kind == "runs":
                mine = (
                    case_results.c.tenant == run_rows.c.tenant,
                    case_results.c.run_id == run_rows.c.id,
                )
                bulk = (case_results.c.detail, case_results.c.trace)
                size += _measure_rows(connection, bulk, (*old, *mine))[1]
        return rows, size

    def _remove_run(self, run_id: str) -> bool:
        """Remove one run per transaction: it may have a hundred thousand results."""
        try:
            self._database.write(lambda c: runs.delete_run(c, self._tenant, run_id))
        except NotFound:  # removed by another process
            return False
        return True


def _measure_rows(
    connection: Connection, bulk: Sequence[Column[Any]], where: Sequence[ColumnElement[bool]]
) -> tuple[int, int]:
    sizes = [func.coalesce(func.sum(func.length(each)), 0) for each in bulk]
    rows, *found = connection.execute(select(func.count(), *sizes).where(*where)).one()
    return int(rows), int(sum(found))


_TRACES_AT_ONCE = 1_000
_TABLES = ("trace_segments", "trace_versions", "trace_scores", "trace_decisions")
_KEYS = (("key", "bigint"),)
_ROWS = ManyQuery(
    "SELECT t.key, t.started_at, t.labels FROM {given} JOIN traces t ON t.key = given.key"
    " WHERE t.tenant = ? ORDER BY t.key",
    _KEYS,
)
_UNUSED = (
    "SELECT l.id FROM labels l WHERE l.tenant = ? AND NOT EXISTS"
    " (SELECT 1 FROM trace_labels t WHERE t.label = l.id) LIMIT 10000"
)


def remove_traces(database: Database, tenant: str, keys: Sequence[int]) -> int:
    """Remove traces with everything that refers to them; return their number."""
    removed = 0
    for start in range(0, len(keys), _TRACES_AT_ONCE):
        some = sorted(keys[start : start + _TRACES_AT_ONCE])
        removed += database.write(lambda c, some=some: _remove_rows(c, tenant, some))  # type: ignore[misc]
    return removed


def _remove_rows(connection: Connection, tenant: str, keys: Sequence[int]) -> int:
    statements = QuickStatements(connection)
    count_removed(statements, tenant, keys)
    lock_traces(connection, tenant, removed=True)
    query = _ROWS
    if statements.is_postgres:
        query = ManyQuery(f"{_ROWS.text} FOR UPDATE OF t", _KEYS)
    rows = statements.read_many(query, [(key,) for key in keys], tenant)
    there = [(row[0],) for row in rows]
    for key, started_at, labels in rows:
        remove_trace_labels(statements, key, started_at, labels)
    for table in _TABLES:
        text = f"DELETE FROM {table} WHERE trace IN (SELECT given.key FROM {{given}})"  # noqa: S608
        statements.run_given(ManyQuery(text, _KEYS), there)
    gone = "DELETE FROM traces WHERE key IN (SELECT given.key FROM {given})"
    return statements.run_given(ManyQuery(gone, _KEYS), there)


def find_outdated(
    database: Database, tenant: str, *, before: float | None, most_bytes: int | None, limit: int
) -> list[int]:
    """Keys of traces that arrived before a time, or else of the oldest beyond a total size."""
    found: list[int] = []
    with database.read() as connection:
        statements = QuickStatements(connection)
        if before is not None:
            rows = statements.read(
                "SELECT key FROM traces WHERE tenant = ? AND first_at < ?"
                " ORDER BY first_at LIMIT ?",
                *(tenant, before, limit),
            )
            found = [row[0] for row in rows]
        if most_bytes is not None and not found:
            total = statements.read("SELECT sum(bytes) FROM traces WHERE tenant = ?", tenant)
            excess = (total[0][0] or 0) - most_bytes
            oldest = statements.read(
                "SELECT key, bytes FROM traces WHERE tenant = ? ORDER BY first_at LIMIT ?",
                *(tenant, limit),
            )
            for key, size in oldest if excess > 0 else ():
                if excess <= 0:
                    break
                found.append(key)
                excess -= size
    return found


def remove_outdated(
    database: Database, tenant: str, settings: TraceSettings, now: float, limit: int
) -> int:
    """Remove traces beyond the age or total size of the policy; return their number."""
    before, most_bytes = _read_bounds(settings, now)
    keys = find_outdated(database, tenant, before=before, most_bytes=most_bytes, limit=limit)
    removed = remove_traces(database, tenant, keys)
    if removed:
        remove_unused_labels(database, tenant)
    return removed


def measure_outdated(
    database: Database, tenant: str, settings: TraceSettings, now: float
) -> tuple[int, int]:
    """Number and bytes of the traces that `remove_outdated` would remove."""
    before, most_bytes = _read_bounds(settings, now)
    with database.read() as connection:
        statements = QuickStatements(connection)
        sums = "SELECT count(*), coalesce(sum(bytes), 0) FROM traces WHERE tenant = ?"
        count, size = (0, 0)
        if before is not None:
            ((count, size),) = statements.read(f"{sums} AND first_at < ?", tenant, before)
        ((_, total),) = statements.read(sums, tenant)
        excess = 0 if most_bytes is None else total - size - most_bytes
        if excess > 0:
            younger = "SELECT bytes FROM traces WHERE tenant = ? AND first_at >= ?"
            query = f"{younger} ORDER BY first_at"
            for (each,) in statements.read(query, tenant, before or 0.0):
                if excess <= 0:
                    break
                count, size, excess = count + 1, size + each, excess - each
    return int(count), int(size)


def _read_bounds(settings: TraceSettings, now: float) -> tuple[float | None, int | None]:
    days, size = settings.keep_days, settings.keep_mb
    before = None if days is None else now - days * 86_400
    return before, None if size is None else size * 1_000_000


def remove_unused_labels(database: Database, tenant: str) -> None:
    """Delete labels that no trace has any more, such as names of users and sessions."""

    def work(connection: Connection) -> None:
        statements = QuickStatements(connection)
        query = f"{_UNUSED} FOR UPDATE OF l" if statements.is_postgres else _UNUSED
        unused = statements.read(query, tenant)
        # Compared again: a label may have been used while its lock was awaited.
        text = (
            "DELETE FROM labels WHERE id IN (SELECT given.key FROM {given}) AND NOT EXISTS"
            " (SELECT 1 FROM trace_labels t WHERE t.label = labels.id)"
        )
        statements.run_given(ManyQuery(text, _KEYS), unused)

    database.write(work)
