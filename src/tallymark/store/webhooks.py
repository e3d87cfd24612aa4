"""Webhooks of a tenant with their signing secrets, and the events of challenges sent to them.

Attempts are scored by the thousand, and announcing adds nothing to that: a job reads the log of a
challenge after the last entry that was announced, in commit order, and stores its position together
with the deliveries that it queues.
"""

from __future__ import annotations

import secrets
from base64 import b64encode
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import msgspec
from msgspec import Meta
from sqlalchemy import delete, func, insert, select, update

from tallymark.errors import Conflict, NotFound, WorkFailed
from tallymark.store.contests.audit_log import write_account_entry
from tallymark.store.contests.tables import (
    attempt_id,
    attempts,
    boards,
    challenges,
    contest_audit,
    disqualified,
)
from tallymark.store.database import TenantRows
from tallymark.store.dialects import dialect_insert, lock_rows
from tallymark.store.job_wakeups import find_wakeups
from tallymark.store.jobs import NewJob, add_rows
from tallymark.store.secrets import find_keys, find_or_make_key
from tallymark.store.webhook_deliveries import (
    Occurrence,
    queue_deliveries,
    queue_waiting,
    webhook_rows,
)
from tallymark.store.webhook_deliveries import webhook_marks as marks
from tallymark.text import shorten

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


