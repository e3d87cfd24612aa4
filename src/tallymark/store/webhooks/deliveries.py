"""Deliveries: what is to be told to a webhook, how often that was tried, and what came of it.

One is queued in the transaction in which something happens, or in which the log is followed, with
the job that will send it: what is stored is told, and nothing is told that is not stored.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta
from sqlalchemy import select, update

from tallymark.errors import NotFound
from tallymark.store.database import TenantRows
from tallymark.store.database_dialects import insert_once
from tallymark.store.jobs.job_bell import find_bell
from tallymark.store.jobs.job_tables import jobs
from tallymark.store.jobs.jobs import NewJob, add_rows
from tallymark.store.leases import read_clock
from tallymark.store.row_numbers import take_number
from tallymark.store.webhooks.webhook_tables import webhook_deliveries as table
from tallymark.store.webhooks.webhook_tables import webhooks
from tallymark.text import shorten

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sqlalchemy import Connection

DELIVER = "deliver"
"""The kind of job."""
DeliveryState = Literal["waiting", "delivered", "failed"]


class Occurrence(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened, and that webhooks may want to hear of."""

    event: str
    occasion: str
    """Of two with the same, one is told."""
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


_FIELDS = [table.c[name] for name in Delivery.__struct_fields__]


def queue_deliveries(
    connection: Connection,
    tenant: str,
    happened: Iterable[Occurrence],
    *,
    only: str | None = None,
) -> int:
    """Queues what the tenant's active webhooks want to hear of; how many deliveries that is.

    `only` is a webhook that hears of it whatever it wants, as when it is tried out.
    """
    columns = (webhooks.c[name] for name in ("id", "events", "challenge", "suite"))
    active = select(*columns).where(webhooks.c.tenant == tenant, webhooks.c.state == "active")
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
    """Has sent what waits for a webhook, after a pause."""
    mine = (table.c.tenant == tenant, table.c.webhook == webhook_id)
    waiting = connection.scalars(select(table.c.id).where(*mine, table.c.state == "waiting"))
    todo = [NewJob(kind=DELIVER, subject=each, owner=webhook_id) for each in waiting]
    add_rows(connection, tenant, todo)


def _queue(connection: Connection, tenant: str, webhook_id: str, told: Occurrence) -> int:
    delivery = f"whd_{secrets.token_hex(10)}"
    body = {"type": told.event, "timestamp": _write_moment(told.at), "data": told.data}
    row = {
        "number": take_number(connection, table.name, tenant),
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
    if not insert_once(connection, table, row):
        return 0
    add_rows(connection, tenant, [NewJob(kind=DELIVER, subject=delivery, owner=webhook_id)])
    return 1


def _write_moment(at: float) -> str:
    from datetime import UTC, datetime  # noqa: PLC0415 (few commands tell anybody anything)

    return datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z")


class Deliveries(TenantRows):
    """What `store.deliveries` is."""

    def announce(self, happened: Occurrence, *, only: str | None = None) -> int:
        """Queues it for all webhooks that want to hear of it; how many those are."""
        if not self._database.look():
            return 0
        count = self._database.write(
            lambda c: queue_deliveries(c, self._tenant, [happened], only=only)
        )
        if count:
            find_bell(self._database).ring()
        return count

    def get(self, delivery_id: str) -> Delivery:
        """One, by its id."""
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
        """List those of a webhook, newest first; `before` is the last one of the page before."""
        query = select(*_FIELDS).where(
            *self._of(webhook),
            *([] if state is None else [table.c.state == state]),
            *([] if before is None else [table.c.number < self._find_number(before)]),
        )
        with self._database.read() as connection:
            rows = connection.execute(query.order_by(table.c.number.desc()).limit(limit))
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
        """Writes down what came of sending it."""
        tried = {"state": state, "status": status, "error": error, "tried_at": at}
        change = (
            update(table).where(*self._mine(delivery.id)).values(**tried, tries=delivery.tries + 1)
        )
        self._database.write(lambda c: c.execute(change).rowcount)

    def replay(self, webhook: str, delivery_id: str) -> Delivery:
        """Has it sent again, under the same id, however it ended."""

        def work(connection: Connection) -> Delivery:
            found = self._read(connection, delivery_id)
            if found.webhook != webhook:
                raise _explain_unknown(delivery_id)
            anew = {"state": "waiting", "tries": 0, "status": None, "error": None}
            change = update(table).where(*self._mine(delivery_id))
            connection.execute(change.values(**anew, tried_at=None))
            _hasten(connection, self._tenant, found)
            return self._read(connection, delivery_id)

        queued = self._database.write(work)
        find_bell(self._database).ring()
        return queued

    def _of(self, webhook: str) -> tuple[Any, ...]:
        return (table.c.tenant == self._tenant, table.c.webhook == webhook)

    def _mine(self, delivery_id: str) -> tuple[Any, ...]:
        return (table.c.tenant == self._tenant, table.c.id == delivery_id)

    def _find_number(self, delivery_id: str) -> Any:
        return select(table.c.number).where(*self._mine(delivery_id)).scalar_subquery()

    def _read(self, connection: Connection, delivery_id: str) -> Delivery:
        query = select(*_FIELDS).where(*self._mine(delivery_id))
        row = connection.execute(query).one_or_none()
        if row is None:
            raise _explain_unknown(delivery_id)
        return Delivery(**row._asdict())


def _hasten(connection: Connection, tenant: str, delivery: Delivery) -> None:
    """A job that sends it now, whether one waits for its next try already or none is left."""
    waits = (jobs.c.tenant == tenant, jobs.c.kind == DELIVER, jobs.c.subject == delivery.id)
    at_once = {"state": "queued", "failures": 0, "not_before": read_clock(connection)}
    waiting = update(jobs).where(*waits, jobs.c.state.in_(("queued", "set_aside")))
    if not connection.execute(waiting.values(at_once)).rowcount:
        job = NewJob(kind=DELIVER, subject=delivery.id, owner=delivery.webhook)
        add_rows(connection, tenant, [job])


def _explain_unknown(delivery_id: str) -> NotFound:
    return NotFound(f"there is no delivery {shorten(delivery_id, 40)!r}", hint="list them")
