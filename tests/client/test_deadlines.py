"""Answers that never end are errors."""

from __future__ import annotations

import asyncio
import gzip
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress

import pytest

from tallymark.client import AsyncClient, Client, exchange
from tallymark.client.connection import PACE, Deadline
from tallymark.errors import WorkFailed

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
LONG = 1000
"""Bytes of an answer, 10 ms apart: much longer than any timeout here."""
ANSWERS = {
    "headers": b"HTTP/1.1 200 OK\r\nX-More: " + b"x" * LONG,
    "a body": HEAD + b"Content-Length: 9999\r\n\r\n" + b" " * LONG,
    "a packed body": HEAD
    + b"Content-Encoding: gzip\r\nContent-Length: 9999\r\n\r\n"
    + gzip.compress(os.urandom(LONG)),
}


def drip(listener: socket.socket, answer: bytes) -> None:
    with suppress(OSError):
        while True:
            connection, _ = listener.accept()
            with closing(connection), suppress(OSError):
                connection.recv(65536)
                head, sep, body = answer.partition(b"\r\n\r\n")
                connection.sendall(head[:20] if not sep else head + sep)
                for byte in body or head[20:]:
                    connection.sendall(bytes([byte]))
                    time.sleep(0.01)


@pytest.fixture(params=ANSWERS)
def dripping(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a server whose answers do not end."""
    monkeypatch.setattr(exchange, "TRIES", 1)
    listener = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=drip, args=(listener, ANSWERS[request.param]), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


def test_a_client_does_not_wait_for_ever(dripping: str) -> None:
    with Client(dripping, "k", timeout=0.3) as client, pytest.raises(WorkFailed, match="in time"):
        client.accounts.me()


def test_nor_does_one_with_an_event_loop(dripping: str) -> None:
    async def main() -> None:
        async with AsyncClient(dripping, "k", timeout=0.3) as client:
            await client.accounts.me()

    with pytest.raises(WorkFailed, match="in time"):
        asyncio.run(main())


def test_who_is_slow_and_sends_much_gets_the_time_for_it() -> None:
    deadline = Deadline(10.0, sent=PACE)
    assert 10.0 < deadline.left <= 11.0
    deadline.extend(5 * PACE)
    assert 15.0 < deadline.left <= 16.0
