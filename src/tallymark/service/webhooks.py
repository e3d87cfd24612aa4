"""Webhooks: records, operations, and signed messages that are sent until they are accepted.

Messages are those of Standard Webhooks, so receivers can check them with a library they have:
`webhook-id`, `webhook-timestamp`, and `webhook-signature`, an HMAC-SHA256 of both and the body.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
import threading
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from tallymark.errors import InvalidInput, NotFound, TallymarkError, suggest
from tallymark.service.callers import ORGANISERS, REPORTERS
from tallymark.service.cursors import Cursor, Limit, read_cursor, slice_page, write_cursor
from tallymark.service.jobs import name_owner
from tallymark.service.operations import Page, Resource, operation
from tallymark.store.webhook_deliveries import Delivery as Delivery  # noqa: PLC0414 (a record here)
from tallymark.store.webhook_deliveries import DeliveryState as DeliveryState  # noqa: PLC0414
from tallymark.store.webhook_deliveries import Occurrence, tell_failed_gate
from tallymark.store.webhooks import EVENTS, EventName, make_signing_secret
from tallymark.store.webhooks import Webhook as Webhook  # noqa: PLC0414 (a record here)
from tallymark.text import clean_line, format_number, shorten

if TYPE_CHECKING:
    from tallymark.models.egress_policy import EgressPolicy
    from tallymark.store import Store

MOST_TRIES = 100
"""At up to 15 minutes between two: about a day."""
_SECRET = "secret"  # noqa: S105 (the name of a field)
_TIMEOUT_S = 10.0
_LONGEST_URL = 2000
LONGEST_PAUSE_S = 300.0
PROBE_S = 10.0
"""Seconds after which others retry while one message tries the address again."""
_MOST_FAILING = 10_000
Id = Annotated[str, Meta(max_length=100)]
Url = Annotated[
    str,
    Meta(max_length=_LONGEST_URL, examples=["https://example.com/hooks/tally"]),
]
Events = Annotated[Sequence[EventName], Meta(min_length=1, description="Events to send.")]
OnlyChallenge = Annotated[
    str, Meta(min_length=1, max_length=100, description="Send events of this challenge only.")
]
OnlySuite = Annotated[
    str, Meta(min_length=1, max_length=300, description="Send events of this suite only.")
]
Failure = Annotated[str, Meta(min_length=1, max_length=2000)]
Failures = Annotated[
    list[Failure],
    Meta(min_length=1, max_length=50, examples=[["openai/gpt-5 scored 61, under 80"]]),
]


class NewWebhook(msgspec.Struct, frozen=True, kw_only=True):
    """A webhook that was just made, or has a new secret."""

    webhook: Webhook
    secret: Annotated[
        str | None,
        Meta(description="Signs the messages. It is shown once; in a repeated answer it is null."),
    ]


class Webhooks(Resource):
    """Addresses that events are sent to."""

    @operation("POST /webhooks", ORGANISERS, rate="write", status=201, secret=_SECRET)
    def add(
        self,
        url: Url,
        events: Events = EVENTS,
        challenge: OnlyChallenge | None = None,
        suite: OnlySuite | None = None,
    ) -> NewWebhook:
        """Send events to an address from now on; the signing secret is shown once."""
        check_address(url, self._egress)
        if challenge is not None:
            self.store.challenges.get(challenge)
        if suite is not None:
            self._require_suite(suite)
        made = Webhook(
            id=f"whk_{secrets.token_hex(8)}",
            url=url,
            events=tuple(dict.fromkeys(events)),
            challenge=challenge,
            suite=suite,
            made_by="operator" if self.caller is None else name_owner(self.caller),
            created_at=self.now,
        )
        secret = make_signing_secret()
        self.store.webhooks.add(made, secret)
        return NewWebhook(webhook=made, secret=secret)

    @operation("GET /webhooks", ORGANISERS)
    def list(self, limit: Limit = 100, cursor: Cursor | None = None) -> Page[Webhook]:
        """List webhooks, oldest first."""
        return slice_page(self.store.webhooks.all(), limit, cursor)

    @operation("GET /webhooks/{webhook}", ORGANISERS, noun="webhook")
    def get(self, webhook: Id) -> Webhook:
        """Get a webhook."""
        return self.store.webhooks.get(webhook)

    @operation("POST /webhooks/{webhook}/pause", ORGANISERS, rate="write", noun="webhook")
    def pause(self, webhook: Id) -> Webhook:
        """Send nothing until the webhook is resumed; queued messages wait."""
        return self.store.webhooks.set_state(webhook, "paused", at=self.now)

    @operation("POST /webhooks/{webhook}/resume", ORGANISERS, rate="write", noun="webhook")
    def resume(self, webhook: Id) -> Webhook:
        """Send again, queued messages first."""
        return self.store.webhooks.set_state(webhook, "active", at=self.now)

    @operation(
        "POST /webhooks/{webhook}/rotate", ORGANISERS, rate="write", status=201, secret=_SECRET
    )
    def rotate(self, webhook: Id) -> NewWebhook:
        """Sign with a new secret from now on; it is shown once."""
        secret = make_signing_secret()
        changed = self.store.webhooks.replace_secret(webhook, secret, at=self.now)
        return NewWebhook(webhook=changed, secret=secret)

    @operation("DELETE /webhooks/{webhook}", ORGANISERS, rate="write", noun="webhook")
    def remove(self, webhook: Id) -> Webhook:
        """Remove a webhook with all its deliveries."""
        return self.store.webhooks.remove(webhook, at=self.now)

    @operation(
        "POST /webhooks/{webhook}/ping", ORGANISERS, rate="write", status=202, noun="webhooks"
    )
    def ping(self, webhook: Id) -> int:
        """Send a message of type `ping` to try out the address."""
        hook = self.store.webhooks.get(webhook)
        if hook.state != "active":
            raise InvalidInput(f"the webhook {webhook} is paused", hint="resume it first")
        event = Occurrence(
            event="ping",
            occasion=f"ping {secrets.token_hex(8)}",
            at=self.now,
            data={"webhook": hook.id},
        )
        return self.store.deliveries.announce(event, only=webhook)

    @operation("GET /webhooks/{webhook}/deliveries", ORGANISERS)
    def deliveries(
        self,
        webhook: Id,
        state: DeliveryState | None = None,
        limit: Limit = 50,
        cursor: Cursor | None = None,
    ) -> Page[Delivery]:
        """List messages to a webhook with the result of each, newest first."""
        self.store.webhooks.get(webhook)
        place = read_cursor(cursor, str)
        before = None if place is None else place[0]
        found = self.store.deliveries.list(webhook, state=state, before=before, limit=limit + 1)
        following = write_cursor(found[limit - 1].id) if len(found) > limit else None
        return Page(items=found[:limit], next=following)

    @operation(
        "POST /webhooks/{webhook}/deliveries/{delivery}/replay",
        ORGANISERS,
        rate="write",
        status=202,
        noun="delivery",
    )
    def replay(self, webhook: Id, delivery: Id) -> Delivery:
        """Send a message again under the same id."""
        return self.store.deliveries.replay(webhook, delivery)

    @operation("POST /runs/{run}/gates", REPORTERS, rate="write", status=202, noun="webhooks")
    def report_failed_gate(self, run: Id, failures: Failures) -> int:
        """Announce that a run failed a gate, and why; returns the number of webhooks."""
        record = self.store.brief_run(run)
        reasons = [clean_line(each, 2000) for each in failures]
        return self.store.deliveries.announce(tell_failed_gate(record, reasons, self.now))

    @property
    def _egress(self) -> EgressPolicy:
        settings = self.services.settings
        return make_egress(settings.rules.may, own=settings.own)

    def _require_suite(self, suite: str) -> None:
        """Refuse a suite without runs: a misspelt one would never send anything."""
        if self.store.exists and self.store.runs(suite=suite, limit=1):
            return
        known = [each.suite for each in self.store.suites()] if self.store.exists else []
        close = suggest(suite, known)
        hint = f"did you mean {close!r}?" if close else "run it once, and then add the webhook"
        raise NotFound(f"no run of a suite {shorten(suite, 60)!r} is stored here", hint=hint)


@dataclass(frozen=True)
class Answered:
    """Result of sending a message."""

    status: int | None
    error: str | None

    @property
    def taken(self) -> bool:
        """True if the receiver accepted it."""
        return self.error is None


@dataclass(slots=True)
class _Failing:
    failures: int
    until: float


class DeliveryPauses:
    """Circuit breaker for each address that webhooks are sent to, in memory of a worker process.

    A receiver that hangs would otherwise hold a thread for each message that waits for it. After a
    pause one message tries it again, and the others follow once that was accepted.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._failing: dict[Hashable, _Failing] = {}

    def begin(self, address: Hashable) -> float:
        """Seconds to wait before sending to an address; with 0 the message is sent now."""
        with self._lock:
            found, now = self._failing.get(address), self._clock()
            if found is None:
                return 0.0
            if found.until > now:
                return found.until - now
            found.until = now + PROBE_S
            return 0.0

    def end(self, address: Hashable, *, accepted: bool) -> None:
        """Note the result of sending: 2, 4, 8 s of pause after failures, up to five minutes."""
        with self._lock:
            found = self._failing.pop(address, None)
            if accepted:
                return
            failures = 1 if found is None else found.failures + 1
            pause = min(LONGEST_PAUSE_S, 2.0 ** min(failures, 20))
            self._failing[address] = _Failing(failures, self._clock() + pause)
            if len(self._failing) > _MOST_FAILING:
                self._failing.pop(next(iter(self._failing)))

    def __len__(self) -> int:
        """Number of failing addresses."""
        return len(self._failing)