def queue_announcements(database: Database) -> int:
    """Queue a job for each tenant whose webhooks are behind the log; return their number."""
    behind = _select_newest().join(
        webhook_rows,
        (webhook_rows.c.tenant == challenges.c.tenant) & (webhook_rows.c.state == "active"),
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
        find_wakeups(database).ring()
    return len(tenants)


def follow_challenges(database: Database, tenant: str) -> int:
    """Queue deliveries for new log entries of a tenant's challenges; return their number."""
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
        find_wakeups(database).ring()
    return queued


def mark_all(connection: Connection, tenant: str) -> None:
    """Mark all existing log entries as announced."""
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
    """Announce the next entries of a challenge; return deliveries, and whether there are more."""
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
    """Event of a new leader with a better value; the first agent on a board beats no record."""
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
    """The leader; boards are ordered by `place`, less is better."""
    out = select(disqualified.c.agent).where(disqualified.c.tenant == kept.tenant)
    first = (
        select(boards.c.agent, boards.c.place, boards.c.value, boards.c.score, boards.c.attempt)
        .join(challenges, challenges.c.id == boards.c.challenge_id)
        .where(challenges.c.id == kept.id, ~boards.c.frozen)
        # By a newer rule there is no record yet: its places cannot be compared with the old ones.
        .where(challenges.c.revision == kept.revision)
        .where(boards.c.agent.not_in(out), boards.c.value.is_not(None))
        .order_by(boards.c.place, boards.c.submitted_at, boards.c.attempt)
        .limit(1)
    )
    row = connection.execute(first).one_or_none()
    return None if row is None else row._asdict() | {"attempt": attempt_id(row.attempt)}


WebhookState = Literal["active", "paused"]
MOST_WEBHOOKS = 20
"""Per tenant: each is one more request for every event."""


class Webhook(msgspec.Struct, frozen=True, kw_only=True):
    """An address that events are sent to."""

    id: str
    url: str
    events: tuple[EventName, ...]
    challenge: Annotated[str | None, Meta(description="Null sends events of all.")] = None
    suite: Annotated[str | None, Meta(description="Null sends events of all.")] = None
    state: WebhookState = "active"
    made_by: str
    created_at: float


_FIELDS = [webhook_rows.c[name] for name in Webhook.__struct_fields__]


def make_signing_secret() -> str:
    """Random signing secret in the format of Standard Webhooks."""
    return f"whsec_{b64encode(secrets.token_bytes(32)).decode()}"


class Webhooks(TenantRows):
    def add(self, webhook: Webhook, secret: str) -> None:
        """Store a new webhook, which gets events from now on."""

        def work(connection: Connection) -> None:
            if (
                connection.scalar(select(webhook_rows.c.id).where(self._mine(webhook.id)))
                is not None
            ):
                return  # a lost connection had committed
            count = select(func.count()).where(webhook_rows.c.tenant == self._tenant)
            if (connection.scalar(count) or 0) >= MOST_WEBHOOKS:
                raise Conflict(
                    f"there are {MOST_WEBHOOKS} webhooks already", hint="remove one first"
                )
            self._catch_up(connection)
            row = msgspec.structs.asdict(webhook) | self._seal(webhook.id, secret)
            connection.execute(insert(webhook_rows).values(tenant=self._tenant, **row))
            self._log(connection, webhook, "webhook added", webhook.created_at)

        self._database.write(work)

    def all(self) -> list[Webhook]:
        """Webhooks, oldest first."""
        if not self._database.look():
            return []
        query = select(*_FIELDS).where(webhook_rows.c.tenant == self._tenant)
        with self._database.read() as connection:
            rows = connection.execute(query.order_by(webhook_rows.c.created_at, webhook_rows.c.id))
            return [_to_webhook(row._asdict()) for row in rows]

    def get(self, webhook_id: str) -> Webhook:
        with self._database.read() as connection:
            return self._read(connection, webhook_id)

    def set_state(self, webhook_id: str, state: WebhookState, *, at: float) -> Webhook:
        """Pause a webhook, or resume it with the deliveries that wait."""

        def work(connection: Connection) -> Webhook:
            found = self._read(connection, webhook_id)
            if found.state != state:
                if state == "active":
                    self._catch_up(connection)
                connection.execute(
                    update(webhook_rows).where(self._mine(webhook_id)).values(state=state)
                )
                words = {"active": "webhook resumed", "paused": "webhook paused"}
                self._log(connection, found, words[state], at)
            if state == "active":
                queue_waiting(connection, self._tenant, webhook_id)
            return msgspec.structs.replace(found, state=state)

        return self._database.write(work)

    def replace_secret(self, webhook_id: str, secret: str, *, at: float) -> Webhook:
        def work(connection: Connection) -> Webhook:
            found = self._read(connection, webhook_id)
            sealed = self._seal(webhook_id, secret)
            connection.execute(update(webhook_rows).where(self._mine(webhook_id)).values(sealed))
            self._log(connection, found, "webhook rotated", at)
            return found

        return self._database.write(work)

    def remove(self, webhook_id: str, *, at: float) -> Webhook:
        """Remove a webhook with all its deliveries."""

        def work(connection: Connection) -> Webhook:
            found = self._read(connection, webhook_id)
            connection.execute(delete(webhook_rows).where(self._mine(webhook_id)))
            self._log(connection, found, "webhook removed", at)
            return found

        return self._database.write(work)

    def open_secret(self, webhook_id: str) -> str:
        """Signing secret of a webhook."""
        with self._database.read() as connection:
            query = select(webhook_rows.c.key_id, webhook_rows.c.sealed).where(
                self._mine(webhook_id)
            )
            row = connection.execute(query).one()
        key = find_keys(self._database.address).get(row.key_id)
        if key is None:
            raise WorkFailed(
                f"what signs for the webhook {webhook_id} was sealed by a key that is not here",
                hint=f"bring that key back, or: tally webhooks rotate {webhook_id}",
            )
        return key.open(row.sealed, (self._tenant, webhook_id))

    def _mine(self, webhook_id: str) -> Any:
        return (webhook_rows.c.tenant == self._tenant) & (webhook_rows.c.id == webhook_id)

    def _read(self, connection: Connection, webhook_id: str) -> Webhook:
        row = connection.execute(select(*_FIELDS).where(self._mine(webhook_id))).one_or_none()
        if row is None:
            raise NotFound(f"there is no webhook {shorten(webhook_id, 40)!r}", hint="list them")
        return _to_webhook(row._asdict())

    def _seal(self, webhook_id: str, secret: str) -> dict[str, Any]:
        key = find_or_make_key(self._database.address)
        return {"key_id": key.id, "sealed": key.seal(secret, (self._tenant, webhook_id))}

    def _catch_up(self, connection: Connection) -> None:
        """Mark the log as announced if no webhook is active: events without a listener are not
        queued.
        """
        listening = select(webhook_rows.c.id).where(
            webhook_rows.c.tenant == self._tenant, webhook_rows.c.state == "active"
        )
        if connection.execute(listening.limit(1)).first() is None:
            mark_all(connection, self._tenant)

    def _log(self, connection: Connection, webhook: Webhook, event: str, at: float) -> None:
        write_account_entry(
            connection, self._tenant, event, at, webhook=webhook.id, url=webhook.url
        )


def _to_webhook(row: dict[str, Any]) -> Webhook:
    return Webhook(**row | {"events": tuple(row["events"])})
