"""What is removed when it has been kept for long enough, by kind, for each tenant in its own way.

A few hundred rows a transaction, so that nobody waits for it. The log of contests, attempts and
their scores are never removed: everything else follows from them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
from sqlalchemy import delete, func, select, tuple_

from tallymark.errors import NotFound
from tallymark.store.accounts.account_tables import (
    idempotent_answers,
    registrations,
    sessions,
)
from tallymark.store.jobs.job_tables import jobs
from tallymark.store.jobs.jobs import ENDED
from tallymark.store.runs import run_rows
from tallymark.store.runs.run_tables import case_results, runs
from tallymark.store.traces import retention as trace_retention
from tallymark.store.webhooks.webhook_tables import webhook_deliveries

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Column, ColumnElement, Connection, Table

    from tallymark.store.accounts.tenants import TenantSettings
    from tallymark.store.database import Database

DAY = 86_400.0
_AT_ONCE = 500


class Pruned(msgspec.Struct, frozen=True, kw_only=True):
    """What was removed, or would be, of one kind."""

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
        func.coalesce(runs.c.finished_at, runs.c.created_at),
        (runs.c.id,),
        (runs.c.definition, runs.c.metrics),
        (runs.c.status.not_in(("queued", "running")),),
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
    """Removes what one tenant no longer keeps."""

    def __init__(
        self, database: Database, tenant: str, settings: TenantSettings, now: float
    ) -> None:
        self._now = now
        self._database = database
        self._tenant = tenant
        self._settings = settings

    def find_days(self, kind: str) -> float | None:
        """For how long a kind is kept; None is for ever."""
        if kind == "traces":
            return self._settings.traces.keep_days
        found: float | None = getattr(self._settings.retention, kind)
        return found

    def measure(self, kind: str) -> Pruned:
        """What there is to remove."""
        if kind == "traces":
            rows, size = trace_retention.measure_outdated(
                self._database, self._tenant, self._settings.traces, self._now
            )
        else:
            rows, size = self._measure(kind)
        return Pruned(
            tenant=self._tenant, kind=kind, days=self.find_days(kind), rows=rows, bytes=size
        )

    def remove_some(self, kind: str) -> int:
        """Removes some of it, in one transaction or a few short ones; 0 when nothing is left."""
        if kind == "traces":
            return trace_retention.remove_outdated(
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
        # The age is looked at again: somebody may have made a row new meanwhile.
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
                mine = (case_results.c.tenant == runs.c.tenant, case_results.c.run_id == runs.c.id)
                bulk = (case_results.c.detail, case_results.c.trace)
                size += _measure_rows(connection, bulk, (*old, *mine))[1]
        return rows, size

    def _remove_run(self, run_id: str) -> bool:
        """By itself: one run may have a hundred thousand results."""
        try:
            self._database.write(lambda c: run_rows.delete(c, self._tenant, run_id))
        except NotFound:  # somebody was quicker
            return False
        return True


def _measure_rows(
    connection: Connection, bulk: Sequence[Column[Any]], where: Sequence[ColumnElement[bool]]
) -> tuple[int, int]:
    sizes = [func.coalesce(func.sum(func.length(each)), 0) for each in bulk]
    rows, *found = connection.execute(select(func.count(), *sizes).where(*where)).one()
    return int(rows), int(sum(found))
