"""`/mcp` over HTTP: both eras of the protocol, keys, sizes and methods."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from tests.mcp.conftest import Hall

CALL = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/call",
    "params": {"name": "list_challenges", "arguments": {}},
}
ACCEPT = {"Accept": "application/json, text/event-stream"}


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_the_sdks_client_finds_the_tools_and_what_they_return(hall: Hall, mode: str) -> None:
    async def work() -> Any:
        async with hall.connect("bob", mode) as client:
            return (await client.list_tools()).tools, await client.call_tool("list_challenges", {})

    tools, called = anyio.run(work)
    assert len(tools) == 14
    for each in tools:
        assert each.description, each.name
        assert each.output_schema is not None, each.name
        assert "ctx" not in each.input_schema["properties"]
    assert called.structured_content["challenges"]


def test_a_key_that_nobody_has_is_refused_before_the_body_is_read(hall: Hall) -> None:
    for who in ("unknown", "revoked"):
        answered = hall.server.ask(who, "POST", "/mcp", content=b"{", headers=ACCEPT)
        assert answered.status_code == 401
        assert answered.headers["www-authenticate"] == "Bearer"
        assert "key" in answered.json()["error"]["message"]


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
def test_there_are_no_sessions_to_listen_to_or_to_end(hall: Hall, method: str) -> None:
    answered = hall.server.ask("bob", method, "/mcp", headers=ACCEPT)
    assert (answered.status_code, answered.headers["allow"]) == (405, "POST")


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ({}, 415, "unsupported_media_type"),
        ({"Content-Type": "text/plain"}, 415, "unsupported_media_type"),
        ({"Content-Type": "application/json", "Accept": "text/html"}, 406, "not_acceptable"),
    ],
)
def test_who_sends_something_else_than_json_is_told_as_elsewhere(
    hall: Hall, headers: dict[str, str], status: int, code: str
) -> None:
    answered = hall.server.ask("bob", "POST", "/mcp", content=b"{}", headers=headers)
    assert answered.status_code == status
    assert answered.headers["content-type"] == "application/problem+json"
    assert answered.json()["code"] == code
    assert "application/json" in answered.json()["errors"][0]["hint"]


def test_a_body_without_a_key_may_be_as_large_as_any_other_of_the_api(hall: Hall) -> None:
    body = {**CALL, "params": {**CALL["params"], "more": "x" * 2_000_000}}  # type: ignore[dict-item]
    assert hall.server.ask("nobody", "POST", "/mcp", json=body, headers=ACCEPT).status_code == 413
    assert hall.server.ask("bob", "POST", "/mcp", json=body, headers=ACCEPT).status_code == 200


def test_a_session_of_pages_cannot_be_used_by_another_site(hall: Hall) -> None:
    headers = {**ACCEPT, "Cookie": "tally_session=forged", "Origin": "https://evil.example"}
    answered = hall.server.ask("nobody", "POST", "/mcp", json=CALL, headers=headers)
    assert answered.status_code == 401
