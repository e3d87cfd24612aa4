"""Behind a proxy, one client uses up nobody else's limits, and nobody names another's address."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.http.conftest import ADA
from tests.service.account_samples import act, make_key

from tallymark.server import make_server
from tallymark.service.limits import RateLimits
from tallymark.service.proxy import read_proxy_settings
from tallymark.service.service import Service
from tallymark.service.settings import ServiceSettings

PROXY = "192.0.2.1"
READS = 90


@pytest.fixture
def service(tmp_path: Path) -> Service:
    proxy = read_proxy_settings({"TALLY_PROXY_FROM": PROXY, "TALLY_PROXY_HEADER": "x-user"})
    return Service(ServiceSettings(db=str(tmp_path / "tally.db"), workers=0, proxy=proxy))


@pytest.fixture
def through(service: Service) -> Iterator[TestClient]:
    """Who comes through the proxy."""
    # No bucket fills again, and reading is used up soon.
    service.limits = RateLimits(of_tenant=lambda _: {"read": READS}, clock=lambda: 0.0)
    address = "http://tally.test"
    with TestClient(make_server(service), base_url=address, client=(PROXY, 1)) as client:
        service.accounts.ensure_admin_key(ADA)
        yield client


def sign_in(client: TestClient, key: str, address: str) -> int:
    headers = {"X-Forwarded-For": address, "Origin": "http://tally.test"}
    form = {"do": "sign-in", "key": key}
    client.cookies.clear()
    return client.post("/sign-in", data=form, headers=headers, follow_redirects=False).status_code


def ask(client: TestClient, address: str, **headers: str) -> Any:
    return client.get("/api/v1/challenges", headers={"X-Forwarded-For": address, **headers})


def test_each_client_has_its_own_limit(through: TestClient) -> None:
    for _ in range(READS):
        assert ask(through, "203.0.113.9").status_code == 200
    assert ask(through, "203.0.113.9").status_code == 429
    # What the client wrote before that is not believed.
    assert ask(through, "198.51.100.5, 203.0.113.9").status_code == 429
    assert ask(through, "198.51.100.5").status_code == 200


def test_nobody_but_the_proxy_names_an_address(service: Service, through: TestClient) -> None:
    app: Any = through.app
    stranger = TestClient(app, base_url="http://tally.test", client=("203.0.113.9", 1))
    for number in range(READS):
        assert ask(stranger, f"198.51.100.{number % 250}").status_code == 200
    assert ask(stranger, "198.51.100.7").status_code == 429
    forged = stranger.get("/api/v1/me", headers={"X-User": "alice", "X-Forwarded-For": PROXY})
    assert forged.status_code in (401, 429)


def test_wrong_keys_lock_nobody_else_out(service: Service, through: TestClient) -> None:
    wrong = "tly_" + "w" * 43
    refused = [sign_in(through, wrong, "203.0.113.9") for _ in range(61)]
    assert set(refused[:60]) == {422}
    assert refused[60] == 429
    # Neither those of other addresses, nor whoever has a good key at this one.
    assert sign_in(through, wrong, "198.51.100.5") == 422
    assert sign_in(through, ADA, "198.51.100.5") == 303
    assert sign_in(through, ADA, "203.0.113.9") == 303


def test_good_keys_do_not_count_as_tries(service: Service, through: TestClient) -> None:
    for number in range(70):
        owner = f"viewer-{number}"
        key = make_key(service, "viewer", owner=owner)
        assert sign_in(through, key, "203.0.113.9") == 303


def test_registrations_are_counted_for_the_client(service: Service, through: TestClient) -> None:
    admin = service.accounts.authenticate(ADA)
    act(service, admin).tenants.change("default", {"registration": "open"})

    def register(number: int, address: str) -> int:
        body = {"agent": f"agent-{number}", "owner": f"owner-{number}"}
        headers = {"X-Forwarded-For": address}
        return through.post("/api/v1/agents", json=body, headers=headers).status_code

    answers = [register(number, "203.0.113.9") for number in range(6)]
    assert answers == [201] * 5 + [answers[5]]
    assert answers[5] != 201
    assert register(7, "198.51.100.5") == 201


def test_the_log_of_changes_has_the_client(service: Service, through: TestClient) -> None:
    headers = {"X-Forwarded-For": "203.0.113.9", "Authorization": f"Bearer {ADA}"}
    new = {"role": "viewer", "name": "board", "owner": "victor"}
    assert through.post("/api/v1/keys", json=new, headers=headers).status_code == 201
    entry = service.app.store.audit_log.entries(limit=1)[0]
    assert entry.address == "203.0.113.9"


def test_who_the_proxy_names_is_believed_from_it_alone(through: TestClient) -> None:
    headers = {"X-Forwarded-For": "203.0.113.9", "X-User": "alice"}
    assert through.get("/api/v1/me", headers=headers).json()["caller"]["owner"] == "alice"


def test_limits_are_not_evaded_by_rotating_a_key(service: Service, through: TestClient) -> None:
    admin = service.accounts.authenticate(ADA)
    keys = act(service, admin).keys
    made = keys.add("ci", "agent", agent="eve", owner="eve")
    answers = []
    for _ in range(3):
        headers = {"Authorization": f"Bearer {made.secret}"}
        answers += [ask(through, "203.0.113.9", **headers).status_code for _ in range(60)]
        made = keys.rotate(made.key.id, overlap_s=0)
    assert answers == [200] * READS + [429] * (180 - READS)
