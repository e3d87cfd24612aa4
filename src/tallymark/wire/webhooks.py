"""Webhooks: addresses that are told what happened, and what was sent to them."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from tallymark.wire.parts import Asked, Listed, Moment, Told

EventName = Literal["run.finished", "gate.failed", "record.beaten", "attempt.failed"]
DeliveryState = Literal["waiting", "delivered", "failed"]


class NewWebhook(Asked):
    """An address that is told what happens from now on."""

    url: str = Field(min_length=1, max_length=2000, examples=["https://example.com/hooks/tally"])
    events: list[EventName] = Field(
        ["run.finished", "gate.failed", "record.beaten", "attempt.failed"],
        min_length=1,
        description="What it is told of; all unless named.",
    )
    challenge: str | None = Field(
        None, min_length=1, max_length=100, description="Of this challenge alone."
    )
    suite: str | None = Field(
        None, min_length=1, max_length=300, description="Of this suite alone."
    )


class Webhook(Told):
    """A webhook, without what signs for it."""

    id: str
    url: str
    events: list[str]
    challenge: str | None
    suite: str | None
    state: Literal["active", "paused"]
    made_by: str
    created_at: Moment


class OneWebhook(Told):
    """A webhook."""

    webhook: Webhook


class MadeWebhook(OneWebhook):
    """`secret` signs the messages. It is shown this once; asked again, it is null."""

    secret: str | None


class WebhookPage(Listed[Webhook]):
    """Webhooks, oldest first."""


class Delivery(Told):
    """A message to a webhook, and what came of it."""

    id: str = Field(description="As `webhook-id`: sent again, it is the same.")
    event: str
    created_at: Moment
    state: DeliveryState
    tries: int
    tried_at: Moment | None
    status: int | None = Field(description="Of the last answer.")
    error: str | None
    body: str = Field(description="What was signed and sent.")


class OneDelivery(Told):
    """A delivery."""

    delivery: Delivery


class DeliveryPage(Listed[Delivery]):
    """Deliveries, newest first."""


class Announced(Told):
    """How many webhooks are told."""

    webhooks: int
