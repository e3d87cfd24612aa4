"""A server with people: ada runs it, alice organises, rita reports, bob and charlie compete.

victor is a viewer. otto is the admin of another tenant, and `nobody` has no key.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from sqlalchemy import insert
from starlette.testclient import TestClient
from tests.http.route_table import PACKED_CHALLENGE
from tests.service.account_samples import act, make_key

from tallymark.server import make_server
from tallymark.service.callers import Caller
from tallymark.service.limits import RateLimits
from tallymark.service.service import Service
from tallymark.service.settings import ServiceSettings
from tallymark.store.webhook_deliveries import webhook_deliveries
from tallymark.store.webhooks import Webhook, make_signing_secret

ADA = "tly_ada-0123456789-abcdefghijklmnopqrstuvwxyz-a"
FIXTURES = Path(__file__).parents[1] / "fixtures" / "traces"


class Unlimited(RateLimits):
    """Tests ask more often than people do."""

    def find_limit(self, caller: Caller, route_class: Any) -> int:
        """Any number."""
        return 10**9


@dataclass(frozen=True)
class Server:
    """A running server, and the keys of those who use it."""

    client: TestClient
    service: Service
    keys: dict[str, str]

    def ask(self, who: str, method: str, path: str, **more: Any) -> Any:
        """Send a request with the key of a person."""
        headers = dict(more.pop("headers", {}))
        if who in self.keys:
            headers["Authorization"] = f"Bearer {self.keys[who]}"
        return self.client.request(method, path, headers=headers, **more)

    def v1(self, who: str, method: str, path: str, **more: Any) -> Any:
        """Send a request below the prefix of the API."""
        return self.ask(who, method, f"/api/v1{path}", **more)


@contextmanager
def run_server(db: str, **settings: Any) -> Iterator[Server]:
    """A server on a database, with everybody's keys."""
    service = Service(ServiceSettings(db=db, **settings))
    service.limits = Unlimited()
    with TestClient(make_server(service), base_url="http://tally.test") as client:
        yield Server(client, service, _make_keys(service))


def _make_keys(service: Service) -> dict[str, str]:
    service.accounts.ensure_admin_key(ADA)
    ada = service.accounts.authenticate(ADA)
    made = {"ada": ADA}
    people = (
        ("alice", "organiser", None),
        ("rita", "reporter", None),
        ("bob", "agent", "bob"),
        ("charlie", "agent", "charlie"),
        ("victor", "viewer", None),
    )
    for name, role, agent in people:
        made[name] = make_key(service, role, owner=name, agent=agent)
    tally = act(service, ada)
    tally.tenants.add("elsewhere")
    made["otto"] = make_key(service, "admin", "elsewhere", owner="otto")
    made["oscar"] = make_key(service, "agent", "elsewhere", owner="oscar", agent="oscar")
    revoked = tally.keys.add("gone", "admin", owner="gone")
    tally.keys.revoke(revoked.key.id)
    made["revoked"] = str(revoked.secret)
    made["unknown"] = "tly_" + "z" * 43
    return made


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A server of one's own."""
    with run_server(str(tmp_path / "tally.db"), workers=1) as running:
        yield running


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server for tests that leave nothing behind that others could trip over."""
    with run_server(str(tmp_path_factory.mktemp("api") / "tally.db"), workers=1) as running:
        furnish(running)
        yield running


def furnish(server: Server) -> None:
    """Something of every kind, so that every route has something to show."""
    publish(server, name="speed", scoring_formula="rating * 10", visibility="public")
    publish(server, name="secret", scoring_formula="rating")
    packed = server.v1(
        "alice",
        "POST",
        "/challenges",
        content=PACKED_CHALLENGE,
        headers={"Content-Type": "application/octet-stream"},
    )
    assert packed.status_code == 201, packed.text
    for agent, rating in (("bob", 7), ("charlie", 9)):
        body = {"agent": agent, "metrics": {"succeeded": True, "rating": rating}}
        assert server.v1("rita", "POST", "/challenges/speed/reports", json=body).status_code == 201
    send_spans(server)
    rule = {"name": "sparing", "formula": "1 - min(1, cost)"}
    assert server.v1("alice", "POST", "/rules", json=rule).status_code == 201
    hook = Webhook(
        id="whk_a",
        url="https://example.com/x",
        events=("run.finished",),
        made_by="alice",
        created_at=server.service.clock(),
        state="paused",
    )
    store = server.service.app.store
    store.webhooks.add(hook, make_signing_secret())
    told: dict[str, Any] = {
        "id": "whd_a",
        "webhook": "whk_a",
        "event": "ping",
        "occasion": "ping",
        "body": "{}",
    }
    told |= {"created_at": hook.created_at, "state": "failed", "tries": 1, "tenant": "default"}
    store._database.write(lambda c: c.execute(insert(webhook_deliveries).values(told)))
    run = {"suite": "greeting", "model": "echo/me", "results": [{"case": "a", "status": "passed"}]}
    assert server.v1("rita", "POST", "/runs", json={"run": run}).status_code == 201


def send_spans(server: Server) -> None:
    """A trace, as an exporter sends it."""
    spans = (FIXTURES / "openinference.pb").read_bytes()
    sent = {"content": spans, "headers": {"Content-Type": "application/x-protobuf"}}
    assert server.ask("rita", "POST", "/v1/traces", **sent).status_code == 200


def publish(server: Server, **fields: Any) -> dict[str, Any]:
    """A challenge of reported attempts."""
    answered = server.v1("alice", "POST", "/challenges", json=fields)
    assert answered.status_code == 201, answered.text
    found: dict[str, Any] = answered.json()["challenge"]
    return found


@contextmanager
def listening(server: Server, **more: Any) -> Iterator[str]:
    """Serve the application on loopback, within the lifespan of the test client."""
    config = uvicorn.Config(
        make_server(server.service), port=0, log_level="critical", lifespan="off", **more
    )
    real = uvicorn.Server(config)
    started = threading.Event()
    startup, shutdown = real.startup, real.shutdown

    async def start(sockets: Any = None) -> None:
        await startup(sockets=sockets)
        started.set()

    async def stop(sockets: Any = None) -> None:
        await server.service.live.close()  # what it started is of this loop
        await shutdown(sockets=sockets)

    real.startup, real.shutdown = start, stop  # type: ignore[method-assign]
    thread = threading.Thread(target=real.run)
    thread.start()
    try:
        assert started.wait(60)
        port = real.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        real.should_exit = True
        thread.join(60)
