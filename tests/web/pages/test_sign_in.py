"""Signing in by a key or an invitation, and what a session cannot be made to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.service.account_samples import act
from tests.web.conftest import ADDRESS, make_service, open_app, send

from tallymark.server import make_server
from tallymark.service.callers import SESSION_COOKIE, Caller
from tallymark.service.service import Service

ADMIN = Caller("default", "admin", "operator", owner="operator")


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with closing(open_app(tmp_path / "tally.db", lambda _: None)) as app:
        app.store.prepare()
        yield make_service(app)


@pytest.fixture
def visitor(service: Service) -> TestClient:
    return TestClient(make_server(service), base_url=ADDRESS)


def make_key(service: Service, role: Any = "viewer") -> str:
    return str(act(service, ADMIN).keys.add("ci", role, owner="alice").secret)


def test_a_key_makes_a_session_that_script_cannot_read(
    service: Service, visitor: TestClient
) -> None:
    done = send(visitor, "/sign-in", "sign-in", key=make_key(service), next="/runs?q=x")
    assert (done.status_code, done.headers["location"]) == (303, "/runs?q=x")
    cookie = done.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=lax" in cookie
    assert visitor.get("/runs").status_code == 200


def test_behind_https_the_session_is_sent_over_nothing_else(
    service: Service, visitor: TestClient
) -> None:
    form = {"do": "sign-in", "key": make_key(service)}
    headers = {"Origin": ADDRESS, "X-Forwarded-Proto": "https"}
    done = visitor.post("/sign-in", data=form, headers=headers, follow_redirects=False)
    assert "secure" in done.headers["set-cookie"].lower()


def test_an_agent_is_registered_where_anybody_may(service: Service, visitor: TestClient) -> None:
    form = {"owner": "jane", "agent": "jane-bot"}
    assert "Register an agent" not in visitor.get("/sign-in").text
    assert send(visitor, "/sign-in", "register", **form).status_code == 403
    act(service, ADMIN).tenants.change("default", {"registration": "open"})
    assert "Register an agent" in visitor.get("/sign-in").text
    for wrong in ({"owner": "jane"}, {"agent": "jane-bot"}, form | {"agent": "B B"}):
        refused = send(visitor, "/sign-in", "register", **wrong)
        assert (refused.status_code, refused.text.count("field-error")) == (422, 1)
    done = send(visitor, "/sign-in", "register", **form)
    assert (done.status_code, "tly_" in done.text) == (200, True)
    assert "jane-bot" in visitor.get("/account").text
    taken = send(TestClient(visitor.app, base_url=ADDRESS), "/sign-in", "register", **form)
    assert taken.status_code == 409


@pytest.mark.parametrize("key", ["", "tly_wrong", "tli_wrong", "nonsense"])
def test_what_opens_nothing_is_said_at_the_field(visitor: TestClient, key: str) -> None:
    done = send(visitor, "/sign-in", "sign-in", key=key)
    assert done.status_code == 422
    assert "field-error" in done.text
    assert "set-cookie" not in done.headers


@pytest.mark.parametrize(
    "address",
    ["//evil.test", "https://evil.test", "/\\evil.test", "x", "/\t\\evil.test", "/\n/evil.test"],
)
def test_signing_in_leads_to_no_other_site(
    service: Service, visitor: TestClient, address: str
) -> None:
    done = send(visitor, "/sign-in", "sign-in", key=make_key(service), next=address)
    assert done.headers["location"] == "/"


def test_an_invitation_asks_for_whom_and_shows_the_key_once(
    service: Service, visitor: TestClient
) -> None:
    code = str(act(service, ADMIN).invitations.add("agent").code)
    asked = send(visitor, "/sign-in", "sign-in", key=code)
    assert 'name="agent"' in asked.text
    done = send(visitor, "/sign-in", "sign-in", key=code, owner="bob", agent="bobby")
    assert done.status_code == 200
    assert "tly_" in done.text
    assert SESSION_COOKIE in visitor.cookies
    assert "bobby" in visitor.get("/account").text
    again = send(TestClient(visitor.app, base_url=ADDRESS), "/sign-in", "sign-in", key=code)
    assert again.status_code == 422


@pytest.mark.parametrize(
    "headers",
    [{}, {"Origin": "https://evil.test"}, {"Origin": "null"}, {"Origin": f"{ADDRESS}.evil.test"}],
)
def test_no_other_site_sends_a_form(
    service: Service, visitor: TestClient, headers: dict[str, str]
) -> None:
    send(visitor, "/sign-in", "sign-in", key=make_key(service))
    form = {"do": "sign-out", "csrf": "x"}
    assert visitor.post("/account", data=form, headers=headers).status_code == 403
    assert visitor.get("/account").status_code == 200


def test_a_form_of_another_session_is_refused(service: Service, visitor: TestClient) -> None:
    send(visitor, "/sign-in", "sign-in", key=make_key(service))
    form = {"do": "sign-out", "csrf": "of somebody else"}
    done = visitor.post("/account", data=form, headers={"Origin": ADDRESS})
    assert done.status_code == 403


def test_signing_out_everywhere_ends_all_browsers(service: Service, visitor: TestClient) -> None:
    other, key = TestClient(visitor.app, base_url=ADDRESS), make_key(service)
    for each in (visitor, other):
        send(each, "/sign-in", "sign-in", key=key)
    send(visitor, "/account", "sign-out-everywhere")
    assert other.get("/account").status_code == 401
    assert "session is over" in other.get("/account").text.casefold()


def test_a_session_ends_with_its_key(service: Service, visitor: TestClient) -> None:
    made = act(service, ADMIN).keys.add("ci", owner="alice")
    send(visitor, "/sign-in", "sign-in", key=str(made.secret))
    act(service, ADMIN).keys.revoke(made.key.id)
    assert visitor.get("/runs").status_code == 401


def test_the_api_reads_by_a_session_and_writes_only_with_its_token(
    service: Service, visitor: TestClient
) -> None:
    send(visitor, "/sign-in", "sign-in", key=make_key(service, "organiser"))
    assert visitor.get("/api/v1/runs").status_code == 200
    body = {"role": "viewer"}
    own = {"Origin": ADDRESS}
    assert visitor.post("/api/v1/invitations", json=body, headers=own).status_code == 403
    token = service.accounts.resume(visitor.cookies[SESSION_COOKIE]).csrf
    right = {**own, "X-CSRF-Token": token}
    assert visitor.post("/api/v1/invitations", json=body, headers=right).status_code == 201
    elsewhere = {"Origin": "https://evil.test", "X-CSRF-Token": token}
    assert visitor.post("/api/v1/invitations", json=body, headers=elsewhere).status_code == 403


def test_a_page_that_needs_a_session_leads_to_it_and_back(visitor: TestClient) -> None:
    page = visitor.get("/runs?status=failed")
    assert page.status_code == 401
    assert 'href="/sign-in?next=%2Fruns%3Fstatus%3Dfailed"' in page.text
