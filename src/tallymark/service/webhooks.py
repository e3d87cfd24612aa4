"""`WebhookService`: addresses that are told what happened, signed, until they have heard it.

Messages are those of Standard Webhooks, so receivers can check them with a library they have:
`webhook-id`, `webhook-timestamp`, and `webhook-signature`, an HMAC-SHA256 of both and the body.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tallymark.errors import InvalidInput, NotFound, TallymarkError, suggest
from tallymark.models.reach import Reach
from tallymark.store.webhooks.announcements import EVENTS
from tallymark.store.webhooks.deliveries import Occurrence
from tallymark.store.webhooks.webhooks import Webhook, make_secret
from tallymark.text import clean_line, format_number, shorten

if TYPE_CHECKING:
    from tallymark.store import Store
    from tallymark.store.webhooks.deliveries import Delivery

MOST_TRIES = 100
"""At up to 15 minutes between two: about a day."""
_TIMEOUT_S = 10.0
_LONGEST_URL = 2000


@dataclass(frozen=True)
class NewWebhook:
    """A webhook just made, or signed by another secret: it is shown now, and never again."""

    webhook: Webhook
    secret: str


@dataclass(frozen=True)
class Answered:
    """What came of sending a message."""

    status: int | None
    error: str | None

    @property
    def taken(self) -> bool:
        """Whether the receiver has it."""
        return self.error is None


@dataclass(frozen=True)
class WebhookService:
    """Those of one tenant. `may` is what the operator allows of `reach.ALLOWANCES`."""

    store: Store
    may: frozenset[str]
    own: bool
    clock: Callable[[], float]

    def add(
        self,
        url: str,
        *,
        events: Sequence[str] = EVENTS,
        challenge: str | None = None,
        suite: str | None = None,
        made_by: str = "owner",
    ) -> NewWebhook:
        """Has an address told of what happens from now on."""
        self._check_address(url)
        wanted = tuple(dict.fromkeys(_check_event(each) for each in events))
        if not wanted:
            raise InvalidInput(
                "a webhook that hears of nothing is none", hint="name an event (--event)"
            )
        if challenge is not None:
            self.store.challenges.get(challenge)
        if suite is not None:
            self._require_suite(suite)
        made = Webhook(
            id=f"whk_{secrets.token_hex(8)}",
            url=url,
            events=wanted,
            challenge=challenge,
            suite=suite,
            made_by=made_by,
            created_at=self.clock(),
        )
        secret = make_secret()
        self.store.webhooks.add(made, secret)
        return NewWebhook(made, secret)

    def _require_suite(self, suite: str) -> None:
        """A suite is known by its runs; of one that was misspelt nothing would ever be heard."""
        if self.store.exists and self.store.runs(suite=suite, limit=1):
            return
        known = [each.suite for each in self.store.suites()] if self.store.exists else []
        close = suggest(suite, known)
        hint = f"did you mean {close!r}?" if close else "run it once, and then add the webhook"
        raise NotFound(f"no run of a suite {shorten(suite, 60)!r} is kept here", hint=hint)

    def rotate(self, webhook_id: str) -> NewWebhook:
        """Signs with another secret from now on."""
        secret = make_secret()
        return NewWebhook(
            self.store.webhooks.replace_secret(webhook_id, secret, at=self.clock()), secret
        )

    def ping(self, webhook_id: str) -> int:
        """Sends something that did not happen, to try the address out."""
        hook = self.store.webhooks.get(webhook_id)
        if hook.state != "active":
            raise InvalidInput(f"the webhook {webhook_id} is paused", hint="resume it first")
        at = self.clock()
        told = Occurrence(
            event="ping", occasion=f"ping {secrets.token_hex(8)}", at=at, data={"webhook": hook.id}
        )
        return self.store.deliveries.announce(told, only=webhook_id)

    def deliver(self, delivery_id: str) -> Answered | None:
        """Sends a message once, and writes down what came of it; None where nobody waits for it."""
        try:
            delivery = self.store.deliveries.get(delivery_id)
            hook = self.store.webhooks.get(delivery.webhook)
        except NotFound:  # removed meanwhile
            return None
        if hook.state != "active" or delivery.state != "waiting":
            return None
        answered = self._send(hook, delivery)
        last = delivery.tries + 1 >= MOST_TRIES
        self.store.deliveries.note_try(
            delivery,
            at=self.clock(),
            state="delivered" if answered.taken else "failed" if last else "waiting",
            status=answered.status,
            error=answered.error,
        )
        return None if last else answered

    def follow(self) -> dict[str, Any]:
        """Queues what happened at challenges."""
        return {"queued": self.store.follow_challenges()}

    def _send(self, hook: Webhook, delivery: Delivery) -> Answered:
        try:
            self._check_address(hook.url)  # what the operator allows may have changed
            secret = self.store.webhooks.open_secret(hook.id)
        except TallymarkError as error:
            return Answered(None, str(error))
        headers = {"content-type": "application/json", "user-agent": "tallymark-webhooks"}
        headers |= sign(secret, delivery.id, int(self.clock()), delivery.body)
        return asyncio.run(_post(hook.url, headers, delivery.body.encode(), self._reach))

    @property
    def _reach(self) -> Reach:
        return Reach(may=self.may | ({"private-addresses"} if self.own else frozenset()))

    def _check_address(self, url: str) -> None:
        try:
            parts = urlsplit(url)
            host, _ = parts.hostname, parts.port
        except ValueError:
            host, parts = None, urlsplit("")
        if parts.scheme not in ("http", "https") or not host or len(url) > _LONGEST_URL:
            hint = "as https://example.com/hooks/tally"
            raise InvalidInput(f"{shorten(url, 80)!r} is no address for a webhook", hint=hint)
        if parts.username is not None or parts.password is not None:
            raise InvalidInput(
                "a password in a webhook's address would be shown to all who may list it",
                hint="leave it out: messages are signed",
            )
        self._reach.refuse_host(host)


def sign(secret: str, message_id: str, timestamp: int, body: str) -> dict[str, str]:
    """The headers by which a receiver knows that a message is ours, and when it was sent."""
    key = b64decode(secret.removeprefix("whsec_"))
    signed = f"{message_id}.{timestamp}.{body}".encode()
    signature = b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": f"v1,{signature}",
    }


def _check_event(event: str) -> str:
    if event not in EVENTS:
        close = suggest(event, EVENTS)
        hint = f"did you mean {close!r}?" if close else f"known are {', '.join(EVENTS)}"
        raise InvalidInput(f"there is no event {shorten(event, 40)!r}", hint=hint)
    return event


async def _post(url: str, headers: dict[str, str], body: bytes, reach: Reach) -> Answered:
    import aiohttp  # noqa: PLC0415 (heavy; most servers tell nobody)

    connector = reach.make_connector()
    timeout = aiohttp.ClientTimeout(total=_TIMEOUT_S)
    try:
        async with (
            aiohttp.ClientSession(connector=connector, timeout=timeout) as session,
            # Where to is checked; where that leads to is not.
            session.post(url, data=body, headers=headers, allow_redirects=False) as response,
        ):
            status = response.status
    except TimeoutError:
        return Answered(None, f"no answer within {format_number(_TIMEOUT_S)} seconds")
    except (aiohttp.ClientError, OSError, ValueError) as error:
        return Answered(None, clean_line(str(error) or type(error).__name__, 200))
    if 200 <= status < 300:
        return Answered(status, None)
    return Answered(status, f"it answered {status}")
