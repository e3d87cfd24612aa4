"""Keys, invitations and registration by the API, and their log entries."""

from __future__ import annotations

from typing import Any

from tests.http.conftest import Server, furnish


def as_key(server: Server, secret: str, method: str, path: str, **more: Any) -> Any:
    headers = {"Authorization": f"Bearer {secret}"}
    return server.client.request(method, f"/api/v1{path}", headers=headers, **more)


def make(server: Server, **body: Any) -> Any:
    made = server.v1("ada", "POST", "/keys", json={"name": "ci", **body})
    assert made.status_code == 201, made.text
    return made.json()


def test_whose_an_agent_is_shows_to_its_owner_and_to_organisers_alone(server: Server) -> None:
    given = server.v1("alice", "PATCH", "/agents/bob", json={"owner": "jane.doe@example.com"})
    assert given.json()["agent"]["owner"] == "jane.doe@example.com"
    for who in ("bob", "alice", "ada"):
        assert "jane.doe" in server.v1(who, "GET", "/agents/bob").text
        assert "jane.doe" in server.v1(who, "GET", "/agents").text
    for who in ("charlie", "rita", "victor"):
        assert server.v1(who, "GET", "/agents/bob").json()["agent"]["owner"] is None
        assert "jane.doe" not in server.v1(who, "GET", "/agents").text
        asked = server.v1(who, "GET", "/agents?owner=jane.doe@example.com")
        assert asked.status_code == 403


def test_a_key_is_shown_once_works_and_can_be_revoked(server: Server) -> None:
    made = make(server, role="viewer")
    secret = made["secret"]
    assert as_key(server, secret, "GET", "/me").json()["caller"]["role"] == "viewer"
    assert secret not in server.v1("ada", "GET", "/keys").text
    assert secret not in server.v1("ada", "GET", "/audit").text
    path = f"/keys/{made['key']['id']}/revoke"
    assert server.v1("bob", "POST", path).status_code in (403, 404)
    assert server.v1("ada", "POST", path).status_code == 200
    assert as_key(server, secret, "GET", "/me").status_code == 401


def test_a_rotated_key_works_for_a_while_longer(server: Server) -> None:
    for overlap, then in ((3600, 200), (0, 401)):
        made = make(server, role="viewer", owner="olga")
        path = f"/keys/{made['key']['id']}/rotate"
        new = as_key(server, made["secret"], "POST", path, json={"overlap_s": overlap})
        assert new.status_code == 201, new.text
        assert as_key(server, new.json()["secret"], "GET", "/me").status_code == 200
        assert as_key(server, made["secret"], "GET", "/me").status_code == then


def test_an_expired_key_is_no_key(server: Server) -> None:
    made = make(server, expires_in_s=60)
    assert as_key(server, made["secret"], "GET", "/me").status_code == 200
    clock = server.service.accounts._clock
    server.service.accounts._clock = lambda: clock() + 61
    answered = as_key(server, made["secret"], "GET", "/me")
    assert answered.status_code == 401
    assert answered.headers["www-authenticate"] == "Bearer"


def test_nobody_makes_a_key_above_their_own(server: Server) -> None:
    for role in ("admin", "organiser"):
        answered = server.v1("alice", "POST", "/keys", json={"name": "x", "role": role})
        assert answered.status_code == 403, (role, answered.text)


def test_from_an_invitation_to_a_scored_attempt(server: Server) -> None:
    furnish(server)
    made = server.v1("alice", "POST", "/invitations", json={}).json()
    code, until = made["code"], made["invitation"]["expires_at"]
    assert round((until - server.service.clock()) / 86_400) == 14  # as the command says
    taken = server.v1(
        "nobody",
        "POST",
        "/invitations/accept",
        json={"code": code, "owner": "nina", "agent": "nina"},
    )
    assert taken.status_code == 201, taken.text
    secret = taken.json()["secret"]
    again = server.v1(
        "nobody",
        "POST",
        "/invitations/accept",
        json={"code": code, "owner": "otis", "agent": "otis"},
    )
    assert again.status_code in (404, 409, 422), again.text
    entered = as_key(server, secret, "POST", "/challenges/sums/attempts", json={})
    path = f"/attempts/{entered.json()['attempt']['id']}/submission"
    told = as_key(server, secret, "POST", path, json={"answer": {"sum": 42}})
    assert (told.status_code, told.json()["result"]) == (200, "win")


def test_registration_is_closed_unless_the_tenant_opens_it(server: Server) -> None:
    body = {"agent": "newcomer", "owner": "newcomer"}
    assert server.v1("nobody", "POST", "/agents", json=body).status_code == 403
    server.v1("ada", "PATCH", "/tenants/default", json={"registration": "open"})
    made = server.v1("nobody", "POST", "/agents", json=body)
    assert made.status_code == 201, made.text
    me = as_key(server, made.json()["secret"], "GET", "/me").json()["caller"]
    assert (me["role"], me["agent"]) == ("agent", "newcomer")
    assert server.v1("nobody", "POST", "/agents", json=body).status_code == 409
    taken = server.v1("nobody", "POST", "/agents", json={"agent": "bob", "owner": "newcomer"})
    assert taken.status_code in (403, 409), taken.text


def test_the_log_says_who_did_what_from_where(server: Server) -> None:
    made = make(server, role="viewer")
    server.v1("ada", "POST", f"/keys/{made['key']['id']}/revoke")
    server.v1("alice", "POST", "/invitations", json={})
    server.v1("alice", "PUT", "/vars/CITY", json={"value": "Paris"})
    server.v1("alice", "PUT", "/secrets/TOKEN", json={"value": "shh"})
    server.v1("alice", "DELETE", "/vars/CITY")
    server.v1("alice", "POST", "/challenges", json={"name": "x", "scoring_formula": "rating"})
    server.v1("alice", "PATCH", "/challenges/x", json={"closed": True, "reason": "over"})
    server.v1("alice", "POST", "/challenges/x/rescore?reason=x", json={"formula": "-rating"})
    server.v1("alice", "POST", "/tracks", json={"name": "t", "challenges": ["x"]})
    items = server.v1("ada", "GET", "/audit").json()["items"]
    by_alice = [each for each in items if each["actor"] == "organiser alice"]
    assert {each["address"] for each in by_alice} == {"testclient"}
    assert len(by_alice) >= 8, [(each["actor"], each["event"]) for each in items]
    assert server.v1("bob", "GET", "/audit").status_code == 403


def test_lists_have_pages(server: Server) -> None:
    whole = [each["id"] for each in server.v1("ada", "GET", "/keys").json()["items"]]
    first = server.v1("ada", "GET", "/keys?limit=2").json()
    rest = server.v1("ada", "GET", f"/keys?cursor={first['next']}").json()
    assert [each["id"] for each in first["items"] + rest["items"]] == whole
    assert rest["next"] is None


def test_an_admin_changes_the_own_tenant_and_no_limits(server: Server) -> None:
    path = "/tenants/elsewhere"
    changed = server.v1("otto", "PATCH", path, json={"registration": "open"})
    assert changed.json()["tenant"]["settings"]["registration"] == "open"
    assert server.v1("otto", "PATCH", path, json={"limits": {"read": 9}}).status_code == 403
    assert server.v1("otto", "PATCH", "/tenants/default", json={}).status_code == 403
    assert server.v1("alice", "PATCH", "/tenants/default", json={}).status_code == 403
    assert server.v1("ada", "PATCH", path, json={"limits": {"read": 9}}).status_code == 200
