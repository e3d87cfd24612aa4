"""Webhooks: signed messages, retried until accepted, with a pause for addresses that fail."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.store.contest_samples import quick_store
from tests.store.run_samples import FULL_RUN

from tallymark.errors import InvalidInput, NotFound
from tallymark.service.app import App
from tallymark.service.resources import Resources
from tallymark.service.settings import ServiceSettings
from tallymark.service.webhooks import (
    _MOST_FAILING,
    LONGEST_PAUSE_S,
    MOST_TRIES,
    PROBE_S,
    Answered,
    DeliveryPauses,
    Paused,
    Webhooks,
    WebhookSender,
    make_egress,
    sign,
)
from tallymark.service.workers import Workers
from tallymark.store import Store


@dataclass
class Receiver:
    """An address that notes what comes, and answers as it is told to."""

    url: str = ""
    answers: list[int] = field(default_factory=list)
    got: list[tuple[dict[str, str], bytes]] = field(default_factory=list)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """On loopback."""
    noted = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            noted.got.append(({name.lower(): value for name, value in self.headers.items()}, body))
            self.send_response(noted.answers.pop(0) if noted.answers else 204)
            self.send_header("location", f"{noted.url}/elsewhere")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    noted.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield noted
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """Empty."""
    with quick_store(f"sqlite:///{tmp_path}/tally.db") as opened:
        yield opened


def clock() -> float:
    return 1_700_000_000.0


@pytest.fixture
def webhooks(store: Store) -> Webhooks:
    """As on one's own machine, where any address may be asked."""
    return Resources.over(store, clock=clock).webhooks


def deliver(webhooks: Webhooks, delivery: str, *, own: bool = True) -> Answered | None:
    sender = WebhookSender(webhooks.store, make_egress(frozenset(), own=own), clock)
    answered = sender.deliver(delivery)
    assert not isinstance(answered, Paused)
    return answered


def queued(store: Store) -> list[Any]:
    """Jobs that wait to deliver."""
    return store.jobs.list(kind="deliver", state="queued")


def test_a_message_is_signed_as_the_standard_says() -> None:
    # The example of the specification of Standard Webhooks.
    headers = sign(
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "msg_p5jXN8AQM9LWM0D4loKWxJek",
        1614265330,
        '{"test": 2432232314}',
    )
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_what_happened_arrives(webhooks: Webhooks, receiver: Receiver) -> None:
    made = webhooks.add(receiver.url)
    webhooks.store.create_run(FULL_RUN)
    webhooks.store.save_run(FULL_RUN)
    with Workers(App(webhooks.store.shown), kinds=("deliver",), own=True) as workers:
        workers.wait_until_idle(threading.Event())
    ((headers, body),) = receiver.got
    assert json.loads(body)["data"]["run"]["id"] == FULL_RUN.id
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    key = base64.b64decode((made.secret or "").removeprefix("whsec_"))
    wanted = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{wanted}"
    (delivery,) = webhooks.deliveries(made.webhook.id)
    assert (delivery.state, delivery.tries, delivery.status) == ("delivered", 1, 204)


def test_what_is_not_taken_waits_and_comes_again_under_its_id(
    webhooks: Webhooks, receiver: Receiver
) -> None:
    made = webhooks.add(receiver.url)
    receiver.answers = [500, 302]
    webhooks.ping(made.webhook.id)
    (waiting,) = webhooks.deliveries(made.webhook.id)
    tried = [deliver(webhooks, waiting.id) for _ in range(3)]
    assert [each and each.error for each in tried] == ["it answered 500", "it answered 302", None]
    assert {headers["webhook-id"] for headers, _ in receiver.got} == {waiting.id}
    # It was taken: nobody hears of it a fourth time.
    assert deliver(webhooks, waiting.id) is None
    assert len(receiver.got) == 3


