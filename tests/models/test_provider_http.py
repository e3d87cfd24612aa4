"""The HTTP client of providers' libraries: what it measures, and where it connects for others."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from time import sleep

import httpx2
import pytest

from tallymark.models import egress_policy, provider_http
from tallymark.models.egress_policy import EgressPolicy, PinnedAddresses
from tallymark.models.provider_http import make_http_client, time_exchanges

SECONDS = 0.05


class Slow(BaseHTTPRequestHandler):
    """Answers after a while with the host that it was asked as."""

    def do_GET(self) -> None:
        sleep(SECONDS)
        body = str(self.headers["Host"]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Silent."""


@pytest.fixture
def port() -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Slow) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


async def ask(url: str, egress: EgressPolicy | None = None, times: int = 1) -> list[str]:
    async with make_http_client(egress) as client:
        return [(await client.get(url)).text for _ in range(times)]


def test_each_exchange_is_timed_where_somebody_wants_it(port: int) -> None:
    asyncio.run(ask(f"http://127.0.0.1:{port}/"))
    with time_exchanges() as seconds:
        asyncio.run(ask(f"http://127.0.0.1:{port}/", times=2))
    assert len(seconds) == 2
    assert all(SECONDS <= each < 10 for each in seconds)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.1", "[::1]"])
def test_for_others_it_connects_to_no_private_address(port: int, host: str) -> None:
    with pytest.raises(httpx2.ConnectError, match="has no public address"):
        asyncio.run(ask(f"http://{host}:{port}/", EgressPolicy()))
    allowed = EgressPolicy(may=frozenset({"private-addresses"}))
    if host != "[::1]":
        assert asyncio.run(ask(f"http://{host}:{port}/", allowed)) == [f"{host}:{port}"]


def test_for_others_a_name_keeps_its_addresses_and_is_asked_as_itself(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = [["127.0.0.2", "127.0.0.1"], ["10.0.0.1"]]

    async def look_up(*_: object) -> list[tuple[int, str]]:
        return [(socket.AF_INET, address) for address in answers.pop(0)]

    monkeypatch.setattr(provider_http, "PinnedAddresses", partial(PinnedAddresses, look_up))
    monkeypatch.setattr(egress_policy, "is_public", lambda _: True)
    said = asyncio.run(ask(f"http://model.example:{port}/", EgressPolicy(), times=2))
    assert said == [f"model.example:{port}"] * 2
    assert len(answers) == 1
