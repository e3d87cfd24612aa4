"""A name that is public when it is checked, and leads into the private network when it is asked."""

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
from tallymark.errors import InvalidInput, ModelError
from tallymark.models import Message, Request
from tallymark.models.reach import Reach, limit_reach

NAME = "agent.example"
asked: list[str] = []


class _Inside(BaseHTTPRequestHandler):
    """What only this machine can reach."""

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


@pytest.mark.parametrize("reach", [None, Reach()], ids=["own store", "server"])
def test_a_submitted_agent_that_moves_is_not_asked(
    port: int, answers: list[str], tmp_path: Path, reach: Reach | None
) -> None:
    answers += ["93.184.216.34", "127.0.0.1"]

    async def ask() -> None:
        with limit_reach(reach):
            agent = open_agent(f"http://{NAME}:{port}/ask", allow=("http",), folder=tmp_path)
        try:
            await agent.answer(Request(messages=(Message("user", "hi"),)))
        finally:
            await agent.close()

    with pytest.raises(ModelError, match="no public address"):
        asyncio.run(ask())
    assert asked == []


@pytest.mark.parametrize("address", ["64:ff9b::7f00:1", "64:ff9b:1::1", "::127.0.0.1", "224.0.0.1"])
def test_an_agent_behind_a_translated_address_is_refused(
    answers: list[str], tmp_path: Path, address: str
) -> None:
    answers += [address]
    with pytest.raises(InvalidInput, match="not on the public network"):
        check_agent(f"http://{NAME}/ask", allow=("http",), folder=tmp_path)
