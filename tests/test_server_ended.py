"""A server in a process of its own: killed it loses nothing, told to end it ends.

`make proof PROOF=server` does the same often, and under more load.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

from scripts.prove_server import Size, listen_and_stop, prove_kills
from scripts.prove_shutdown import prove_stopping
from scripts.server_process import ADMIN_KEY, ServerProcess, set_up, start_server

from tallymark.store import open_store


def test_what_was_answered_before_a_kill_is_there_once(tmp_path: Path) -> None:
    found = prove_kills(str(tmp_path / "tally.db"), Size(times=1, least=40))
    assert found.startswith("killed 1 times")


def test_listeners_do_not_keep_it_from_ending(tmp_path: Path) -> None:
    db = str(tmp_path / "tally.db")
    with open_store(db) as store:
        set_up(store)
    server = start_server(db, workers=1)
    asyncio.run(listen_and_stop(server, 5))
    assert server.process.returncode == 0, server.last_words


def test_a_stop_answers_whoever_waits_for_a_score(tmp_path: Path) -> None:
    found = prove_stopping(str(tmp_path / "tally.db"), tmp_path / "waiting", 1, 50)
    assert "submission 202" in found


def send_report(server: ServerProcess, body: bytes, length: int) -> socket.socket:
    url = urlsplit(server.url)
    sending = socket.create_connection((url.hostname, url.port), timeout=60)
    sending.sendall(
        b"POST /api/v1/challenges/bench/reports HTTP/1.1\r\nHost: x\r\n"
        b"Content-Type: application/json\r\nConnection: close\r\n"
        + f"Authorization: Bearer {ADMIN_KEY}\r\nContent-Length: {length}\r\n\r\n".encode()
        + body
    )
    return sending


def read_all(connection: socket.socket) -> str:
    with connection, connection.makefile("rb") as answer:
        return answer.read().decode()


def test_requests_that_cannot_end_are_answered_503_and_the_process_ends(tmp_path: Path) -> None:
    """One sends half a body, and one waits for a database that somebody else has locked."""
    db = str(tmp_path / "tally.db")
    with open_store(db) as store:
        set_up(store)
    server = start_server(db)
    whole = json.dumps({"agent": "ada", "metrics": {"succeeded": True}}).encode()
    with closing(sqlite3.connect(db)) as other:
        other.execute("BEGIN IMMEDIATE")
        sent = [
            send_report(server, whole[:9], len(whole)),
            send_report(server, whole, len(whole)),
        ]
        with socket.create_connection(
            (urlsplit(server.url).hostname, urlsplit(server.url).port)
        ) as after:
            after.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            assert after.recv(100).startswith(b"HTTP/1.1 200")  # those before were read
        assert server.stop(60.0) == 0, server.last_words
    answers = [read_all(each) for each in sent]
    assert all(each.startswith("HTTP/1.1 503") for each in answers), answers
    assert all("retry-after: 5" in each for each in answers)
    assert all("the server is ending" in each for each in answers)
    assert "Traceback" not in (server.last_words or "")
