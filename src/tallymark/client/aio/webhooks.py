"""`AsyncWebhooks`: addresses that are told what happened, and what was sent to them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, Unpack

from tallymark.client.aio.resource import AsyncResource
from tallymark.client.exchange import CallOptions
from tallymark.wire import webhooks as wire


class AsyncWebhooks(AsyncResource):
    """Addresses that are told what happened."""

    async def add(
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
        return await self._ask(wire.MadeWebhook, "POST", "webhooks", body=body, **options)

    def list(self, **options: Unpack[CallOptions]) -> AsyncIterator[wire.Webhook]:
        """Webhooks, oldest first."""
        return self._page(wire.Webhook, "webhooks", **options)

    async def get(self, webhook: str, **options: Unpack[CallOptions]) -> wire.Webhook:
        """What a webhook is told of."""
        return (await self._ask(wire.OneWebhook, "GET", "webhooks", webhook, **options)).webhook

    async def pause(self, webhook: str, **options: Unpack[CallOptions]) -> wire.Webhook:
        """Sends nothing until it is resumed."""
        path = ("webhooks", webhook, "pause")
        return (await self._ask(wire.OneWebhook, "POST", *path, **options)).webhook

    async def resume(self, webhook: str, **options: Unpack[CallOptions]) -> wire.Webhook:
        """Goes on, first with what waits."""
        path = ("webhooks", webhook, "resume")
        return (await self._ask(wire.OneWebhook, "POST", *path, **options)).webhook

    async def rotate(self, webhook: str, **options: Unpack[CallOptions]) -> wire.MadeWebhook:
        """Signs with another secret from now on, which is shown this once."""
        path = ("webhooks", webhook, "rotate")
        return await self._ask(wire.MadeWebhook, "POST", *path, **options)

    async def remove(self, webhook: str, **options: Unpack[CallOptions]) -> wire.Webhook:
        """Tells it nothing more, and forgets what it was told."""
        return (await self._ask(wire.OneWebhook, "DELETE", "webhooks", webhook, **options)).webhook

    async def ping(self, webhook: str, **options: Unpack[CallOptions]) -> int:
        """Sends something that did not happen, to try the address out."""
        path = ("webhooks", webhook, "ping")
        return (await self._ask(wire.Announced, "POST", *path, **options)).webhooks

    def deliveries(
        self,
        webhook: str,
        *,
        state: wire.DeliveryState | None = None,
        limit: int | None = None,
        **options: Unpack[CallOptions],
    ) -> AsyncIterator[wire.Delivery]:
        """What was sent or waits, newest first."""
        path, params = ("webhooks", webhook, "deliveries"), {"state": state}
        return self._page(wire.Delivery, *path, limit=limit, params=params, **options)

    async def replay(
        self, webhook: str, delivery: str, **options: Unpack[CallOptions]
    ) -> wire.Delivery:
        """Sends a message again, under the same id."""
        path = ("webhooks", webhook, "deliveries", delivery, "replay")
        return (await self._ask(wire.OneDelivery, "POST", *path, **options)).delivery
