"""Removing traces: what is older than is kept, and the oldest of what takes more room than it may.

Age counts from the arrival, by the server's clock: an agent whose clock is wrong loses nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallymark.store.database_dialects import lock_traces
from tallymark.store.quick_statements import ManyQuery, QuickStatements
from tallymark.store.traces.labels import remove_trace_labels
from tallymark.store.traces.rule_days import count_removed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection

    from tallymark.store.database import Database
    from tallymark.store.traces.trace_settings import TraceSettings

_AT_ONCE = 1_000
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
    """Removes traces with all that is known of them; how many there were."""
    removed = 0
    for start in range(0, len(keys), _AT_ONCE):
        some = sorted(keys[start : start + _AT_ONCE])
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
    """Keys of traces that came before a moment, and of the oldest beyond so many bytes."""
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
    """Removes what is older, or takes more room, than is kept; how many there were."""
    before, most_bytes = _read_bounds(settings, now)
    keys = find_outdated(database, tenant, before=before, most_bytes=most_bytes, limit=limit)
    removed = remove_traces(database, tenant, keys)
    if removed:
        remove_unused_labels(database, tenant)
    return removed


def measure_outdated(
    database: Database, tenant: str, settings: TraceSettings, now: float
) -> tuple[int, int]:
    """How many traces that would be, and their bytes."""
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
    """Removes labels that no trace has any more: names of users and sessions among them."""

    def work(connection: Connection) -> None:
        statements = QuickStatements(connection)
        query = f"{_UNUSED} FOR UPDATE OF l" if statements.is_postgres else _UNUSED
        unused = statements.read(query, tenant)
        # Looked at again: while we waited for a label, somebody may have used it.
        text = (
            "DELETE FROM labels WHERE id IN (SELECT given.key FROM {given}) AND NOT EXISTS"
            " (SELECT 1 FROM trace_labels t WHERE t.label = labels.id)"
        )
        statements.run_given(ManyQuery(text, _KEYS), unused)

    database.write(work)
