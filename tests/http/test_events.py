"""Events by HTTP: changes reach listeners, and a frozen board sends nothing to the public."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

from tests.http.conftest import Server, listening, publish


def listen(server: Server, url: str, who: str, name: str, **headers: str) -> Any:
    if who in server.keys:
        headers["Authorization"] = f"Bearer {server.keys[who]}"
    path = f"{url}/api/v1/challenges/{name}/events"
    return urllib.request.urlopen(urllib.request.Request(path, headers=headers), timeout=60)


def hear(stream: Any, kind: str) -> tuple[str, Any]:
    """The next event of a kind, and its number."""
    number = event = ""
    for line in stream:
        name, _, value = line.decode().rstrip("\n").partition(": ")
        if name == "id":
            number = value
        elif name == "event":
            event = value
        elif name == "data" and event == kind:
            return number, json.loads(value)
    raise AssertionError("the stream ended")


def report(server: Server, rating: float) -> None:
    body = {"agent": "bob", "metrics": {"succeeded": True, "rating": rating}}
    assert server.v1("rita", "POST", "/challenges/speed/reports", json=body).status_code == 201


def test_a_change_reaches_everybody_and_can_be_gone_on_from(server: Server) -> None:
    publish(server, name="speed", scoring_formula="rating", visibility="public")
    with listening(server) as url:
        streams = [listen(server, url, who, "speed") for who in ("nobody", "bob", "alice")]
        first = [hear(each, "ready")[0] for each in streams]
        report(server, 5)
        for each in streams:
            _, told = hear(each, "board")
            assert told["changed"][0]["score"] == 5.0
            each.close()
        with listen(server, url, "bob", "speed", **{"Last-Event-ID": first[0]}) as later:
            assert hear(later, "board")[1]["changed"][0]["agent"] == "bob"


def test_the_public_hears_no_score_of_a_frozen_board(server: Server) -> None:
    publish(server, name="speed", scoring_formula="rating", visibility="public")
    report(server, 1)
    body = {"frozen": True, "reason": "x"}
    assert server.v1("alice", "PATCH", "/challenges/speed", json=body).status_code == 200
    with listening(server) as url:
        streams = {who: listen(server, url, who, "speed") for who in ("nobody", "bob", "alice")}
        for each in streams.values():
            hear(each, "ready")
        report(server, 77.25)
        assert "77.25" in json.dumps(hear(streams["alice"], "board")[1])
        for who in ("nobody", "bob"):
            assert "77.25" not in json.dumps(hear(streams[who], "board")[1])
        for each in streams.values():
            each.close()


def test_what_one_may_not_see_cannot_be_listened_to(server: Server) -> None:
    publish(server, name="hidden", scoring_formula="rating")
    for who, path, status in (
        ("nobody", "/challenges/hidden/events", 404),
        ("oscar", "/challenges/hidden/events", 404),
        ("ada", "/challenges/nowhere/events", 404),
        ("bob", "/runs/latest/events", 403),
        ("ada", "/runs/nothing/events", 404),
    ):
        assert server.v1(who, "GET", path).status_code == status, (who, path)


def test_a_stream_ends_when_its_key_is_revoked(server: Server) -> None:
    publish(server, name="speed", scoring_formula="rating")
    server.service.live._checking_s = 0.01
    key = server.service.accounts.authenticate(server.keys["victor"]).key_id
    with listening(server) as url:
        streams = {who: listen(server, url, who, "speed") for who in ("victor", "alice")}
        for each in streams.values():
            hear(each, "ready")
        assert server.v1("ada", "POST", f"/keys/{key}/revoke").status_code == 200
        assert streams["victor"].read() == b"\n"  # the rest of the event that was heard
        report(server, 5)
        hear(streams["alice"], "board")
        streams["alice"].close()
