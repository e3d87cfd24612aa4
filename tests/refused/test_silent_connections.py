"""Connections that are silent or slow end, and leave the others alone."""

from __future__ import annotations

import json
import resource
import socket
import threading
import time
import urllib.request
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from tests.http.conftest import ADA, listening, run_server
from uvicorn import Config
from uvicorn.server import ServerState

from tallymark.connections import ConnectionLimits, make_limits

POST = f"""POST /api/v1/challenges HTTP/1.1\r
Host: x\r
Authorization: Bearer {ADA}\r
Content-Type: application/json\r
Content-Length: 100000\r
\r
{{""".encode()


@contextmanager
def serving(folder: Path, **limits: Any) -> Iterator[tuple[str, int]]:
    with (
        run_server(str(folder / "tally.db"), workers=0) as server,
        listening(server, http=ConnectionLimits(**limits), ws="none", timeout_keep_alive=1) as url,
    ):
        yield "127.0.0.1", int(url.rpartition(":")[2])


def ask(address: tuple[str, int], path: str = "/healthz", **body: Any) -> Any:
    request = urllib.request.Request(
        f"http://{address[0]}:{address[1]}{path}",
        json.dumps(body).encode() if body else None,
        {"Authorization": f"Bearer {ADA}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def wait_until_closed(connection: socket.socket) -> bytes:
    """What was answered; it returns when the server has closed the connection."""
    heard = b""
    try:
        while chunk := connection.recv(65536):
            heard += chunk
    except ConnectionResetError:
        pass
    return heard


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET /healthz HTT",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: ",
        b"\r\n\r\n",
        # After a whole request, the beginning of another, and nothing but line ends.
        b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET /",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n\r\n",
    ],
)
def test_half_a_header_is_not_waited_for(tmp_path: Path, sent: bytes) -> None:
    with serving(tmp_path, header_s=0.2) as address, socket.create_connection(address) as half:
        half.settimeout(60)
        half.sendall(sent)
        heard = wait_until_closed(half)
        assert (b"200 OK" in heard) == (b"Host: x\r\n\r\n" in sent)
        assert ask(address) == {"status": "ok"}


def send_until_closed(connection: socket.socket, first: bytes, more: bytes) -> None:
    """Send something again and again; it returns when the server has closed the connection."""
    connection.settimeout(0.05)
    connection.sendall(first)
    while True:
        try:
            if more:
                connection.sendall(more)
            if not connection.recv(65536):
                return
        except TimeoutError:
            continue
        except OSError:
            return


def test_a_header_byte_by_byte_ends_too(tmp_path: Path) -> None:
    with serving(tmp_path, header_s=0.3) as address, socket.create_connection(address) as slow:
        send_until_closed(slow, b"GET /healthz HTTP/1.1\r\nX-Slow: ", b"a")


@pytest.mark.parametrize("more", [b"", b" "], ids=["silent", "byte by byte"])
def test_half_a_body_is_not_waited_for(tmp_path: Path, more: bytes) -> None:
    with serving(tmp_path, body_s=0.3) as address, socket.create_connection(address) as half:
        send_until_closed(half, POST, more)
        assert ask(address, "/api/v1/challenges")["items"] == []


class Clock(Mock):
    """An event loop whose time passes when a test says so."""

    def begin(self) -> None:
        self.now = 0.0
        self.due: list[Mock] = []

    def call_later(self, seconds: float, work: Callable[[], None]) -> Mock:
        timer = Mock(at=self.now + seconds, work=work)
        timer.cancel = lambda: self.due.remove(timer) if timer in self.due else None
        self.due.append(timer)
        return timer

    def create_task(self, work: Coroutine[Any, Any, None]) -> Mock:
        work.close()
        return Mock()

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        for timer in [each for each in self.due if each.at <= self.now]:
            self.due.remove(timer)
            timer.work()


@pytest.mark.parametrize(
    ("sent", "ends"), [(1_000, False), (999, True), (0, True)], ids=["enough", "less", "nothing"]
)
def test_a_body_may_take_long_if_it_moves_on(sent: int, ends: bool) -> None:
    loop, transport = Clock(), Mock()
    loop.begin()
    transport.get_extra_info = {"peername": ("192.0.2.7", 4711)}.get
    limits = ConnectionLimits()
    config = Config(Mock(), log_config=None, ws="none")
    connection = limits(config=config, server_state=ServerState(), app_state={}, _loop=loop)
    connection.connection_made(transport)
    connection.data_received(POST[:-1])
    for _ in range(10):
        loop.pass_time(29)
        connection.data_received(b"x" * sent) if sent else None
        loop.pass_time(1)
    assert transport.abort.called == ends
    connection.connection_lost(None)
    assert not limits.open
    assert not loop.due or ends


def test_who_listens_is_not_cut_off(tmp_path: Path) -> None:
    with serving(tmp_path, header_s=0.1, body_s=0.1) as address, ExitStack() as left:
        ask(address, "/api/v1/challenges", name="speed", scoring_formula="rating")
        listener = left.enter_context(socket.create_connection(address))
        listener.settimeout(60)
        listener.sendall(
            b"GET /api/v1/challenges/speed/events HTTP/1.1\r\nHost: x\r\n"
            b"Authorization: Bearer " + ADA.encode() + b"\r\n\r\n"
        )
        heard = b""
        while b"event:" not in heard and b"data:" not in heard:
            heard += listener.recv(65536)
        for sent in (b"", POST):  # both limits pass
            with socket.create_connection(address) as silent:
                silent.settimeout(60)
                silent.sendall(sent)
                wait_until_closed(silent)
        ask(
            address,
            "/api/v1/challenges/speed/reports",
            agent="bob",
            metrics={"succeeded": True, "rating": 7},
        )
        heard = b""
        while b"bob" not in heard:
            chunk = listener.recv(65536)
            assert chunk, "the stream was cut off"
            heard += chunk


