"""Which results a model judged, and which of them nobody has looked at yet.

What a judge took stands in a result's `detail`, so it is searched for as JSON writes it: inside a
text its quotes would be escaped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import and_, exists, or_, select

from tallymark.runs.reviews import COMMENT
from tallymark.store.reviews.review_tables import reviews
from tallymark.store.runs.run_tables import case_results as results
from tallymark.store.runs.run_tables import runs

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection

_LOOKED_INTO = 100
"""Results of a run that tell whether its cases are judged: a run of 100,000 is not read for it."""
_MARKS = ('"judge":{', '"kind":"llm_judge"')


def _is_judged() -> ColumnElement[bool]:
    return or_(*(results.c.detail.contains(mark, autoescape=True) for mark in _MARKS))


def list_judged_runs(
    connection: Connection, tenant: str, suite: str | None, *, newest: int, limit: int
) -> list[str]:
    """Of the newest runs those with judged results, the newest first."""
    query = select(runs.c.id).where(runs.c.tenant == tenant)
    if suite is not None:
        query = query.where(runs.c.suite == suite)
    query = query.order_by(runs.c.created_at.desc(), runs.c.id.desc()).limit(newest)
    found: list[str] = []
    for run in connection.scalars(query).all():
        if len(found) == limit:
            break
        first = (
            select(results.c.detail)
            .where(results.c.tenant == tenant, results.c.run_id == run)
            .order_by(results.c.case_name, results.c.epoch)
            .limit(_LOOKED_INTO)
            .subquery()
        )
        marked = or_(*(first.c.detail.contains(mark, autoescape=True) for mark in _MARKS))
        if connection.scalar(select(exists(select(1).select_from(first).where(marked)))):
            found.append(run)
    return found


def list_unseen(connection: Connection, tenant: str, run: str, limit: int) -> list[tuple[str, int]]:
    """Judged results of a run that nobody has scored, by case and epoch."""
    seen = exists().where(
        and_(
            reviews.c.tenant == tenant,
            reviews.c.run_id == run,
            reviews.c.case_name == results.c.case_name,
            reviews.c.epoch == results.c.epoch,
            reviews.c.withdrawn_at.is_(None),
            reviews.c.name != COMMENT,
        )
    )
    query = (
        select(results.c.case_name, results.c.epoch)
        .where(results.c.tenant == tenant, results.c.run_id == run, _is_judged(), ~seen)
        .order_by(results.c.case_name, results.c.epoch)
        .limit(limit)
    )
    return [(case, epoch) for case, epoch in connection.execute(query)]
