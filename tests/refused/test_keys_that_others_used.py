"""An idempotency key belongs to who sends it, and to what it is sent for."""

from __future__ import annotations

from typing import Any

import pytest
from tests.http.conftest import Server, publish, server

__all__ = ["server"]
KEY = "nightly-17"


def send(server: Server, who: str, path: str, body: Any = None, **more: Any) -> Any:
    headers = {"Idempotency-Key": more.pop("key", KEY), **more.pop("headers", {})}
    return server.v1(who, "POST", path, json=body, headers=headers, **more)


def test_an_agent_uses_up_no_key_of_a_report_about_it(server: Server) -> None:
    """Neither that of one report, nor those that the lines of many have."""
    publish(server, name="speed", scoring_formula="rating", visibility="public")
    packed = {"name": "chess", "scoring_formula": "rating", "attempts": 9}
    publish(server, **packed)
    for key in (KEY, f"{KEY} 1", f"{KEY} 2"):
        for path in ("/challenges/speed/attempts", "/challenges/chess/attempts"):
            send(server, "bob", path, {}, key=key)
        send(server, "bob", "/challenges/speed/what-if", {"formula": "rating"}, key=key)
        send(server, "bob", "/formula/check", {"formula": "1"}, key=key)
    lost = {"agent": "bob", "metrics": {"succeeded": False, "rating": 1}}
    one = send(server, "rita", "/challenges/speed/reports", lost)
    assert one.status_code == 201, one.text
    line = b'{"agent": "bob", "metrics": {"succeeded": false, "rating": 2}}\n'
    headers = {"Content-Type": "application/x-ndjson", "Idempotency-Key": KEY}
    path = "/challenges/speed/reports"
    many = [
        server.v1("rita", "POST", path, content=line * 2, headers=headers).text.splitlines()
        for _ in range(2)
    ]
    assert all('"a0' in each for each in many[0]), many
    assert many[0] == many[1]
    found = server.v1("alice", "GET", "/challenges/speed/attempts?agent=bob").json()["items"]
    assert len(found) == 3


def list_posts(server: Server) -> list[str]:
    paths = server.client.get("/openapi.json").json()["paths"]
    return [path for path, methods in paths.items() if "post" in methods and "/api/" in path]


@pytest.mark.parametrize("first", ["bob", "rita", "nobody", "otto"])
def test_whoever_comes_later_is_not_refused_for_a_key_of_somebody_else(
    server: Server, first: str
) -> None:
    """On every route: what is answered with the key is what is answered without it."""
    publish(server, name="speed", scoring_formula="rating", visibility="public")
    known = {"name": "speed", "handle": "charlie", "side": "red"}
    for path in list_posts(server):
        address = path.removeprefix("/api/v1")
        for name in ("name", "run", "attempt", "job", "key", "invitation", "handle", "side"):
            address = address.replace(f"{{{name}}}", known.get(name, "none"))
        send(server, first, address, {"x": 1}, key=address)
        theirs = send(server, "alice", address, {"y": 2}, key=address)
        assert theirs.status_code != 409, (address, theirs.text)
        own = send(server, "alice", address, {"y": 2}, key=f"another {address}")
        assert theirs.status_code == own.status_code, address
