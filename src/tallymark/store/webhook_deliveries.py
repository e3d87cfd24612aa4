"""Deliveries to webhooks: the message, its tries and their result.

A delivery is queued with its job in the transaction of the event, or in the one that follows the
log: every stored event is sent, and nothing is sent that is not stored.
"""

from __future__ import annotations

import secrets
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta
from sqlalchemy import (
    Column,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    Table,
    select,
    update,
)
from sqlalchemy import PrimaryKeyConstraint as PrimaryKey

from tallymark.errors import NotFound
from tallymark.store.database import TenantRows
from tallymark.store.dialects import (
    CodePointText,
    FiniteFloat,
    JsonText,
    RowKey,
    insert_once,
    metadata,
)
from tallymark.store.job_wakeups import find_wakeups
from tallymark.store.jobs import NewJob, add_rows, jobs
from tallymark.store.leases import read_clock
from tallymark.store.quick_statements import QuickStatements
from tallymark.store.row_numbers import take_number
from tallymark.text import shorten

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sqlalchemy import Connection

    from tallymark.runs.record import RunRecord


webhook_rows = Table(
    "webhooks",
    metadata,
    Column("tenant", CodePointText, nullable=False),
    Column("id", CodePointText, nullable=False),
    Column("url", CodePointText, nullable=False),
    Column("events", JsonText, nullable=False),
    Column("challenge", CodePointText),  # of this one alone; NULL is of all
    Column("suite", CodePointText),
    Column("state", CodePointText, nullable=False),
    Column("made_by", CodePointText, nullable=False),
    Column("created_at", FiniteFloat, nullable=False),
    # The signing secret is sealed, as other secrets are.
    Column("key_id", CodePointText, nullable=False),
    Column("sealed", LargeBinary, nullable=False),
    PrimaryKey("tenant", "id", name="pk_webhooks"),
)

webhook_deliveries = Table(
    "webhook_deliveries",
    metadata,
    Column("number", RowKey, primary_key=True),  # the order in which they came
    Column("tenant", CodePointText, nullable=False),
    Column("webhook", CodePointText, nullable=False),
    Column("id", CodePointText, nullable=False),
    Column("event", CodePointText, nullable=False),
    # Identifies the event, so that it is sent once.
    Column("occasion", CodePointText, nullable=False),
    Column("body", CodePointText, nullable=False),
    Column("created_at", FiniteFloat, nullable=False),
    Column("state", CodePointText, nullable=False),
    Column("tries", Integer, nullable=False),
    Column("tried_at", FiniteFloat),
    Column("status", Integer),  # of the last answer; NULL where there was none
    Column("error", CodePointText),
    ForeignKeyConstraint(
        ["tenant", "webhook"],
        ["webhooks.tenant", "webhooks.id"],
        name="fk_webhook_deliveries",
        ondelete="CASCADE",
    ),
    Index("ux_webhook_deliveries_id", "tenant", "id", unique=True),
    Index("ux_webhook_deliveries_occasion", "tenant", "webhook", "occasion", unique=True),
    Index("ix_webhook_deliveries_order", "tenant", "webhook", "number"),
)


# The last log entry of a challenge that was announced, and the record at that time.
webhook_marks = Table(
    "webhook_marks",
    metadata,
    Column("challenge_id", RowKey, nullable=False),
    Column("tenant", CodePointText, nullable=False),
    Column("seq", RowKey, nullable=False),
    Column("revision", Integer, nullable=False),
    Column("record", JsonText),
    PrimaryKey("challenge_id", name="pk_webhook_marks"),
)
DELIVER = "deliver"
"""The kind of job."""
DeliveryState = Literal["waiting", "delivered", "failed"]


class Occurrence(msgspec.Struct, frozen=True, kw_only=True):
    """An event that webhooks may want."""

    event: str
    occasion: str
    """Identifies the event: an occasion is sent once."""
    at: float
    data: dict[str, Any]
    challenge: str | None = None
    suite: str | None = None


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """A message to a webhook, and the result of sending it."""

    id: Annotated[str, Meta(description="Sent as `webhook-id`, also when it is sent again.")]
    webhook: str
    event: str
    body: Annotated[str, Meta(description="What is signed and sent.")]
    created_at: float
    state: DeliveryState
    tries: int
    tried_at: float | None
    status: Annotated[int | None, Meta(description="HTTP status of the last answer.")]
    error: str | None


