"""Roles of all routes, refusals, and separation of tenants."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from starlette.routing import Route
from tests.http.conftest import Server, furnish
from tests.http.route_table import PEOPLE, ROUTES, Row

from tallymark.http.operation_routes import PREFIX
from tallymark.server import make_api

IDS = [f"{row.method} {row.path}" for row in ROUTES]
READY = [row for row in ROUTES if row.does]
WITH_BODY = [row for row in ROUTES if row.wrong]


@pytest.fixture(scope="module")
def names(shared: Server) -> dict[str, str]:
    """Values for the placeholders in addresses."""
    board = shared.v1("ada", "GET", "/challenges/speed/leaderboard").json()
    entered = shared.v1("bob", "POST", "/challenges/sums/attempts", json={})
    assert entered.status_code == 201, entered.text
    assert (
        shared.v1(
            "alice", "POST", "/tracks", json={"name": "spring", "challenges": ["speed"]}
        ).status_code
        == 201
    )
    return {
        "run": shared.v1("ada", "GET", "/runs").json()["items"][0]["id"],
        "scored": board["items"][0]["attempt"],
        "bobs": board["items"][1]["attempt"],
        "open": entered.json()["attempt"]["id"],
        "trace": shared.v1("ada", "GET", "/traces").json()["items"][0]["id"],
        "session": "s-none",
        "job": "j-none",
        "key": "k-none",
        "invitation": "i-none",
    }


def ask(server: Server, who: str, row: Row, names: dict[str, str], **more: Any) -> Any:
    address = re.sub(r"\{(\w+)\}", lambda found: names[found[1]], row.path + row.query)
    return server.v1(who, row.method, address, **more)


def list_routes(server: Server) -> list[tuple[str, set[str]]]:
    """Every route with its methods, as the application has them."""
    found = [each for each in make_api(server.service).routes if isinstance(each, Route)]
    return [(each.path, set(each.methods or ()) - {"HEAD"}) for each in found]


def test_every_route_has_its_row(shared: Server) -> None:
    listed = {(row.method, re.sub(r"\{\w+\}", "{}", row.path)) for row in ROUTES}
    found = 0
    for path, methods in list_routes(shared):
        if path.startswith(PREFIX):
            shape = re.sub(r"\{\w+\}", "[^/]+", path.removeprefix(PREFIX))
            for method in methods:
                found += 1
                assert any(
                    method == known and re.fullmatch(shape, path) for known, path in listed
                ), f"{method} {path} is in no row of the table"
    assert found == len(ROUTES)


@pytest.mark.parametrize("row", ROUTES, ids=IDS)
def test_who_may_not_is_told_so(row: Row, shared: Server, names: dict[str, str]) -> None:
    body = {"json": row.body} if row.body is not None else {}
    for who in PEOPLE:
        if who in row.who:
            continue
        answered = ask(shared, who, row, names, **body)
        assert answered.status_code == (401 if who == "nobody" else 403), (who, answered.text)
        assert answered.headers["content-type"] == "application/problem+json"
    for who in ("revoked", "unknown"):
        answered = ask(shared, who, row, names, **body)
        assert answered.status_code == 401, (who, answered.text)


@pytest.mark.parametrize("row", READY, ids=[f"{row.method} {row.path}" for row in READY])
def test_who_may_is_answered(row: Row, shared: Server, names: dict[str, str]) -> None:
    body = {"json": row.body} if row.body is not None else {}
    for who in row.who:
        answered = ask(shared, who, row, names, **body)
        assert answered.status_code < 300, (who, answered.text)


@pytest.mark.parametrize("row", WITH_BODY, ids=[f"{row.method} {row.path}" for row in WITH_BODY])
def test_wrong_bodies_are_refused_in_words(row: Row, shared: Server, names: dict[str, str]) -> None:
    for wrong in row.wrong:
        answered = ask(shared, row.who[0], row, names, json=wrong)
        assert answered.status_code in (404, 409, 422), (wrong, answered.text)
        problem = answered.json()
        assert problem["code"] in ("invalid_input", "conflict", "not_found"), problem
        assert problem["detail"]
        assert problem["errors"]
    broken = ask(
        shared, row.who[0], row, names, content=b"{", headers={"Content-Type": "application/json"}
    )
    # Where the noun bounds the body, a noun that is not there is found first.
    expected = {(400, "bad_request"), (404, "not_found")}
    assert (broken.status_code, broken.json()["code"]) in expected, broken.text
    kind = ask(shared, row.who[0], row, names, content=b"x", headers={"Content-Type": "text/html"})
    assert (kind.status_code, kind.json()["code"]) == (415, "unsupported_media_type")


OTHERS = [
    row
    for row in ROUTES
    if "{" in row.path or re.search(r"(?<!traces)/(speed|sums|secret|bob|sparing)(/|$)", row.path)
]


@pytest.mark.parametrize("row", OTHERS, ids=[f"{row.method} {row.path}" for row in OTHERS])
def test_another_tenant_has_nothing_of_this_one(
    row: Row, shared: Server, names: dict[str, str]
) -> None:
    body = {"json": row.body} if row.body is not None else {}
    for who in ("otto", "oscar"):
        answered = ask(shared, who, row, names, **body)
        assert answered.status_code in (403, 404), (who, answered.text)


def test_lists_of_another_tenant_are_empty(shared: Server, names: dict[str, str]) -> None:
    for path in ("/runs", "/challenges", "/jobs", "/traces", "/rules", "/audit?event=published"):
        assert shared.v1("otto", "GET", path).json()["items"] == []
    assert [each["handle"] for each in shared.v1("otto", "GET", "/agents").json()["items"]] == [
        "oscar"
    ]
    assert shared.v1("otto", "GET", "/vars").json() == {"vars": {}}
    assert shared.v1("otto", "GET", "/ratings").json()["items"] == []


def test_nobody_sees_a_private_challenge(shared: Server) -> None:
    assert [each["name"] for each in shared.v1("nobody", "GET", "/challenges").json()["items"]] == [
        "speed"
    ]
    for path in ("", "/leaderboard", "/attempts"):
        answered = shared.v1("nobody", "GET", f"/challenges/secret{path}")
        assert answered.status_code == 404
        assert "speed" not in answered.text


def test_an_attempt_at_a_private_challenge_is_to_nobody_as_if_there_were_none(
    server: Server,
) -> None:
    furnish(server)
    body = {"agent": "bob", "metrics": {"succeeded": True, "rating": 5}}
    made = server.v1("rita", "POST", "/challenges/secret/reports", json=body)
    attempt = made.json()["attempt"]["id"]
    for there, none in ((attempt, "a000000000099"), ("a3", "a9")):
        for tenant in ("", "?tenant=default"):
            told = server.v1("nobody", "GET", f"/attempts/{there}{tenant}")
            missing = server.v1("nobody", "GET", f"/attempts/{none}{tenant}")
            assert (told.status_code, missing.status_code) == (404, 404)
            expected = json.loads(missing.text.replace(none, there))
            assert told.json() | {"request_id": ""} == expected | {"request_id": ""}
            assert "secret" not in told.text
    assert server.v1("bob", "GET", f"/attempts/{attempt}").status_code == 200


def test_a_tenants_own_limits_are_kept(server: Server) -> None:
    server.v1("ada", "PATCH", "/tenants/default", json={"limits": {"read": 3}})
    del server.service.limits
    answered = [server.v1("victor", "GET", "/runs") for _ in range(6)]
    assert [each.status_code for each in answered[-2:]] == [429, 429]
    assert int(answered[-1].headers["retry-after"]) >= 1
    assert answered[-1].json()["code"] == "too_many_requests"
    assert server.v1("rita", "GET", "/runs").status_code == 200