def test_after_very_many_tries_it_has_failed_and_can_be_sent_again(
    webhooks: Webhooks, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert MOST_TRIES > 2
    monkeypatch.setattr("tallymark.service.webhooks.MOST_TRIES", 2)
    made = webhooks.add(receiver.url)
    receiver.answers = [500, 500]
    webhooks.ping(made.webhook.id)
    (waiting,) = webhooks.deliveries(made.webhook.id)
    assert deliver(webhooks, waiting.id) is not None
    assert deliver(webhooks, waiting.id) is None
    (failed,) = webhooks.deliveries(made.webhook.id, state="failed")
    assert (failed.tries, failed.error) == (2, "it answered 500")
    webhooks.replay(made.webhook.id, failed.id)
    assert len(queued(webhooks.store)) == 1
    answered = deliver(webhooks, failed.id)
    assert answered is not None
    assert answered.taken


def test_nobody_there_is_said_in_words(webhooks: Webhooks) -> None:
    made = webhooks.add("http://127.0.0.1:9/nobody")
    webhooks.ping(made.webhook.id)
    (waiting,) = webhooks.deliveries(made.webhook.id)
    answered = deliver(webhooks, waiting.id)
    assert answered is not None
    assert answered.error is not None
    assert "127.0.0.1:9" in answered.error


def test_a_paused_webhook_is_sent_nothing(webhooks: Webhooks, receiver: Receiver) -> None:
    made = webhooks.add(receiver.url)
    webhooks.ping(made.webhook.id)
    (waiting,) = webhooks.deliveries(made.webhook.id)
    webhooks.pause(made.webhook.id)
    assert deliver(webhooks, waiting.id) is None
    assert receiver.got == []
    with pytest.raises(InvalidInput, match="paused"):
        webhooks.ping(made.webhook.id)
    webhooks.resume(made.webhook.id)
    deliver(webhooks, waiting.id)
    assert len(receiver.got) == 1


def test_another_secret_signs_from_then_on(webhooks: Webhooks) -> None:
    made = webhooks.add("https://example.com")
    again = webhooks.rotate(made.webhook.id)
    assert again.secret != made.secret
    assert webhooks.store.webhooks.open_secret(made.webhook.id) == again.secret


def test_a_private_address_is_refused_also_when_it_was_allowed_before(
    webhooks: Webhooks, receiver: Receiver
) -> None:
    made = webhooks.add(receiver.url)
    strict = Resources.over(webhooks.store, ServiceSettings(), clock)
    with pytest.raises(InvalidInput, match="private address"):
        strict.webhooks.add(receiver.url)
    webhooks.ping(made.webhook.id)
    (waiting,) = webhooks.deliveries(made.webhook.id)
    answered = deliver(webhooks, waiting.id, own=False)
    assert answered is not None
    assert "private address" in str(answered.error)
    assert receiver.got == []


def test_a_gate_that_failed_is_told_with_its_reasons(webhooks: Webhooks) -> None:
    webhooks.store.create_run(FULL_RUN)
    made = webhooks.add("https://example.com", events=["gate.failed"], suite=FULL_RUN.suite)
    assert webhooks.report_failed_gate(FULL_RUN.id, ["it scored 1, under 2"]) == 1
    (waiting,) = webhooks.deliveries(made.webhook.id)
    assert json.loads(waiting.body)["data"]["failures"] == ["it scored 1, under 2"]


def test_a_suite_without_a_run_is_a_mistake(webhooks: Webhooks) -> None:
    with pytest.raises(NotFound, match="no run of a suite 'sums' is stored here; run it once"):
        webhooks.add("https://example.com", suite="sums")
    webhooks.store.create_run(FULL_RUN)
    with pytest.raises(NotFound, match=f"did you mean '{FULL_RUN.suite}'"):
        webhooks.add("https://example.com", suite=FULL_RUN.suite[:-1])


def test_only_so_many_are_kept(webhooks: Webhooks) -> None:
    for _ in range(20):
        webhooks.add("https://example.com")
    with pytest.raises(Exception, match="20 webhooks already"):
        webhooks.add("https://example.com")


@pytest.mark.parametrize(
    ("url", "why"),
    [("", "no address"), ("https://", "no address"), ("https://a:b@example.com", "password")],
)
def test_what_is_no_address_is_refused(webhooks: Webhooks, url: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        webhooks.add(url)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_pauses_grow_with_failures() -> None:
    clock = Clock()
    pauses, found = DeliveryPauses(clock), []
    for _ in range(12):
        assert pauses.begin("a") == 0.0
        pauses.end("a", accepted=False)
        found.append(pauses.begin("a"))
        clock.now += found[-1]
    assert found[:4] == [2, 4, 8, 16]
    assert found[-1] == LONGEST_PAUSE_S
    assert pauses.begin("b") == 0.0


def test_after_a_pause_one_message_tries_and_the_others_wait() -> None:
    clock = Clock()
    pauses = DeliveryPauses(clock)
    pauses.end("a", accepted=False)
    clock.now += 2
    assert [pauses.begin("a") for _ in range(3)] == [0.0, PROBE_S, PROBE_S]
    pauses.end("a", accepted=True)
    assert [pauses.begin("a") for _ in range(3)] == [0.0, 0.0, 0.0]
    assert len(pauses) == 0


def test_a_message_that_never_ends_does_not_keep_others_waiting_for_ever() -> None:
    clock = Clock()
    pauses = DeliveryPauses(clock)
    pauses.end("a", accepted=False)
    clock.now += 2
    assert [pauses.begin("a"), pauses.begin("a")] == [0.0, PROBE_S]
    clock.now += PROBE_S
    assert pauses.begin("a") == 0.0


def test_failures_that_overlap_count_each() -> None:
    clock = Clock()
    pauses = DeliveryPauses(clock)
    assert [pauses.begin("a"), pauses.begin("a")] == [0.0, 0.0]
    for _ in range(2):
        pauses.end("a", accepted=False)
    assert pauses.begin("a") == 4.0


def test_very_many_addresses_are_not_all_remembered() -> None:
    pauses = DeliveryPauses(Clock())
    for number in range(_MOST_FAILING + 5):
        pauses.end(number, accepted=False)
    assert len(pauses) == _MOST_FAILING
    assert pauses.begin(0) == 0.0
