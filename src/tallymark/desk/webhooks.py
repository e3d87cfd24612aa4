"""What commands ask about webhooks."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from tallymark.service.webhooks import NewWebhook, WebhookService
from tallymark.store.webhooks.deliveries import Delivery
from tallymark.store.webhooks.webhooks import Webhook, WebhookState

if TYPE_CHECKING:
    from tallymark.client.sync.client import Client
    from tallymark.service.app import App


class WebhookDesk(Protocol):
    """Addresses that are told what happened."""

    def add(
        self, url: str, events: Sequence[str] | None, challenge: str | None, suite: str | None
    ) -> NewWebhook:
        """Has an address told of what happens from now on."""

    def list(self) -> Sequence[Webhook]:
        """The oldest first."""

    def set_state(self, webhook: str, state: WebhookState) -> Webhook:
        """Pauses it, or lets it go on."""

    def rotate(self, webhook: str) -> NewWebhook:
        """Signs with another secret."""

    def remove(self, webhook: str) -> Webhook:
        """Forgets it."""

    def ping(self, webhook: str) -> int:
        """Tries it out."""

    def deliveries(self, webhook: str, state: str | None, limit: int) -> Sequence[Delivery]:
        """What was sent or waits, newest first."""

    def replay(self, webhook: str, delivery: str) -> Delivery:
        """Sends a message again."""


@dataclass(frozen=True)
class LocalWebhooks:
    """Webhooks in a database."""

    app: App

    @cached_property
    def _service(self) -> WebhookService:
        # Whoever has the database may name any address; the server that sends has its own rules.
        return WebhookService(self.app.store, frozenset(), own=True, clock=time.time)

    def add(
        self, url: str, events: Sequence[str] | None, challenge: str | None, suite: str | None
    ) -> NewWebhook:
        """Has an address told of what happens from now on."""
        wanted = {} if events is None else {"events": events}
        return self._service.add(
            url, challenge=challenge, suite=suite, made_by="operator", **wanted
        )

    def list(self) -> Sequence[Webhook]:
        """The oldest first."""
        self.app.store.require()
        return self.app.store.webhooks.all()

    def set_state(self, webhook: str, state: WebhookState) -> Webhook:
        """Pauses it, or lets it go on."""
        self.app.store.require()
        return self.app.store.webhooks.set_state(webhook, state, at=time.time())

    def rotate(self, webhook: str) -> NewWebhook:
        """Signs with another secret."""
        self.app.store.require()
        return self._service.rotate(webhook)

    def remove(self, webhook: str) -> Webhook:
        """Forgets it."""
        self.app.store.require()
        return self.app.store.webhooks.remove(webhook, at=time.time())

    def ping(self, webhook: str) -> int:
        """Tries it out."""
        return self._service.ping(webhook)

    def deliveries(self, webhook: str, state: str | None, limit: int) -> Sequence[Delivery]:
        """What was sent or waits, newest first."""
        self.app.store.webhooks.get(webhook)
        return self.app.store.deliveries.list(webhook, state=state, limit=limit)

    def replay(self, webhook: str, delivery: str) -> Delivery:
        """Sends a message again."""
        self.app.store.require()
        return self.app.store.deliveries.replay(webhook, delivery)


@dataclass(frozen=True)
class RemoteWebhooks:
    """Webhooks that a server keeps."""

    client: Client

    def add(
        self, url: str, events: Sequence[str] | None, challenge: str | None, suite: str | None
    ) -> NewWebhook:
        """Has an address told of what happens from now on."""
        made = self.client.webhooks.add(url, events=events, challenge=challenge, suite=suite)
        return NewWebhook(_read_webhook(made.webhook), made.secret or "")

    def list(self) -> Sequence[Webhook]:
        """The oldest first."""
        return [_read_webhook(each) for each in self.client.webhooks.list()]

    def set_state(self, webhook: str, state: WebhookState) -> Webhook:
        """Pauses it, or lets it go on."""
        change = {"active": self.client.webhooks.resume, "paused": self.client.webhooks.pause}
        return _read_webhook(change[state](webhook))

    def rotate(self, webhook: str) -> NewWebhook:
        """Signs with another secret."""
        made = self.client.webhooks.rotate(webhook)
        return NewWebhook(_read_webhook(made.webhook), made.secret or "")

    def remove(self, webhook: str) -> Webhook:
        """Forgets it."""
        return _read_webhook(self.client.webhooks.remove(webhook))

    def ping(self, webhook: str) -> int:
        """Tries it out."""
        return self.client.webhooks.ping(webhook)

    def deliveries(self, webhook: str, state: str | None, limit: int) -> Sequence[Delivery]:
        """What was sent or waits, newest first."""
        wanted: Any = state
        told = self.client.webhooks.deliveries(webhook, state=wanted, limit=limit)
        return [_read_delivery(each, webhook) for each in told]

    def replay(self, webhook: str, delivery: str) -> Delivery:
        """Sends a message again."""
        return _read_delivery(self.client.webhooks.replay(webhook, delivery), webhook)


def _read_webhook(told: Any) -> Webhook:
    return msgspec.convert(told.model_dump(), Webhook)


def _read_delivery(told: Any, webhook: str) -> Delivery:
    return msgspec.convert(told.model_dump() | {"number": 0, "webhook": webhook}, Delivery)