@dataclass(frozen=True)
class Paused:
    """A message was not sent, because its address failed lately."""

    seconds: float


@dataclass(frozen=True)
class WebhookSender:
    """Sends queued messages of a tenant to addresses that may be reached."""

    store: Store
    egress: EgressPolicy
    clock: Callable[[], float]
    pauses: DeliveryPauses = field(default_factory=DeliveryPauses)

    def deliver(self, delivery_id: str) -> Answered | Paused | None:
        """Send a message once and store the result; None if it no longer waits."""
        try:
            delivery = self.store.deliveries.get(delivery_id)
            hook = self.store.webhooks.get(delivery.webhook)
        except NotFound:  # removed meanwhile
            return None
        if hook.state != "active" or delivery.state != "waiting":
            return None
        address = (self.store.tenant, hook.url)  # what a tenant's messages meet there is its own
        if pause := self.pauses.begin(address):
            return Paused(pause)
        answered = self._send(hook, delivery)
        self.pauses.end(address, accepted=answered.taken)
        last = delivery.tries + 1 >= MOST_TRIES
        self.store.deliveries.note_try(
            delivery,
            at=self.clock(),
            state="delivered" if answered.taken else "failed" if last else "waiting",
            status=answered.status,
            error=answered.error,
        )
        return None if last else answered

    def _send(self, hook: Webhook, delivery: Delivery) -> Answered:
        try:
            check_address(hook.url, self.egress)  # what the operator allows may have changed
            secret = self.store.webhooks.open_secret(hook.id)
        except TallymarkError as error:
            return Answered(None, str(error))
        headers = {"content-type": "application/json", "user-agent": "tallymark-webhooks"}
        headers |= sign(secret, delivery.id, int(self.clock()), delivery.body)
        return asyncio.run(_post(hook.url, headers, delivery.body.encode(), self.egress))


