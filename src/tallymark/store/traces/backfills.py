"""Backfills: a rule applied to kept traces of a span of time, and how far that has come."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import msgspec
from sqlalchemy import insert, select, update

from tallymark.errors import Conflict, NotFound
from tallymark.store.database import TenantRows
from tallymark.store.jobs import NewJob, add_rows
from tallymark.store.quick_statements import QuickStatements
from tallymark.store.row_numbers import take_number
from tallymark.store.traces.rule_days import lock_rule
from tallymark.store.traces.rule_tables import rule_backfills as table
from tallymark.store.traces.rules import name_author

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sqlalchemy import Connection

    from tallymark.store.traces.rules import Rule

JOB_KIND = "backfill"
BackfillState = Literal["running", "done", "cancelled", "superseded"]
_AT_ONCE = 2000
# By key, each row once, and no further than a lot: PostgreSQL would sort all that follow. Bare
# columns would have SQLite go through an index by time: all of the span for every lot.
_LAST_OF_LOT = (
    "SELECT max(key) FROM (SELECT key FROM traces WHERE key > ? ORDER BY key LIMIT ?) AS lot"
)
_LOT = (
    "SELECT key, version, trace_id FROM traces WHERE key > ? AND key <= ? AND tenant || '' = ?"
    " AND +started_at >= ? AND +started_at < ? AND version > 0 ORDER BY key"
)


class Backfill(msgspec.Struct, frozen=True, kw_only=True):
    """One, and how far it is."""

    id: int
    rule: int
    rule_version: int
    author: str
    at: float
    since: float
    until: float
    state: BackfillState
    job: str
    expected: int
    expected_cost: float | None
    last_key: int
    queued: int
    """Traces that it has found to be scored."""
    scored: int
    failed: int
    filtered: int
    not_drawn: int
    capped: int
    spent: float

    @property
    def progress(self) -> float:
        """From 0 to 1, by what was expected."""
        if self.state == "done" or not self.expected:
            return 1.0
        return min(1.0, (self.scored + self.failed + self.capped) / self.expected)


class Backfills(TenantRows):
    """What `store.backfills` is."""

    def add(
        self,
        rule: Rule,
        *,
        since: float,
        until: float,
        expected: int,
        expected_cost: float | None,
        at: float,
    ) -> Backfill:
        """Queues one, together with the job that does it; a rule has one at a time."""

        def work(connection: Connection) -> Backfill:
            lock_rule(QuickStatements(connection), rule.id)
            running = self._select().where(table.c.rule == rule.id, table.c.state == "running")
            if (other := connection.execute(running).first()) is not None:
                raise Conflict(
                    f"the backfill {other.id} of the rule {rule.name!r} has not ended",
                    hint=f"wait for its job {other.job}, or cancel that",
                )
            job = NewJob(kind=JOB_KIND, subject="", owner=rule.owner)
            number = take_number(connection, table.name, self._tenant)
            values = {
                "id": number,
                "tenant": self._tenant,
                "rule": rule.id,
                "rule_version": rule.version_id,
                "author": name_author(),
                "at": at,
                "since": since,
                "until": until,
                "state": "running",
                "job": job.id,
                "expected": expected,
                "expected_cost": expected_cost,
                "spent": 0.0,
                **dict.fromkeys(_COUNTS, 0),
            }
            connection.execute(insert(table).values(values))
            add_rows(connection, self._tenant, [msgspec.structs.replace(job, subject=str(number))])
            return self._require(connection, number)

        return self._database.write(work)

    def get(self, number: int) -> Backfill:
        """One by its number."""
        with self._database.read() as connection:
            return self._require(connection, number)

    def list(self, rule: Rule, limit: int = 20) -> list[Backfill]:
        """Those of a rule, newest first."""
        query = self._select().where(table.c.rule == rule.id).order_by(table.c.id.desc())
        with self._database.read() as connection:
            found = connection.execute(query.limit(limit))
            return [Backfill(**row._asdict()) for row in found]

    def end(self, number: int, state: BackfillState) -> None:
        """Nothing more is done; what it still waited for was never decided."""

        def work(connection: Connection) -> None:
            statements = QuickStatements(connection)
            rule = self._require(connection, number).rule
            # Before all else, as everywhere: who settles takes decisions first, and then us.
            lock_rule(statements, rule)
            mine = (table.c.tenant == self._tenant, table.c.id == number)
            connection.execute(update(table).where(*mine).values(state=state))
            statements.run(
                "DELETE FROM trace_decisions WHERE decision = 'waiting' AND backfill = ?"
                " AND reserved IS NULL AND rule = ?",
                *(number, rule),
            )

        self._database.write(work)

    def resume(self, number: int) -> None:
        """One that was cancelled begins anew; what it did stays done."""
        self._set(number, state="running", last_key=0)

    def walk(
        self, since: float, until: float, after: int = 0
    ) -> Iterator[Sequence[tuple[int, int, str]]]:
        """Settled traces that began in a span of time, in lots: key, version, id."""
        while True:
            with self._database.read() as connection:
                statements = QuickStatements(connection)
                last = statements.read(_LAST_OF_LOT, after, _AT_ONCE)[0][0]
                if last is None:
                    return
                found: Any = statements.read(_LOT, after, last, self._tenant, since, until)
            if found:
                yield found
            after = last

    def _set(self, number: int, **values: Any) -> None:
        mine = (table.c.tenant == self._tenant, table.c.id == number)
        self._database.write(lambda c: c.execute(update(table).where(*mine).values(values)))

    def _select(self) -> Any:
        columns = (table.c[name] for name in Backfill.__struct_fields__)
        return select(*columns).where(table.c.tenant == self._tenant)

    def _require(self, connection: Connection, number: int) -> Backfill:
        row = connection.execute(self._select().where(table.c.id == number)).first()
        if row is None:
            raise NotFound(f"there is no backfill {number}")
        return Backfill(**row._asdict())


_COUNTS = ("last_key", "queued", "scored", "failed", "filtered", "not_drawn", "capped")
