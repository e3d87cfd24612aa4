"""`/webhooks`: addresses that are told what happened, and what was sent to them."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from fastapi import Path, Response

from tallymark.http.access import ORGANISERS, Services, Who, may
from tallymark.http.answers import Cursor, Limit, ValidateOnly, answer, answer_once
from tallymark.http.api_route import make_router
from tallymark.service.cursors import read_cursor, write_cursor
from tallymark.service.jobs import name_owner
from tallymark.service.webhooks import NewWebhook
from tallymark.store.webhooks.deliveries import Delivery
from tallymark.store.webhooks.webhooks import Webhook
from tallymark.wire import webhooks as wire

router = make_router("webhooks")
Id = Annotated[str, Path(max_length=100)]
READ, WRITE = [may(ORGANISERS)], [may(ORGANISERS, "write")]


@router.post("/webhooks", response_model=wire.MadeWebhook, status_code=201, dependencies=WRITE)
def add_webhook(
    body: wire.NewWebhook, services: Services, caller: Who, validate_only: ValidateOnly = False
) -> Response:
    """Have an address told of what happens from now on. What signs is shown this once."""
    made = services.webhooks.add(
        body.url,
        events=body.events,
        challenge=body.challenge,
        suite=body.suite,
        made_by=name_owner(caller),
    )
    return _answer_made(made)


@router.get("/webhooks", response_model=wire.WebhookPage, dependencies=READ)
def list_webhooks(services: Services) -> Response:
    """Webhooks, oldest first."""
    items = [msgspec.to_builtins(each) for each in services.store.webhooks.all()]
    return answer({"items": items, "next": None})


@router.get("/webhooks/{webhook}", response_model=wire.OneWebhook, dependencies=READ)
def get_webhook(webhook: Id, services: Services) -> Response:
    """What a webhook is told of."""
    return _answer_one(services.store.webhooks.get(webhook))


@router.post("/webhooks/{webhook}/pause", response_model=wire.OneWebhook, dependencies=WRITE)
def pause_webhook(webhook: Id, services: Services, validate_only: ValidateOnly = False) -> Response:
    """Send nothing until it is resumed; what it has not heard by now waits."""
    return _answer_one(services.store.webhooks.set_state(webhook, "paused", at=services.now))


@router.post("/webhooks/{webhook}/resume", response_model=wire.OneWebhook, dependencies=WRITE)
def resume_webhook(
    webhook: Id, services: Services, validate_only: ValidateOnly = False
) -> Response:
    """Go on, first with what waits."""
    return _answer_one(services.store.webhooks.set_state(webhook, "active", at=services.now))


@router.post(
    "/webhooks/{webhook}/rotate",
    response_model=wire.MadeWebhook,
    status_code=201,
    dependencies=WRITE,
)
def rotate_webhook(
    webhook: Id, services: Services, validate_only: ValidateOnly = False
) -> Response:
    """Sign with another secret from now on, which is shown this once."""
    return _answer_made(services.webhooks.rotate(webhook))


@router.delete("/webhooks/{webhook}", response_model=wire.OneWebhook, dependencies=WRITE)
def remove_webhook(webhook: Id, services: Services) -> Response:
    """Tell it nothing more, and forget what it was told."""
    return _answer_one(services.store.webhooks.remove(webhook, at=services.now))


@router.post(
    "/webhooks/{webhook}/ping",
    response_model=wire.Announced,
    status_code=202,
    dependencies=WRITE,
)
def ping_webhook(webhook: Id, services: Services, validate_only: ValidateOnly = False) -> Response:
    """Send something that did not happen, to try the address out."""
    return answer({"webhooks": services.webhooks.ping(webhook)}, 202)


@router.get("/webhooks/{webhook}/deliveries", response_model=wire.DeliveryPage, dependencies=READ)
def list_deliveries(
    webhook: Id,
    services: Services,
    state: wire.DeliveryState | None = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """What was sent or waits, newest first, with what came of it."""
    services.store.webhooks.get(webhook)
    place: Any = read_cursor(cursor, int)
    found = services.store.deliveries.list(
        webhook, state=state, before=place[0] if place else None, limit=limit + 1
    )
    more = write_cursor(found[limit - 1].number) if len(found) > limit else None
    return answer({"items": [_describe(each) for each in found[:limit]], "next": more})


@router.post(
    "/webhooks/{webhook}/deliveries/{delivery}/replay",
    response_model=wire.OneDelivery,
    status_code=202,
    dependencies=WRITE,
)
def replay_delivery(
    webhook: Id, delivery: Id, services: Services, validate_only: ValidateOnly = False
) -> Response:
    """Send a message again, under the same id."""
    found = services.store.deliveries.replay(webhook, delivery)
    return answer({"delivery": _describe(found)}, 202)


def _answer_one(webhook: Webhook) -> Response:
    return answer({"webhook": msgspec.to_builtins(webhook)})


def _answer_made(made: NewWebhook) -> Response:
    return answer_once(
        {"webhook": msgspec.to_builtins(made.webhook), "secret": made.secret}, "secret"
    )


def _describe(delivery: Delivery) -> dict[str, Any]:
    told: dict[str, Any] = msgspec.to_builtins(delivery)
    del told["number"], told["webhook"]
    return told
