"""Backfills, which apply a rule to stored traces of a span of time, and the jobs of rules.

Jobs of rules are queued again and again. Of ended jobs about the same subject, only the last stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import msgspec
from sqlalchemy import (
    Column,
    Index,
    Integer,
    Table,
    delete,
    insert,
    select,
    text,
    update,
)

from tallymark.errors import Conflict, NotFound
from tallymark.store.database import TenantRows
from tallymark.store.dialects import (
    CodePointText,
    FiniteFloat,
    RowKey,
    metadata,
)
from tallymark.store.job_wakeups import find_wakeups
from tallymark.store.jobs import ENDED, UNFINISHED, NewJob, add_rows, jobs
from tallymark.store.quick_statements import QuickStatements
from tallymark.store.row_numbers import take_number
from tallymark.store.traces.rule_days import DECIDED, lock_rule
from tallymark.store.traces.rules import name_author

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sqlalchemy import Connection

    from tallymark.store.database import Database
    from tallymark.store.traces.rules import Rule


rule_backfills = Table(
    "rule_backfills",
    metadata,
    Column("id", RowKey, primary_key=True),
    Column("tenant", CodePointText, nullable=False),
    Column("rule", RowKey, nullable=False),
    Column("rule_version", RowKey, nullable=False),
    Column("author", CodePointText, nullable=False),
    Column("at", FiniteFloat, nullable=False),
    Column("since", FiniteFloat, nullable=False),  # of traces, by their beginning
    Column("until", FiniteFloat, nullable=False),
    Column("state", CodePointText, nullable=False),  # running, done, cancelled or superseded
    Column("job", CodePointText, nullable=False),  # jobs.id
    Column("expected", Integer, nullable=False),  # estimated number of traces to be scored
    Column("expected_cost", FiniteFloat),
    Column("last_key", RowKey, nullable=False),  # traces.key up to which all are queued
    Column("queued", Integer, nullable=False),
    *(Column(name, Integer, nullable=False) for name in DECIDED),
    Column("spent", FiniteFloat, nullable=False),
    Index("ix_rule_backfills_rule", "rule", "id"),
    sqlite_autoincrement=True,
)
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
    """A backfill and its progress."""

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
        """Share of the expected work, from 0 to 1."""
        if self.state == "done" or not self.expected:
            return 1.0
        return min(1.0, (self.scored + self.failed + self.capped) / self.expected)


class Backfills(TenantRows):
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
        """Start a backfill, together with its job; a rule has one at a time."""

        def work(connection: Connection) -> Backfill:
            lock_rule(QuickStatements(connection), rule.id)
            running = self._select().where(
                rule_backfills.c.rule == rule.id, rule_backfills.c.state == "running"
            )
            if (other := connection.execute(running).first()) is not None:
                raise Conflict(
                    f"the backfill {other.id} of the rule {rule.name!r} has not ended",
                    hint=f"wait for its job {other.job}, or cancel that",
                )
            job = NewJob(kind=JOB_KIND, subject="", owner=rule.owner)
            number = take_number(connection, rule_backfills.name, self._tenant)
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
            connection.execute(insert(rule_backfills).values(values))
            add_rows(connection, self._tenant, [msgspec.structs.replace(job, subject=str(number))])
            return self._require(connection, number)

        return self._database.write(work)

    def get(self, number: int) -> Backfill:
        with self._database.read() as connection:
            return self._require(connection, number)

    def list(self, rule: Rule, limit: int = 20) -> list[Backfill]:
        """Backfills of a rule, newest first."""
        query = (
            self._select()
            .where(rule_backfills.c.rule == rule.id)
            .order_by(rule_backfills.c.id.desc())
        )
        with self._database.read() as connection:
            found = connection.execute(query.limit(limit))
            return [Backfill(**row._asdict()) for row in found]

    def end(self, number: int, state: BackfillState) -> None:
        """End a backfill; traces that still waited for it stay undecided."""

        def work(connection: Connection) -> None:
            statements = QuickStatements(connection)
            rule = self._require(connection, number).rule
            # Before all else, as everywhere: who settles takes decisions first, and then us.
            lock_rule(statements, rule)
            mine = (rule_backfills.c.tenant == self._tenant, rule_backfills.c.id == number)
            connection.execute(update(rule_backfills).where(*mine).values(state=state))
            statements.run(
                "DELETE FROM trace_decisions WHERE decision = 'waiting' AND backfill = ?"
                " AND reserved IS NULL AND rule = ?",
                *(number, rule),
            )

        self._database.write(work)

    def resume(self, number: int) -> None:
        """Restart a cancelled backfill; its results stay."""
        self._set(number, state="running", last_key=0)

    def walk(
        self, since: float, until: float, after: int = 0
    ) -> Iterator[Sequence[tuple[int, int, str]]]:
        """Finalised traces that began in a span of time, in lots: key, version, id."""
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
        mine = (rule_backfills.c.tenant == self._tenant, rule_backfills.c.id == number)
        self._database.write(
            lambda c: c.execute(update(rule_backfills).where(*mine).values(values))
        )

    def _select(self) -> Any:
        columns = (rule_backfills.c[name] for name in Backfill.__struct_fields__)
        return select(*columns).where(rule_backfills.c.tenant == self._tenant)

    def _require(self, connection: Connection, number: int) -> Backfill:
        row = connection.execute(self._select().where(rule_backfills.c.id == number)).first()
        if row is None:
            raise NotFound(f"there is no backfill {number}")
        return Backfill(**row._asdict())


_COUNTS = ("last_key", "queued", "scored", "failed", "filtered", "not_drawn", "capped")
DECIDE, SCORE = "decide", "rule"
"""The kinds: rules look at new traces of a tenant, and one rule scores what it waits for."""
_UNDECIDED = "SELECT DISTINCT tenant FROM traces WHERE undecided"
_DUE = (
    "SELECT tenant, id, owner FROM rules WHERE state = 'active'"
    " AND (again_at IS NULL OR again_at <= ?) AND EXISTS (SELECT 1 FROM trace_decisions d"
    " WHERE d.rule = rules.id AND d.backfill = 0 AND d.decision = 'waiting' AND d.due_at <= ?)"
)
_FIRST_DUE = (
    "SELECT min((SELECT min(d.due_at) FROM trace_decisions d WHERE d.rule = rules.id"
    " AND d.backfill = 0 AND d.decision = 'waiting')) FROM rules WHERE state = 'active'"
)


def queue_rule_jobs(database: Database, now: float) -> int:
    """Queue what is due for all tenants and is not queued yet; return the number of jobs."""
    with database.read() as connection:
        statements = QuickStatements(connection)
        wanted = [
            (tenant, NewJob(kind=DECIDE, subject=DECIDE))
            for (tenant,) in statements.read(_UNDECIDED)
        ]
        wanted += [
            (tenant, NewJob(kind=SCORE, subject=str(rule), owner=owner))
            for tenant, rule, owner in statements.read(_DUE, now, now)
        ]
        if not wanted:
            return 0
        query = select(jobs.c.tenant, jobs.c.kind, jobs.c.subject)
        there = connection.execute(query.where(text(UNFINISHED), jobs.c.kind.in_((DECIDE, SCORE))))
        known = {tuple(row) for row in there}
    fresh = [each for each in wanted if (each[0], each[1].kind, each[1].subject) not in known]
    if fresh:
        database.write(lambda connection: _add(connection, fresh))
        find_wakeups(database).ring()
    return len(fresh)


def find_delay(database: Database, now: float) -> float:
    """Seconds for which the oldest due decision waits; 0 if there is none."""
    with database.read() as connection:
        ((first,),) = QuickStatements(connection).read(_FIRST_DUE)
    return 0.0 if first is None else max(0.0, now - first)


def _add(connection: Connection, fresh: list[tuple[str, NewJob]]) -> None:
    for tenant, job in fresh:
        alike = (jobs.c.tenant == tenant, jobs.c.kind == job.kind, jobs.c.subject == job.subject)
        connection.execute(delete(jobs).where(*alike, jobs.c.state.in_(ENDED)))
        add_rows(connection, tenant, [job])
