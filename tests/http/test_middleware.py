"""Middleware: compressed, truncated and large bodies; HEAD, hosts, headers."""

from __future__ import annotations

import gzip
import sys
import zlib
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.http.conftest import Server

from tallymark.server import make_server
from tallymark.service.limits import BODIES
from tallymark.service.service import Service
from tallymark.service.settings import ServiceSettings

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

REPORT = b'{"agent": "bob", "metrics": {"succeeded": true, "rating": 3}}'


def pack(body: bytes) -> bytes:
    """Without the time, by which two collections of the tests would differ."""
    return gzip.compress(body, mtime=0)


def send(server: Server, body: bytes, encoding: str, path: str = "speed/reports") -> Any:
    headers = {"Content-Type": "application/json", "Content-Encoding": encoding}
    return server.v1("ada", "POST", f"/challenges/{path}", content=body, headers=headers)


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gzip", pack(REPORT)),
        ("gzip", pack(REPORT[:20]) + pack(REPORT[20:])),
        ("deflate", zlib.compress(REPORT)),
        ("zstd", zstd.compress(REPORT)),
        ("zstd", zstd.compress(REPORT[:20]) + zstd.compress(REPORT[20:])),
        ("GZIP", pack(REPORT)),
        ("identity", REPORT),
    ],
    ids=range(7),
)
def test_packed_bodies_are_read(encoding: str, body: bytes, shared: Server) -> None:
    answered = send(shared, body, encoding)
    assert (answered.status_code, answered.json()["score"]) == (201, 30.0), answered.text


@pytest.mark.parametrize(
    ("encoding", "body", "status"),
    [
        ("gzip", pack(REPORT)[:-4], 400),
        ("gzip", pack(REPORT)[:12], 400),
        ("gzip", pack(REPORT) + b"more", 400),
        ("gzip", REPORT, 400),
        ("zstd", zstd.compress(REPORT)[:-4], 400),
        ("zstd", zstd.compress(REPORT) + b"more", 400),
        ("zstd", b"\x28\xb5\x2f\xfd\x00\xa8" + b"\0" * 20, 400),
        ("br", REPORT, 415),
        ("gzip, gzip", pack(pack(REPORT)), 415),
        ("zstd", zstd.compress(b"") * 10_000, 400),
        ("gzip", pack(b"") * 4_000, 400),
    ],
    ids=range(11),
)
def test_what_cannot_be_unpacked_is_refused(
    encoding: str, body: bytes, status: int, shared: Server
) -> None:
    answered = send(shared, body, encoding)
    assert answered.status_code == status, answered.text
    assert answered.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gzip", pack(b" " * 20_000_000)),
        ("zstd", zstd.compress(b" " * 20_000_000)),
        ("identity", b" " * (BODIES["others"] + 1)),
    ],
    ids=("gzip", "zstd", "identity"),
)
def test_a_body_is_bounded_by_what_it_unpacks_to(
    encoding: str, body: bytes, shared: Server
) -> None:
    answered = send(shared, body, encoding, "speed/what-if")
    assert (answered.status_code, answered.json()["code"]) == (413, "too_large")
    assert "2,000,000" in answered.json()["detail"]


@pytest.mark.parametrize(
    ("encoding", "part"),
    # The second is a zstd frame to be skipped: it unpacks to nothing, however much of it comes.
    [
        ("identity", b" " * 1_000_000),
        ("zstd", b"\x50\x2a\x4d\x18\x40\x42\x0f\0" + bytes(1_000_000)),
    ],
    ids=["identity", "zstd"],
)
def test_a_bomb_in_parts_is_noticed_while_it_comes(
    shared: Server, encoding: str, part: bytes
) -> None:
    sent = 0

    def parts() -> Any:
        nonlocal sent
        while sent < 50:
            sent += 1
            yield part

    answered = shared.v1(
        "ada",
        "POST",
        "/challenges/speed/what-if",
        content=parts(),
        headers={"Content-Type": "application/json", "Content-Encoding": encoding},
    )
    assert answered.status_code == 413


def test_nobody_makes_the_server_read_what_they_may_not_send(shared: Server) -> None:
    body = pack(b" " * 50_000_000)
    answered = shared.v1(
        "nobody", "POST", "/keys", content=body, headers={"Content-Encoding": "gzip"}
    )
    assert answered.status_code == 401


def test_head_has_the_headers_and_no_body(shared: Server) -> None:
    for path in ("/challenges/speed/leaderboard", "/challenges/speed/events", "/runs"):
        got = shared.v1("ada", "HEAD", path)
        assert (got.status_code, got.content) == (200, b""), path
    got = shared.v1("ada", "HEAD", "/challenges/speed/leaderboard")
    assert got.headers["etag"]
    assert shared.v1("nobody", "HEAD", "/runs").status_code == 401


def test_every_answer_has_an_id_and_safe_headers(shared: Server) -> None:
    for path in ("/api/v1/limits", "/nowhere", "/api/v1/runs"):
        answered = shared.ask("nobody", "GET", path)
        assert answered.headers["x-content-type-options"] == "nosniff"
        assert answered.headers["x-frame-options"] == "DENY"
        assert len(answered.headers["x-request-id"]) == 16
    told = shared.v1("nobody", "GET", "/runs")
    assert told.json()["request_id"] == told.headers["x-request-id"]


def test_ids_of_requests_do_not_count_them(shared: Server) -> None:
    ids = [shared.v1("nobody", "GET", "/limits").headers["x-request-id"] for _ in range(3)]
    for half in (slice(0, 8), slice(8, 16)):
        values = sorted(int(each[half], 16) for each in ids)
        assert values[2] - values[0] > 100


def test_only_the_named_hosts_are_served(tmp_path: Any) -> None:
    service = Service(ServiceSettings(db=str(tmp_path / "tally.db"), own=True, workers=0))
    app = make_server(service, hosts=frozenset({"127.0.0.1:8000"}))
    with TestClient(app, base_url="http://127.0.0.1:8000") as client:
        assert client.get("/api/v1/me").json()["caller"]["role"] == "admin"
        answered = client.get("/api/v1/me", headers={"Host": "evil.test"})
        assert answered.status_code == 421
        assert answered.headers["content-type"] == "application/problem+json"


def test_other_sites_are_answered_only_where_the_operator_says_so(tmp_path: Any) -> None:
    for origins, allowed in (((), None), (("https://team.test",), "https://team.test")):
        settings = ServiceSettings(db=str(tmp_path / "tally.db"), workers=0, cors=origins)
        with TestClient(make_server(Service(settings))) as client:
            asked = {"Origin": "https://team.test"}
            answered = client.get("/api/v1/limits", headers=asked)
            assert answered.headers.get("access-control-allow-origin") == allowed
            other = client.get("/api/v1/limits", headers={"Origin": "https://evil.test"})
            assert "access-control-allow-origin" not in other.headers
