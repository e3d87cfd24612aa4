"""Every POST is done once under a key, and not at all when it is only to be validated."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.http.conftest import Server, furnish, publish, run_server
from tests.http.route_table import ROUTES, Row

CHANGING = [row for row in ROUTES if row.method in ("POST", "PATCH", "PUT")]
POSTS = [
    row
    for row in ROUTES
    if row.method == "POST"
    and not re.search(
        r"/(sides|what-if|formula|cancel|retry|settle|check)(/|$)|speed/resume|^/traces$",
        row.path,
    )
]
USED_OFTEN = {"keys": ("last_used_at", "used_address")}
"""Fields that change between two reads."""


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Path]]:
    """A server without background work."""
    db = tmp_path_factory.mktemp("quiet") / "tally.db"
    with run_server(str(db), workers=0) as running:
        furnish(running)
        yield running, db


@pytest.fixture(scope="module")
def names(quiet: tuple[Server, Path]) -> dict[str, str]:
    server, _ = quiet
    open_run = server.v1(
        "alice",
        "POST",
        "/runs",
        json={"suite": "evals: [{prompt: hi, checks: [{match: '*'}]}]", "models": ["echo/me"]},
    )
    assert open_run.status_code == 202, open_run.text
    board = server.v1("ada", "GET", "/challenges/speed/leaderboard").json()
    key = server.v1("ada", "POST", "/keys", json={"name": "spare", "role": "viewer"})
    invitation = server.v1("ada", "POST", "/invitations", json={}).json()
    return {
        "run": next(
            each["id"]
            for each in server.v1("ada", "GET", "/runs").json()["items"]
            if each["status"] == "completed"
        ),
        "scored": board["items"][0]["attempt"],
        "trace": server.v1("ada", "GET", "/traces").json()["items"][0]["id"],
        "open": server.v1("bob", "POST", "/challenges/sums/attempts", json={}).json()["attempt"][
            "id"
        ],
        "job": open_run.json()["job"],
        "key": key.json()["key"]["id"],
        "invitation": invitation["invitation"]["id"],
        "code": invitation["code"],
    }


def fill(row: Row, names: dict[str, str]) -> tuple[str, Any]:
    """The address of a row, and a body that is right."""
    path = re.sub(r"\{(\w+)\}", lambda found: names[found[1]], row.path)
    body = {"code": names["code"], "owner": "olga", "agent": "olga"}
    return path, body if path == "/invitations/accept" else row.body


def dump(db: Path) -> dict[str, list[Any]]:
    """Every row of every table."""
    told = {}
    with sqlite3.connect(db) as connection:
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        for (name,) in tables.fetchall():
            rows = connection.execute(f'SELECT * FROM "{name}"')
            columns = [each[0] for each in rows.description]
            hidden = USED_OFTEN.get(name, ())
            told[name] = sorted(
                repr([v for c, v in zip(columns, row, strict=True) if c not in hidden])
                for row in rows
            )
    connection.close()
    return told


@pytest.mark.parametrize("row", CHANGING, ids=[f"{row.method} {row.path}" for row in CHANGING])
def test_what_is_only_validated_changes_nothing(
    row: Row, quiet: tuple[Server, Path], names: dict[str, str]
) -> None:
    server, db = quiet
    path, body = fill(row, names)
    before = dump(db)
    for who in ("ada", "bob"):
        answered = server.v1(
            who,
            row.method,
            f"{path}?validate_only=true",
            json=body,
            headers={"Idempotency-Key": "only"},
        )
        assert answered.status_code < 500, answered.text
        if answered.status_code < 300:
            assert answered.status_code == 200
            assert answered.json().get("secret") is answered.json().get("code") is None
    assert dump(db) == before


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/challenges/speed/reports", {"agent": "bob", "metrics": {"raiting": 1}}, 422),
        ("/challenges/nowhere/attempts", {"agent": "bob"}, 404),
        ("/challenges", {"name": "x", "scoring_formula": "1 +"}, 422),
        ("/keys", {"name": "x", "role": "agent"}, 422),
        ("/agents/nobody-here/disqualify", {"reason": "x"}, 404),
        ("/tracks", {"name": "x", "challenges": ["nowhere"]}, 404),
        ("/runs", {"run": {"suite": "s", "model": "m", "results": [{"case": "a"}]}}, 422),
    ],
)
def test_what_would_be_refused_is_refused_when_validated(
    path: str, body: Any, status: int, shared: Server
) -> None:
    told = shared.v1("ada", "POST", f"{path}?validate_only=true", json=body)
    done = shared.v1("ada", "POST", path, json=body)
    assert (told.status_code, done.status_code) == (status, status), told.text
    assert told.json()["errors"] == done.json()["errors"]


@pytest.mark.parametrize("row", POSTS, ids=[row.path for row in POSTS])
def test_the_same_key_is_done_once_and_answered_the_same(
    row: Row, quiet: tuple[Server, Path]
) -> None:
    server, db = quiet
    made = server.v1("ada", "POST", "/invitations", json={}).json()
    names = {
        "run": server.v1("ada", "GET", "/runs").json()["items"][0]["id"],
        "trace": server.v1("ada", "GET", "/traces").json()["items"][0]["id"],
        "scored": server.v1("ada", "GET", "/challenges/speed/leaderboard").json()["items"][0][
            "attempt"
        ],
        "open": server.v1("bob", "POST", "/challenges/sums/attempts", json={}).json()["attempt"][
            "id"
        ],
        "key": server.v1("ada", "POST", "/keys", json={"name": "spare", "role": "viewer"}).json()[
            "key"
        ]["id"],
        "invitation": made["invitation"]["id"],
        "code": made["code"],
    }
    if row.path == "/agents":
        server.v1("ada", "PATCH", "/tenants/default", json={"registration": "open"})
    path, body = fill(row, names)
    if row.path == "/challenges/speed/rescore":
        path += "?reason=a+test"
    who = "bob" if row.path.endswith(("submission", "withdraw")) else "ada"
    who = "nobody" if row.path == "/agents" else who
    headers = {"Idempotency-Key": f"once {row.path}"}
    first = server.v1(who, "POST", path, json=body, headers=headers)
    assert first.status_code < 300, first.text
    before = dump(db)
    again = server.v1(who, "POST", path, json=body, headers=headers)
    assert again.status_code == first.status_code, again.text
    assert dump(db) == before
    told, told_again = first.json(), again.json()
    for shown_once in ("secret", "code"):
        if shown_once in told:
            assert told_again.pop(shown_once) is None
            assert told.pop(shown_once)
    for goes_on in (told, told_again):
        goes_on.pop("seconds_left", None)  # by the clock of now
    assert told_again == told
    other = server.v1(who, "POST", f"{path}", json={**(body or {}), "reason": "?"}, headers=headers)
    assert other.status_code in (409, 422), other.text


def test_another_request_under_the_same_key_is_a_conflict(server: Server) -> None:
    headers = {"Idempotency-Key": "k-1"}
    made = server.v1("ada", "POST", "/keys", json={"name": "a"}, headers=headers)
    other = server.v1("ada", "POST", "/keys", json={"name": "b"}, headers=headers)
    assert (made.status_code, other.status_code) == (201, 409)
    assert other.json()["code"] == "conflict"
    theirs = server.v1("alice", "POST", "/keys", json={"name": "b"}, headers=headers)
    assert theirs.status_code == 201


def test_of_several_at_once_one_is_done(server: Server) -> None:
    headers = {"Idempotency-Key": "k-1"}

    def ask(_: int) -> Any:
        return server.v1("ada", "POST", "/invitations", json={}, headers=headers)

    with ThreadPoolExecutor(6) as pool:
        answered = list(pool.map(ask, range(6)))
    assert {each.status_code for each in answered} <= {201, 409}
    shown = {each.json()["code"] for each in answered if each.status_code == 201}
    assert len(shown - {None}) == 1
    assert len(server.v1("ada", "GET", "/invitations").json()["items"]) == 1


def test_reports_at_once_under_one_key_are_one_attempt(server: Server) -> None:
    publish(server, name="speed", scoring_formula="rating")
    body = {"agent": "bob", "metrics": {"succeeded": True, "rating": 5}}

    def ask(_: int) -> Any:
        return server.v1(
            "rita",
            "POST",
            "/challenges/speed/reports",
            json=body,
            headers={"Idempotency-Key": "k"},
        )

    with ThreadPoolExecutor(8) as pool:
        answered = list(pool.map(ask, range(8)))
    assert {each.status_code for each in answered} == {201}
    assert len({each.json()["attempt"]["id"] for each in answered}) == 1


def test_a_refused_request_does_not_use_its_key_up(server: Server) -> None:
    headers = {"Idempotency-Key": "k-1"}
    wrong = server.v1("ada", "POST", "/keys", json={"name": ""}, headers=headers)
    right = server.v1("ada", "POST", "/keys", json={"name": "a"}, headers=headers)
    assert (wrong.status_code, right.status_code) == (422, 201)


@pytest.mark.parametrize("key", ["", "k" * 256])
def test_a_key_that_cannot_be_kept_is_refused(key: str, shared: Server) -> None:
    for path, body in (
        ("/keys", {"name": "a"}),
        ("/challenges/sums/attempts", {"agent": "bob"}),
        ("/challenges/speed/reports", {"agent": "bob", "metrics": {}}),
    ):
        answered = shared.v1("ada", "POST", path, json=body, headers={"Idempotency-Key": key})
        assert answered.status_code in (400, 422), (path, answered.text)


def test_a_replay_says_so_and_where_to_look(server: Server) -> None:
    suite = json.dumps({"evals": [{"prompt": "hi", "checks": [{"match": "*"}]}]})
    sent = {"json": {"suite": suite, "models": ["echo/me"]}, "headers": {"Idempotency-Key": "k"}}
    first = server.v1("alice", "POST", "/runs", **sent)
    again = server.v1("alice", "POST", "/runs", **sent)
    assert (first.status_code, again.status_code) == (202, 202)
    assert again.headers["idempotency-replayed"] == "true"
    assert again.headers["location"] == first.headers["location"]
    assert again.json() == first.json()
