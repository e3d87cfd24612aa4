"""Names of competitors' servers that lead into the private network when they are asked."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tallymark.challenges.submitted_agents import check_agent, open_agent
from tallymark.errors import ModelError
from tallymark.models import Message, Request
from tallymark.models.egress_policy import EgressPolicy, limit_egress, make_pinned_resolver

NAME = "agent.example"
asked: list[str] = []


class _Inside(BaseHTTPRequestHandler):
    """A server that only this machine can reach."""

    def do_POST(self) -> None:
        asked.append(self.path)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"output": "a secret"}')

    def log_message(self, *_: Any) -> None:
        """Says nothing."""


@pytest.fixture
def port() -> Iterator[int]:
    asked.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Inside)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the name is, look by look; the last answer stays."""
    left: list[str] = []
    real = socket.getaddrinfo

    def look_up(host: Any, port: Any, *rest: Any, **more: Any) -> Any:
        if host != NAME:
            return real(host, port, *rest, **more)
        address = left.pop(0) if len(left) > 1 else left[0]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port or 0))]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return left


@pytest.mark.parametrize("egress", [None, EgressPolicy()], ids=["own store", "server"])
@pytest.mark.parametrize(
    "address", ["127.0.0.1", "64:ff9b::7f00:1", "64:ff9b:1::1", "::127.0.0.1", "224.0.0.1"]
)
def test_a_submitted_agent_whose_name_leads_inside_is_not_asked(
    port: int, answers: list[str], tmp_path: Path, egress: EgressPolicy | None, address: str
) -> None:
    answers += [address]
    reference = f"http://{NAME}:{port}/ask"
    with limit_egress(egress):
        check_agent(reference, allow=("http",), folder=tmp_path)  # which looks nothing up

    async def ask() -> None:
        with limit_egress(egress):
            agent = open_agent(reference, allow=("http",), folder=tmp_path)
        try:
            await agent.answer(Request(messages=(Message("user", "hi"),)))
        finally:
            await agent.close()

    with pytest.raises(ModelError, match="no public address"):
        asyncio.run(ask())
    assert asked == []


def test_a_name_that_moves_between_two_looks_stays_where_it_was(
    port: int, answers: list[str]
) -> None:
    answers += ["93.184.216.34", "127.0.0.1"]
    resolver = make_pinned_resolver()

    async def look_twice() -> list[str]:
        return [(await resolver.resolve(NAME, port))[0]["host"] for _ in range(2)]

    assert asyncio.run(look_twice()) == ["93.184.216.34"] * 2
