"""Pages, cursors, fields and what has not changed since."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from tests.http.conftest import Server, publish

LISTS = (
    "/runs",
    "/runs?sort=score",
    "/runs?sort=suite&order=asc",
    "/runs/latest/cases",
    "/challenges",
    "/challenges/speed/attempts",
    "/challenges/speed/leaderboard",
    "/agents",
    "/audit",
    "/jobs",
)


def at(path: str, **more: Any) -> str:
    return path + ("&" if "?" in path else "?") + "&".join(f"{k}={v}" for k, v in more.items())


def forge(*place: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode().rstrip("=")


@pytest.mark.parametrize("path", LISTS)
def test_a_cursor_that_no_page_gave_is_refused(path: str, shared: Server) -> None:
    forged = [forge(2**63), forge(-1), forge("a\0"), forge(), forge([[]]), forge(1, 2, 3, 4)]
    for cursor in ("!", "a", "%00", "%ff", *forged):
        answered = shared.v1("ada", "GET", at(path, cursor=cursor))
        assert answered.status_code == 400 or (
            path in ("/agents", "/challenges") and cursor == forged[2]
        ), (cursor, answered.text)


@pytest.mark.parametrize("path", LISTS)
def test_a_limit_out_of_range_is_refused(path: str, shared: Server) -> None:
    for limit in ("0", "-1", "1001", "many", "1e3"):
        answered = shared.v1("ada", "GET", at(path, limit=limit))
        assert (answered.status_code, answered.json()["code"]) == (400, "bad_request")


def page_through(server: Server, path: str, between: Any = lambda: None) -> list[Any]:
    found, cursor = [], None
    while True:
        more: dict[str, Any] = {} if cursor is None else {"cursor": cursor}
        page = server.v1("ada", "GET", at(path, limit=2, **more)).json()
        assert len(page["items"]) <= 2
        found += page["items"]
        cursor = page["next"]
        if cursor is None:
            return found
        between()


RUN = {"suite": "s", "model": "m", "results": [{"case": "a", "status": "passed"}]}


@pytest.mark.parametrize(
    "path", ["/runs", "/runs?sort=score", "/runs?sort=suite&order=asc", "/runs?sort=finished_at"]
)
def test_pages_of_runs_have_each_once_while_others_are_added(path: str, server: Server) -> None:
    for n in range(5):
        results = [{"case": str(k), "status": "passed" if k < n else "failed"} for k in range(4)]
        run = {**RUN, "suite": f"s{n % 2}", "results": results}
        assert server.v1("rita", "POST", "/runs", json={"run": run}).status_code == 201
    known = {each["id"] for each in server.v1("ada", "GET", "/runs").json()["items"]}

    def add() -> None:
        server.v1("rita", "POST", "/runs", json={"run": RUN})

    found = [each["id"] for each in page_through(server, path, add)]
    assert len(found) == len(set(found))
    assert known <= set(found)


def test_pages_of_attempts_have_each_once_while_others_are_added(server: Server) -> None:
    publish(server, name="speed", scoring_formula="rating")

    def report() -> None:
        body = {"agent": "bob", "metrics": {"succeeded": True, "rating": 1}}
        server.v1("rita", "POST", "/challenges/speed/reports", json=body)

    for _ in range(5):
        report()
    found = [each["number"] for each in page_through(server, "/challenges/speed/attempts", report)]
    assert found == [5, 4, 3, 2, 1]


def test_only_the_fields_that_are_asked_for(shared: Server) -> None:
    page = shared.v1("ada", "GET", "/challenges?fields=name,title").json()
    assert all(set(each) == {"name", "title"} for each in page["items"])
    one = shared.v1("ada", "GET", "/challenges/speed?fields=name").json()
    assert one == {"challenge": {"name": "speed"}}
    for fields in ("nmae", "", ",", "name,zzz"):
        answered = shared.v1("ada", "GET", f"/challenges?fields={fields}")
        assert answered.status_code == 400, fields


def test_a_tag_changes_with_whatever_a_board_shows(server: Server) -> None:
    publish(server, name="speed", scoring_formula="rating", visibility="public")
    publish(server, name="other", scoring_formula="rating")
    board = "/challenges/speed/leaderboard"

    def report(rating: int, agent: str = "bob") -> str:
        body = {"agent": agent, "metrics": {"succeeded": True, "rating": rating}}
        done = server.v1("rita", "POST", "/challenges/speed/reports", json=body)
        assert done.status_code == 201, done.text
        return str(done.json()["attempt"]["id"])

    def tag(who: str = "nobody") -> str:
        answered = server.v1(who, "GET", board)
        etag = str(answered.headers["etag"])
        again = server.v1(who, "GET", board, headers={"If-None-Match": f'"x", {etag}'})
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"] == etag
        return etag

    seen = [tag()]
    attempt = report(5)
    acts = (
        lambda: report(6, "charlie"),
        lambda: server.v1("ada", "POST", f"/attempts/{attempt}/void", json={"reason": "x"}),
        lambda: server.v1("ada", "POST", f"/attempts/{attempt}/unvoid", json={"reason": "x"}),
        lambda: server.v1("ada", "POST", "/agents/bob/disqualify", json={"reason": "x"}),
        lambda: server.v1("ada", "POST", "/agents/bob/reinstate", json={"reason": "x"}),
        lambda: server.service.app.store.agents.name_agent("bob", "Bobby", at=1.0),
        lambda: server.v1(
            "ada", "POST", "/challenges/speed/rescore?reason=x", json={"formula": "-rating"}
        ),
        lambda: server.v1(
            "ada", "PATCH", "/challenges/speed", json={"frozen": True, "reason": "x"}
        ),
    )
    seen.append(tag())
    for act in acts:
        act()
        seen.append(tag())
    assert len(set(seen)) == len(seen)
    assert tag("ada") != tag("nobody")


def test_a_run_that_did_not_change_is_304(shared: Server) -> None:
    first = shared.v1("ada", "GET", "/runs/latest")
    etag = first.headers["etag"]
    again = shared.v1("ada", "GET", "/runs/latest", headers={"If-None-Match": f"W/{etag}"})
    assert (again.status_code, again.content) == (304, b"")
    other = shared.v1("ada", "GET", "/runs/latest?fields=id", headers={"If-None-Match": etag})
    assert other.status_code == 200
