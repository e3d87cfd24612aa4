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


def test_a_large_body_is_for_who_has_an_open_attempt(hall: Hall) -> None:
    body = {**CALL, "params": {**CALL["params"], "more": "x" * 2_000_000}}  # type: ignore[dict-item]
    assert hall.server.ask("nobody", "POST", "/mcp", json=body, headers=ACCEPT).status_code == 413
    assert hall.server.ask("bob", "POST", "/mcp", json=body, headers=ACCEPT).status_code == 413
    assert hall.server.ask("ada", "POST", "/mcp", json=body, headers=ACCEPT).status_code == 200
    challenge = hall.server.v1("bob", "GET", "/challenges").json()["items"][0]["name"]
    entered = hall.server.v1("bob", "POST", f"/challenges/{challenge}/attempts", json={})
    assert entered.status_code == 201, entered.text
    assert hall.server.ask("bob", "POST", "/mcp", json=body, headers=ACCEPT).status_code == 200


def test_a_session_of_pages_cannot_be_used_by_another_site(hall: Hall) -> None:
    headers = {**ACCEPT, "Cookie": "tally_session=forged", "Origin": "https://evil.example"}
    answered = hall.server.ask("nobody", "POST", "/mcp", json=CALL, headers=headers)
    assert answered.status_code == 403


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://tally.test.evil.example"]
)
def test_a_page_of_another_site_may_not_use_the_tools_even_with_a_key(
    hall: Hall, origin: str
) -> None:
    headers = {**ACCEPT, "Origin": origin}
    answered = hall.server.ask("bob", "POST", "/mcp", json=CALL, headers=headers)
    assert answered.status_code == 403
    assert origin in answered.json()["error"]["message"]


def test_a_page_of_the_server_may_use_the_tools(hall: Hall) -> None:
    host = hall.server.ask("bob", "GET", "/healthz").request.url.netloc.decode()
    headers = {**ACCEPT, "Origin": f"https://{host}"}  # a proxy took the TLS away
    assert hall.server.ask("bob", "POST", "/mcp", json=CALL, headers=headers).status_code == 200


def test_a_version_that_nobody_knows_is_told_which_there_are(hall: Hall) -> None:
    headers = {**ACCEPT, "MCP-Protocol-Version": "1999-01-01"}
    answered = hall.server.ask("bob", "POST", "/mcp", json=CALL, headers=headers)
    assert answered.status_code == 400
    assert answered.json()["error"]["data"]["requested"] == "1999-01-01"
    assert "there is 2024-11-05" in answered.json()["error"]["message"]


@pytest.mark.parametrize("body", [[CALL], {}, {"jsonrpc": "2.0"}, 7])
def test_a_body_that_is_no_message_is_refused_in_one_sentence(hall: Hall, body: Any) -> None:
    answered = hall.server.ask("bob", "POST", "/mcp", json=body, headers=ACCEPT)
    assert answered.status_code == 400
    message = answered.json()["error"]["message"]
    assert "one object" in message or "Parse error" in message
    assert "pydantic" not in answered.text