def make_egress(may: frozenset[str], *, own: bool) -> EgressPolicy:
    """Allowed addresses; one's own server may also reach private ones."""
    from tallymark.models.egress_policy import EgressPolicy  # noqa: PLC0415 (models load slowly)

    return EgressPolicy(may=may | ({"private-addresses"} if own else frozenset()))


def check_address(url: str, egress: EgressPolicy) -> None:
    """Refuse what is no address for a webhook, or may not be reached."""
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
    egress.refuse_host(host)


def sign(secret: str, message_id: str, timestamp: int, body: str) -> dict[str, str]:
    """Make the headers that prove who sent a message, and when."""
    key = b64decode(secret.removeprefix("whsec_"))
    signed = f"{message_id}.{timestamp}.{body}".encode()
    signature = b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": f"v1,{signature}",
    }


async def _post(url: str, headers: dict[str, str], body: bytes, egress: EgressPolicy) -> Answered:
    import aiohttp  # noqa: PLC0415 (heavy; most servers have no webhooks)

    connector = egress.make_connector()
    timeout = aiohttp.ClientTimeout(total=_TIMEOUT_S)
    try:
        async with (
            aiohttp.ClientSession(connector=connector, timeout=timeout) as session,
            # The address is checked; one that it redirects to is not.
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
