"""What webhooks are told of challenges, by following their logs.

Attempts are scored by the thousand: nothing is added to that. Whoever follows reads the log of a
challenge after the last entry that was told, in the order in which entries were committed, and
keeps with what it queues how far it is.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Literal, get_args

from sqlalchemy import func, select

from tallymark.store.contests.attempt_tables import attempt_id, attempts
from tallymark.store.contests.contest_tables import boards, challenges, contest_audit, disqualified
from tallymark.store.database_dialects import dialect_insert, lock_rows
from tallymark.store.jobs.job_bell import find_bell
from tallymark.store.jobs.jobs import NewJob, add_rows
from tallymark.store.webhooks.deliveries import Occurrence, queue_deliveries
from tallymark.store.webhooks.webhook_tables import webhook_marks as marks
from tallymark.store.webhooks.webhook_tables import webhooks

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sqlalchemy import Connection, Row, Select

    from tallymark.store.database import Database

EventName = Literal["run.finished", "gate.failed", "record.beaten", "attempt.failed"]
EVENTS: tuple[EventName, ...] = get_args(EventName)
ANNOUNCE = "announce"
"""The kind of job."""
_AT_ONCE = 500
_log = contest_audit.c


def queue_announcing(database: Database) -> int:
    """A job for each tenant whose webhooks have not heard of everything; how many."""
    behind = _select_newest().join(
        webhooks, (webhooks.c.tenant == challenges.c.tenant) & (webhooks.c.state == "active")
    )
    newest = behind.subquery()
    query = select(newest.c.tenant).outerjoin(marks, marks.c.challenge_id == newest.c.id)
    query = query.where(newest.c.seq > func.coalesce(marks.c.seq, 0)).distinct()
    with database.read() as connection:
        tenants = list(connection.scalars(query))
    job = NewJob(kind=ANNOUNCE, subject=ANNOUNCE)
    for tenant in tenants:
        database.write(partial(add_rows, tenant=tenant, new=[job]))
    if tenants:
        find_bell(database).ring()
    return len(tenants)


def follow_challenges(database: Database, tenant: str) -> int:
    """Queues what happened at a tenant's challenges and was not told yet; how many deliveries."""
    newest = _select_newest().where(challenges.c.tenant == tenant)
    with database.read() as connection:
        known = {row.challenge_id: row.seq for row in connection.execute(_select_marks(tenant))}
        behind = [row.id for row in connection.execute(newest) if row.seq > known.get(row.id, 0)]
    queued = 0
    for challenge_id in behind:
        more = True
        while more:
            follow = partial(_follow, tenant=tenant, challenge_id=challenge_id)
            count, more = database.write(follow)
            queued += count
    if queued:
        find_bell(database).ring()
    return queued


def mark_all(connection: Connection, tenant: str) -> None:
    """Takes all that has happened as told."""
    for row in connection.execute(_select_newest().where(challenges.c.tenant == tenant)).all():
        _keep_mark(connection, row, row.seq, _read_record(connection, row))


def _select_newest() -> Select[Any]:
    """Challenges, each with the last entry of its log, which an index finds."""
    last = select(func.max(_log.seq)).where(_log.challenge_id == challenges.c.id).scalar_subquery()
    names = ("id", "tenant", "name", "revision")
    columns = (challenges.c[name] for name in names)
    return select(*columns, func.coalesce(last, 0).label("seq"))


def _select_marks(tenant: str) -> Select[Any]:
    return select(marks).where(marks.c.tenant == tenant)


def _follow(connection: Connection, tenant: str, challenge_id: int) -> tuple[int, bool]:
    """Tells of the next entries of a challenge; how many deliveries, and whether there are more."""
    mine = _select_marks(tenant).where(marks.c.challenge_id == challenge_id)
    mark = connection.execute(lock_rows(mine)).one_or_none()
    kept = connection.execute(_select_newest().where(challenges.c.id == challenge_id)).one()
    after = 0 if mark is None else mark.seq
    entries = connection.execute(
        select(_log.seq, _log.at, _log.event, _log.note, attempts.c.number, attempts.c.agent)
        .add_columns(_log.attempt)
        .outerjoin(attempts, attempts.c.key == _log.attempt)
        .where(_log.challenge_id == challenge_id, _log.seq > after)
        .order_by(_log.seq)
        .limit(_AT_ONCE)
    ).all()
    if not entries:
        return 0, False
    told = [_tell_failure(kept.name, each) for each in entries if each.event == "failed"]
    record = _read_record(connection, kept)
    if mark is not None and mark.revision == kept.revision:
        told += _tell_record(kept.name, mark.record, record, entries[-1].at)
    queued = queue_deliveries(connection, tenant, told)
    _keep_mark(connection, kept, entries[-1].seq, record)
    return queued, len(entries) == _AT_ONCE


def _keep_mark(
    connection: Connection, kept: Row[Any], seq: int, record: Mapping[str, Any] | None
) -> None:
    values = {"seq": seq, "revision": kept.revision, "record": record}
    row = {"challenge_id": kept.id, "tenant": kept.tenant, **values}
    statement = dialect_insert(connection, marks).values(row)
    connection.execute(
        statement.on_conflict_do_update(index_elements=["challenge_id"], set_=values)
    )


def _tell_failure(challenge: str, entry: Row[Any]) -> Occurrence:
    attempt = attempt_id(entry.attempt)
    told = {"id": attempt, "challenge": challenge, "agent": entry.agent, "number": entry.number}
    return Occurrence(
        event="attempt.failed",
        occasion=f"{attempt} failed {entry.seq}",
        at=entry.at,
        data={"attempt": told | {"error": (entry.note or {}).get("error")}},
        challenge=challenge,
    )


def _tell_record(
    challenge: str, before: Mapping[str, Any] | None, now: Mapping[str, Any] | None, at: float
) -> Iterator[Occurrence]:
    """Of who leads by more than anybody did; the first on a board beats nobody."""
    if before is None or now is None or not now["place"] < before["place"]:
        return
    told = {"challenge": challenge, "record": _without_place(now), "before": _without_place(before)}
    yield Occurrence(
        event="record.beaten",
        occasion=f"{now['attempt']} over {before['attempt']}",
        at=at,
        data=told,
        challenge=challenge,
    )


def _without_place(record: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in record.items() if name != "place"}


def _read_record(connection: Connection, kept: Row[Any]) -> dict[str, Any] | None:
    """Who leads; `place` is what boards are ordered by, less is better."""
    out = select(disqualified.c.agent).where(disqualified.c.tenant == kept.tenant)
    first = (
        select(boards.c.agent, boards.c.place, boards.c.value, boards.c.score, boards.c.attempt)
        .join(challenges, challenges.c.id == boards.c.challenge_id)
        .where(challenges.c.id == kept.id, ~boards.c.frozen)
        # By a rule that came meanwhile there is none yet: its places tell nothing of the others'.
        .where(challenges.c.revision == kept.revision)
        .where(boards.c.agent.not_in(out), boards.c.value.is_not(None))
        .order_by(boards.c.place, boards.c.submitted_at, boards.c.attempt)
        .limit(1)
    )
    row = connection.execute(first).one_or_none()
    return None if row is None else row._asdict() | {"attempt": attempt_id(row.attempt)}