_FIELDS = [webhook_deliveries.c[name] for name in Delivery.__struct_fields__]


def queue_deliveries(
    connection: Connection,
    tenant: str,
    happened: Iterable[Occurrence],
    *,
    only: str | None = None,
) -> int:
    """Queue an event for the tenant's active webhooks that want it; return how many.

    `only` is a webhook that gets it in any case, as in a trial.
    """
    columns = (webhook_rows.c[name] for name in ("id", "events", "challenge", "suite"))
    active = select(*columns).where(
        webhook_rows.c.tenant == tenant, webhook_rows.c.state == "active"
    )
    hooks = connection.execute(active).all()
    queued = 0
    for each in happened if hooks else ():
        for hook in hooks:
            wants = (
                each.event in hook.events
                and hook.challenge in (None, each.challenge)
                and hook.suite in (None, each.suite)
            )
            if wants if only is None else hook.id == only:
                queued += _queue(connection, tenant, hook.id, each)
    return queued


def queue_waiting(connection: Connection, tenant: str, webhook_id: str) -> None:
    """Queue what waits for a webhook that was paused."""
    mine = (webhook_deliveries.c.tenant == tenant, webhook_deliveries.c.webhook == webhook_id)
    waiting = connection.scalars(
        select(webhook_deliveries.c.id).where(*mine, webhook_deliveries.c.state == "waiting")
    )
    todo = [NewJob(kind=DELIVER, subject=each, owner=webhook_id) for each in waiting]
    add_rows(connection, tenant, todo)


def _queue(connection: Connection, tenant: str, webhook_id: str, told: Occurrence) -> int:
    delivery = f"whd_{secrets.token_hex(10)}"
    body = {"type": told.event, "timestamp": _write_moment(told.at), "data": told.data}
    row = {
        "number": take_number(connection, webhook_deliveries.name, tenant),
        "tenant": tenant,
        "webhook": webhook_id,
        "id": delivery,
        "event": told.event,
        "occasion": told.occasion,
        "body": msgspec.json.encode(body).decode(),
        "created_at": told.at,
        "state": "waiting",
        "tries": 0,
    }
    if not insert_once(connection, webhook_deliveries, row):
        return 0
    add_rows(connection, tenant, [NewJob(kind=DELIVER, subject=delivery, owner=webhook_id)])
    return 1


