"""Webhooks of a tenant: addresses that are told what happened, each with what signs for it."""

from __future__ import annotations

import secrets
from base64 import b64encode
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta
from sqlalchemy import delete, func, insert, select, update

from tallymark.errors import Conflict, NotFound, WorkFailed
from tallymark.store.contests.audit_log import write_account_entry
from tallymark.store.database import TenantRows
from tallymark.store.secrets import find_keys, find_or_make_key
from tallymark.store.webhooks.announcements import EventName, mark_all
from tallymark.store.webhooks.deliveries import queue_waiting
from tallymark.store.webhooks.webhook_tables import webhooks as table
from tallymark.text import shorten

if TYPE_CHECKING:
    from sqlalchemy import Connection

WebhookState = Literal["active", "paused"]
MOST = 20
"""Of a tenant: each is one more request for everything that happens."""


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


_FIELDS = [table.c[name] for name in Webhook.__struct_fields__]


def make_secret() -> str:
    """What signs, as receivers that know Standard Webhooks take it."""
    return f"whsec_{b64encode(secrets.token_bytes(32)).decode()}"


class Webhooks(TenantRows):
    """What `store.webhooks` is."""

    def add(self, webhook: Webhook, secret: str) -> None:
        """Keeps a new webhook, which hears of what happens from now on."""

        def work(connection: Connection) -> None:
            if connection.scalar(select(table.c.id).where(self._mine(webhook.id))) is not None:
                return  # a lost connection had committed
            count = select(func.count()).where(table.c.tenant == self._tenant)
            if (connection.scalar(count) or 0) >= MOST:
                raise Conflict(f"there are {MOST} webhooks already", hint="remove one first")
            self._catch_up(connection)
            row = msgspec.structs.asdict(webhook) | self._seal(webhook.id, secret)
            connection.execute(insert(table).values(tenant=self._tenant, **row))
            self._log(connection, webhook, "webhook added", webhook.created_at)

        self._database.write(work)

    def all(self) -> list[Webhook]:
        """The oldest first."""
        if not self._database.look():
            return []
        query = select(*_FIELDS).where(table.c.tenant == self._tenant)
        with self._database.read() as connection:
            rows = connection.execute(query.order_by(table.c.created_at, table.c.id))
            return [_to_webhook(row._asdict()) for row in rows]

    def get(self, webhook_id: str) -> Webhook:
        """One, by its id."""
        with self._database.read() as connection:
            return self._read(connection, webhook_id)

    def set_state(self, webhook_id: str, state: WebhookState, *, at: float) -> Webhook:
        """Pauses it, or lets it go on with what waits for it."""

        def work(connection: Connection) -> Webhook:
            found = self._read(connection, webhook_id)
            if found.state != state:
                if state == "active":
                    self._catch_up(connection)
                connection.execute(update(table).where(self._mine(webhook_id)).values(state=state))
                words = {"active": "webhook resumed", "paused": "webhook paused"}
                self._log(connection, found, words[state], at)
            if state == "active":
                queue_waiting(connection, self._tenant, webhook_id)
            return msgspec.structs.replace(found, state=state)

        return self._database.write(work)

    def replace_secret(self, webhook_id: str, secret: str, *, at: float) -> Webhook:
        """From now on it is signed by another."""

        def work(connection: Connection) -> Webhook:
            found = self._read(connection, webhook_id)
            sealed = self._seal(webhook_id, secret)
            connection.execute(update(table).where(self._mine(webhook_id)).values(sealed))
            self._log(connection, found, "webhook rotated", at)
            return found

        return self._database.write(work)

    def remove(self, webhook_id: str, *, at: float) -> Webhook:
        """Forgets it, with all that was or will be sent to it."""

        def work(connection: Connection) -> Webhook:
            found = self._read(connection, webhook_id)
            connection.execute(delete(table).where(self._mine(webhook_id)))
            self._log(connection, found, "webhook removed", at)
            return found

        return self._database.write(work)

    def open_secret(self, webhook_id: str) -> str:
        """What signs for it."""
        with self._database.read() as connection:
            query = select(table.c.key_id, table.c.sealed).where(self._mine(webhook_id))
            row = connection.execute(query).one()
        key = find_keys(self._database.address).get(row.key_id)
        if key is None:
            raise WorkFailed(
                f"what signs for the webhook {webhook_id} was sealed by a key that is not here",
                hint=f"bring that key back, or: tally webhooks rotate {webhook_id}",
            )
        return key.open(row.sealed, (self._tenant, webhook_id))

    def _mine(self, webhook_id: str) -> Any:
        return (table.c.tenant == self._tenant) & (table.c.id == webhook_id)

    def _read(self, connection: Connection, webhook_id: str) -> Webhook:
        row = connection.execute(select(*_FIELDS).where(self._mine(webhook_id))).one_or_none()
        if row is None:
            raise NotFound(f"there is no webhook {shorten(webhook_id, 40)!r}", hint="list them")
        return _to_webhook(row._asdict())

    def _seal(self, webhook_id: str, secret: str) -> dict[str, Any]:
        key = find_or_make_key(self._database.address)
        return {"key_id": key.id, "sealed": key.seal(secret, (self._tenant, webhook_id))}

    def _catch_up(self, connection: Connection) -> None:
        """While nobody listens, nothing is noted: whoever comes first hears of what is new."""
        listening = select(table.c.id).where(
            table.c.tenant == self._tenant, table.c.state == "active"
        )
        if connection.execute(listening.limit(1)).first() is None:
            mark_all(connection, self._tenant)

    def _log(self, connection: Connection, webhook: Webhook, event: str, at: float) -> None:
        write_account_entry(
            connection, self._tenant, event, at, webhook=webhook.id, url=webhook.url
        )


def _to_webhook(row: dict[str, Any]) -> Webhook:
    return Webhook(**row | {"events": tuple(row["events"])})
