"""Which rules have something to do: jobs are made of it, one at a time for each rule.

Such jobs come again and again. Of those about the same that have ended, only the last stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import delete, select, text

from tallymark.store.job_wakeups import find_wakeups
from tallymark.store.jobs import ENDED, UNFINISHED, NewJob, add_rows, jobs
from tallymark.store.quick_statements import QuickStatements

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from tallymark.store.database import Database

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
    """Queues what is to be done by now for all tenants and is not queued yet; how many jobs."""
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
    """Seconds for which the oldest decision that is due waits; 0 where nothing does."""
    with database.read() as connection:
        ((first,),) = QuickStatements(connection).read(_FIRST_DUE)
    return 0.0 if first is None else max(0.0, now - first)


def _add(connection: Connection, fresh: list[tuple[str, NewJob]]) -> None:
    for tenant, job in fresh:
        alike = (jobs.c.tenant == tenant, jobs.c.kind == job.kind, jobs.c.subject == job.subject)
        connection.execute(delete(jobs).where(*alike, jobs.c.state.in_(ENDED)))
        add_rows(connection, tenant, [job])