def test_one_address_cannot_hold_all_connections(tmp_path: Path) -> None:
    """3,000 silent sockets of one address, or as many as the machine allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    count = min(3_000, hard // 3)
    bound = count // 10
    try:
        with serving(tmp_path, per_address=bound) as address, ExitStack() as left:
            silent = [left.enter_context(socket.create_connection(address)) for _ in range(count)]
            for each in silent[bound:]:
                each.settimeout(60)
                wait_until_closed(each)
            # From another address everything goes on.
            with socket.create_connection(address, source_address=("127.0.0.2", 0)) as other:
                other.settimeout(60)
                other.sendall(b"GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                assert b'"ready"' in wait_until_closed(other)
            # Who leaves makes room.
            silent[0].close()
            answered = threading.Event()
            while not answered.is_set():
                try:
                    assert ask(address) == {"status": "ok"}
                    answered.set()
                except OSError:
                    continue
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_refused_connections_are_in_the_log_once_a_minute(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(tmp_path, per_address=2) as address, ExitStack() as left:
        made = [left.enter_context(socket.create_connection(address)) for _ in range(12)]
        for each in made[2:]:
            each.settimeout(60)
            wait_until_closed(each)
    (said,) = [each.getMessage() for each in caplog.records if "refused" in each.getMessage()]
    assert "1 connections refused: 3 are open" in said
    assert "2 of one address" in said


def test_silent_sockets_of_one_address_end_by_themselves(tmp_path: Path) -> None:
    with serving(tmp_path, header_s=0.3) as address, ExitStack() as left:
        silent = [left.enter_context(socket.create_connection(address)) for _ in range(300)]
        for each in silent:
            each.settimeout(60)
            wait_until_closed(each)
        assert ask(address) == {"status": "ok"}


def test_the_proxy_may_hold_more(tmp_path: Path) -> None:
    limits = {"per_address": 2, "is_proxy": lambda peer: peer == "127.0.0.1"}
    with serving(tmp_path, **limits) as address, ExitStack() as left:
        for _ in range(10):
            left.enter_context(socket.create_connection(address))
        assert ask(address) == {"status": "ok"}


def test_the_descriptor_limit_is_raised_at_the_start() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(1024, hard), hard))
        limits = make_limits(lambda _: False)
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == min(hard, 2**20)
        assert limits.per_address < limits.total < hard
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize(
    "sent",
    [
        b"GET /healthz HTTP/1.1\r\n" + b"a:\r\n" * 100_000,
        b"GET /healthz HTTP/1.1\r\nHost: x\r\n" + b"a:\r\n" * 300 + b"\r\n",
        b"GET /healthz?" + b"x" * 400_000,
        b"GET /healthz HTTP/1.1\r\nX: " + b"x" * 400_000,
        b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: " + b"x" * 70_000 + b"\r\n\r\n",
        b"POST /api/v1/formula/check HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        b"Transfer-Encoding: chunked\r\nTrailer: a\r\n\r\n0\r\na: " + b"x" * 400_000,
    ],
    ids=["bytes of headers", "headers", "an address", "one header", "all at once", "a trailer"],
)
def test_a_header_has_a_size(tmp_path: Path, sent: bytes) -> None:
    with serving(tmp_path) as address, socket.create_connection(address) as long:
        long.settimeout(60)
        try:
            long.sendall(sent)
            heard = wait_until_closed(long)
        except (BrokenPipeError, ConnectionResetError):
            heard = b""
        assert b"200 OK" not in heard
        assert ask(address) == {"status": "ok"}


def test_small_chunks_of_a_large_body_are_no_header(tmp_path: Path) -> None:
    body = json.dumps({"formula": "success_pct", "x": "y" * 60_000}).encode()
    chunks = b"".join(b"4\r\n%b\r\n" % body[at : at + 4] for at in range(0, len(body) & ~3, 4))
    rest = body[len(body) & ~3 :]
    end = (b"%x\r\n%b\r\n" % (len(rest), rest) if rest else b"") + b"0\r\n\r\n"
    head = (
        b"POST /api/v1/formula/check HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    with serving(tmp_path) as address, socket.create_connection(address) as sender:
        sender.settimeout(60)
        sender.sendall(head + chunks + end)
        assert wait_until_closed(sender).startswith(b"HTTP/1.1 422")


def test_a_request_behind_a_stream_leaves_no_listener(tmp_path: Path) -> None:
    with (
        run_server(str(tmp_path / "tally.db"), workers=0) as server,
        listening(server, http=ConnectionLimits(), ws="none") as url,
    ):
        address = "127.0.0.1", int(url.rpartition(":")[2])
        fields = {"name": "speed", "scoring_formula": "rating"}
        assert server.v1("alice", "POST", "/challenges", json=fields).status_code == 201
        live = server.service.live
        # Nothing is read behind a request that waits, so the end is noticed by writing.
        live._heartbeat_s = 0.2
        with socket.create_connection(address) as stream:
            stream.settimeout(60)
            head = f"Host: x\r\nAuthorization: Bearer {ADA}\r\n\r\n"
            stream.sendall(f"GET /api/v1/challenges/speed/events HTTP/1.1\r\n{head}".encode())
            while b"retry" not in stream.recv(65536):
                pass
            assert live.listeners == 1
            stream.sendall(f"GET /healthz HTTP/1.1\r\n{head}".encode())
        for _ in range(600):
            if not live.listeners:
                break
            time.sleep(0.1)
        assert live.listeners == 0
