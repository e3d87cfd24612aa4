"""`Webhooks`: addresses that are told what happened, and what was sent to them."""

# Written by `make client` from client/aio/webhooks.py: change that one.

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Unpack

from tallymark.client.exchange import CallOptions
from tallymark.client.sync.resource import Resource
from tallymark.wire import webhooks as wire


class Webhooks(Resource):
    """Addresses that are told what happened."""

    def add(
        self,
        url: str,
        *,
        events: Sequence[str] | None = None,
        challenge: str | None = None,
        suite: str | None = None,
        **options: Unpack[CallOptions],
    ) -> wire.MadeWebhook:
        """Has an address told of what happens from now on; what signs is shown this once."""
        wanted = {"url": url, "challenge": challenge, "suite": suite}
        body: dict[str, Any] = {name: each for name, each in wanted.items() if each is not None}
        if events is not None:
            body["events"] = list(events)
        return self._ask(wire.MadeWebhook, "POST", "webhooks", body=body, **options)

    def list(self, **options: Unpack[CallOptions]) -> Iterator[wire.Webhook]:
        """Webhooks, oldest first."""
        return self._page(wire.Webhook, "webhooks", **options)

    def get(self, webhook: str, **options: Unpack[CallOptions]) -> wire.Webhook:
        """What a webhook is told of."""
        return (self._ask(wire.OneWebhook, "GET", "webhooks", webhook, **options)).webhook

    def pause(self, webhook: str, **options: Unpack[CallOptions]) -> wire.Webhook:
        """Sends nothing until it is resumed."""
        path = ("webhooks", webhook, "pause")
        return (self._ask(wire.OneWebhook, "POST", *path, **options)).webhook

    def resume(self, webhook: str, **options: Unpack[CallOptions]) -> wire.Webhook:
        """Goes on, first with what waits."""
        path = ("webhooks", webhook, "resume")
        return (self._ask(wire.OneWebhook, "POST", *path, **options)).webhook

    def rotate(self, webhook: str, **options: Unpack[CallOptions]) -> wire.MadeWebhook:
        """Signs with another secret from now on, which is shown this once."""
        path = ("webhooks", webhook, "rotate")
        return self._ask(wire.MadeWebhook, "POST", *path, **options)

    def remove(self, webhook: str, **options: Unpack[CallOptions]) -> wire.Webhook:
        """Tells it nothing more, and forgets what it was told."""
        return (self._ask(wire.OneWebhook, "DELETE", "webhooks", webhook, **options)).webhook

    def ping(self, webhook: str, **options: Unpack[CallOptions]) -> int:
        """Sends something that did not happen, to try the address out."""
        path = ("webhooks", webhook, "ping")
        return (self._ask(wire.Announced, "POST", *path, **options)).webhooks

    def deliveries(
        self,
        webhook: str,
        *,
        state: wire.DeliveryState | None = None,
        limit: int | None = None,
        **options: Unpack[CallOptions],
    ) -> Iterator[wire.Delivery]:
        """What was sent or waits, newest first."""
        path, params = ("webhooks", webhook, "deliveries"), {"state": state}
        return self._page(wire.Delivery, *path, limit=limit, params=params, **options)

    def replay(self, webhook: str, delivery: str, **options: Unpack[CallOptions]) -> wire.Delivery:
        """Sends a message again, under the same id."""
        path = ("webhooks", webhook, "deliveries", delivery, "replay")
        return (self._ask(wire.OneDelivery, "POST", *path, **options)).delivery