def _write_moment(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z")


class Deliveries(TenantRows):
    def announce(self, happened: Occurrence, *, only: str | None = None) -> int:
        """Queue an event for all webhooks that want it; return how many."""
        if not self._database.look():
            return 0
        count = self._database.write(
            lambda c: queue_deliveries(c, self._tenant, [happened], only=only)
        )
        if count:
            find_wakeups(self._database).ring()
        return count

    def get(self, delivery_id: str) -> Delivery:
        with self._database.read() as connection:
            return self._read(connection, delivery_id)

    def list(
        self,
        webhook: str,
        *,
        state: DeliveryState | None = None,
        before: str | None = None,
        limit: int = 50,
    ) -> list[Delivery]:
        """Deliveries of a webhook, newest first; `before` is the last one of the page before."""
        query = select(*_FIELDS).where(
            *self._of(webhook),
            *([] if state is None else [webhook_deliveries.c.state == state]),
            *([] if before is None else [webhook_deliveries.c.number < self._find_number(before)]),
        )
        with self._database.read() as connection:
            rows = connection.execute(
                query.order_by(webhook_deliveries.c.number.desc()).limit(limit)
            )
            return [Delivery(**row._asdict()) for row in rows]

    def note_try(
        self,
        delivery: Delivery,
        *,
        at: float,
        state: DeliveryState,
        status: int | None,
        error: str | None,
    ) -> None:
        """Store the result of sending a delivery."""
        tried = {"state": state, "status": status, "error": error, "tried_at": at}
        change = (
            update(webhook_deliveries)
            .where(*self._mine(delivery.id))
            .values(**tried, tries=delivery.tries + 1)
        )
        self._database.write(lambda c: c.execute(change).rowcount)

    def replay(self, webhook: str, delivery_id: str) -> Delivery:
        """Send a delivery again under the same id, however it ended."""

        def work(connection: Connection) -> Delivery:
            found = self._read(connection, delivery_id)
            if found.webhook != webhook:
                raise _explain_unknown(delivery_id)
            anew = {"state": "waiting", "tries": 0, "status": None, "error": None}
            change = update(webhook_deliveries).where(*self._mine(delivery_id))
            connection.execute(change.values(**anew, tried_at=None))
            _hasten(connection, self._tenant, found)
            return self._read(connection, delivery_id)

        queued = self._database.write(work)
        find_wakeups(self._database).ring()
        return queued

    def _of(self, webhook: str) -> tuple[Any, ...]:
        return (
            webhook_deliveries.c.tenant == self._tenant,
            webhook_deliveries.c.webhook == webhook,
        )

    def _mine(self, delivery_id: str) -> tuple[Any, ...]:
        return (webhook_deliveries.c.tenant == self._tenant, webhook_deliveries.c.id == delivery_id)

    def _find_number(self, delivery_id: str) -> Any:
        return select(webhook_deliveries.c.number).where(*self._mine(delivery_id)).scalar_subquery()

    def _read(self, connection: Connection, delivery_id: str) -> Delivery:
        query = select(*_FIELDS).where(*self._mine(delivery_id))
        row = connection.execute(query).one_or_none()
        if row is None:
            raise _explain_unknown(delivery_id)
        return Delivery(**row._asdict())


def _hasten(connection: Connection, tenant: str, delivery: Delivery) -> None:
    """Have a delivery sent now, whether its job still waits or has ended."""
    waits = (jobs.c.tenant == tenant, jobs.c.kind == DELIVER, jobs.c.subject == delivery.id)
    at_once = {"state": "queued", "failures": 0, "not_before": read_clock(connection)}
    waiting = update(jobs).where(*waits, jobs.c.state.in_(("queued", "set_aside")))
    if not connection.execute(waiting.values(at_once)).rowcount:
        job = NewJob(kind=DELIVER, subject=delivery.id, owner=delivery.webhook)
        add_rows(connection, tenant, [job])


def _explain_unknown(delivery_id: str) -> NotFound:
    return NotFound(f"there is no delivery {shorten(delivery_id, 40)!r}", hint="list them")


_ACTIVE = "SELECT 1 FROM webhooks WHERE tenant = ? AND state = 'active' LIMIT 1"
_OVER = ("completed", "partial_failure", "failed", "cancelled")


def describe_run(record: RunRecord) -> dict[str, Any]:
    """Fields of a run in webhook messages."""
    names = ("id", "suite", "model", "status", "score", "score_low", "score_high", "score_error")
    counts = ("passed", "failed", "errors", "total", "started_at", "finished_at", "tags", "error")
    told = {name: getattr(record, name) for name in (*names, *counts)}
    return told | {"score_formula": record.score_formula, "group": record.group}


def announce_end(connection: Connection, tenant: str, record: RunRecord) -> int:
    """Queue the event of a run that ended; return the number of webhooks."""
    if record.status not in _OVER or not QuickStatements(connection).read(_ACTIVE, tenant):
        return 0
    at = record.finished_at or record.created_at
    ended = Occurrence(
        event="run.finished",
        occasion=f"{record.id} {record.status} {at}",
        at=at,
        data={"run": describe_run(record)},
        suite=record.suite,
    )
    return queue_deliveries(connection, tenant, [ended])


def tell_failed_gate(record: RunRecord, failures: Sequence[str], at: float) -> Occurrence:
    """Event of a run that failed a gate."""
    return Occurrence(
        event="gate.failed",
        occasion=f"{record.id} gate {at}",
        at=at,
        data={"run": describe_run(record), "failures": list(failures)},
        suite=record.suite,
    )
