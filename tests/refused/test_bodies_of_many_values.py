"""Small bodies that would take gigabytes: refused before anything is built of them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.http.conftest import Server, run_server

from tallymark.errors import Busy
from tallymark.service.limits import BODIES, VALUES, MemoryBudget

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

JSON = "application/json"
PROTOBUF = "application/x-protobuf"
NDJSON = "application/x-ndjson"
CHALLENGE = """
name: sums
goal: Add up.
submission: {max_bytes: 1000}
evaluator: {type: deterministic, truth: truth.json, fields: {sum: exact_match}}
scoring: {dimensions: {correctness: 0.9, speed: 0.1}}
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("values")
    with run_server(str(folder / "tally.db"), workers=0) as running:
        publish(running, folder / "sums")
        yield running


def publish(server: Server, folder: Path) -> None:
    folder.mkdir()
    (folder / "challenge.yaml").write_text(CHALLENGE)
    (folder / "truth.json").write_text('{"sum": 42}')
    server.service.tenant("default").competition.publish(folder)


def send(server: Server, who: str, path: str, kind: str, body: bytes, **more: str) -> Any:
    headers = {"Content-Type": kind, "Content-Encoding": "zstd", **more}
    return server.ask(who, "POST", path, content=zstd.compress(body), headers=headers)


def enter(server: Server) -> str:
    entered = server.v1("bob", "POST", "/challenges/sums/attempts", json={})
    assert entered.status_code == 201, entered.text
    return f"/api/v1/attempts/{entered.json()['attempt']['id']}/submission"


def make_list(before: bytes, count: int, after: bytes, item: bytes = b"{}") -> bytes:
    return before + b",".join([item] * count) + after


SPANS = (b'{"resourceSpans":[', b"]}")
BOMBS = {
    "an agent's empty messages": ("bob", "/v1/traces", PROTOBUF, b"\n\0" * 300_000),
    "empty messages": ("rita", "/v1/traces", PROTOBUF, b"\n\0" * 1_100_000),
    "tags that are longer than need be": ("bob", "/v1/traces", PROTOBUF, b"\x8a\0\0" * 300_000),
    "groups": ("bob", "/v1/traces", PROTOBUF, b"\x0b\x0c" + b"\n\0" * 300_000),
    "empty values": ("bob", "/v1/traces", PROTOBUF, b"\n\x06\n\x04\n\x02\x12\0" * 100_000),
    "an agent's empty objects": (
        *("bob", "/v1/traces", JSON),
        make_list(SPANS[0], 300_000, SPANS[1]),
    ),
    "empty objects": ("rita", "/v1/traces", JSON, make_list(SPANS[0], 1_100_000, SPANS[1])),
    "an agent's long export": ("bob", "/v1/traces", JSON, b" " * 2_000_001 + b"{}"),
    "tools": ("bob", "/mcp", JSON, make_list(b'{"params":[', 650_000, b"]}")),
    "empty results": ("rita", "/api/v1/runs", JSON, make_list(b'{"run":[', 2_100_000, b"]}")),
    "a formula": ("nobody", "/api/v1/formula/check", JSON, make_list(b"[", 250_000, b"]")),
    "a challenge": ("alice", "/api/v1/challenges", JSON, make_list(b"[", 250_000, b"]")),
    "line ends": ("rita", "/api/v1/challenges/sums/reports", NDJSON, b"\n" * 300_000),
    "lines of traces": ("rita", "/api/v1/traces", NDJSON, b"\n" * 300_000),
    "reports": (
        *("rita", "/api/v1/challenges/sums/reports", NDJSON),
        make_list(b'{"agent":"bob","metrics":{"a":[', 2_100_000, b"]}}", b"0"),
    ),
}


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS)
def test_many_values_are_refused(server: Server, bomb: tuple[str, str, str, bytes]) -> None:
    answered = send(server, *bomb)
    assert answered.status_code == 413, answered.text
    assert b"more than " in answered.content or b"larger than " in answered.content


def test_what_is_as_large_as_it_may_be_is_read(server: Server) -> None:
    fine = b"\n\0" * 199_000
    assert send(server, "bob", "/v1/traces", PROTOBUF, fine).status_code == 200
    texts = make_list(SPANS[0], 10, SPANS[1], b'{"resource":{"x":"%s"}}' % (b'[{,\\"' * 40_000))
    assert send(server, "rita", "/v1/traces", JSON, texts).status_code == 200


def test_an_answer_is_read_within_the_bound_of_its_attempt(server: Server) -> None:
    path = enter(server)
    bound = 3 * (1_000 + 100_000) + 16 * 2**20 * 5 // 4
    answered = send(server, "bob", path, JSON, b" " * bound + b'{"answer":1}')
    assert answered.status_code == 413, answered.text
    assert f"larger than {bound:,} bytes" in answered.text
    many = send(server, "bob", path, JSON, make_list(b'{"answer":[', 650_000, b"]}"))
    assert many.status_code == 413, many.text
    answered = server.ask("bob", "POST", path, json={"answer": {"sum": 42}})
    assert answered.json()["attempt"]["state"] == "scored", answered.text


def test_a_form_has_few_fields(server: Server) -> None:
    kind = "application/x-www-form-urlencoded"
    answered = send(server, "nobody", "/sign-in", kind, b"a&" * 1_000, Origin="http://tally.test")
    assert answered.status_code == 422
    assert "more than 200 fields" in answered.text


def test_one_owner_cannot_use_up_the_memory_of_all(server: Server) -> None:
    large = b'{"answer":"%s"}' % (b"x" * 1_000_000)
    memory = server.service.memory
    memory.hold("default bob", 499_500_000)
    try:
        refused = send(server, "bob", enter(server), JSON, large)
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        tools = send(server, "bob", "/mcp", JSON, large, Accept=JSON)
        assert (tools.status_code, tools.headers["retry-after"]) == (503, "1")
        others = send(server, "rita", "/api/v1/runs", JSON, large)
        assert others.status_code == 422, others.text
    finally:
        memory.release("default bob", 499_500_000)
    assert not memory._held, "what a request held is given back"


def test_every_body_fits_into_what_one_owner_has() -> None:
    for name, values in VALUES.items():
        MemoryBudget().hold("bob", 2 * BODIES[name] + 150 * values)
    with pytest.raises(Busy):
        MemoryBudget().hold("bob", 500_000_001)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/formula/check", {"formula": "a + 1"}),
        ("/formula/explain", {"formula": "a + 1", "values": {"a": 1}}),
        ("/challenges/sums/what-if", {"formula": "1"}),
        ("/tracks/leaderboard", {"challenges": ["sums"]}),
    ],
)
def test_an_answer_that_changed_nothing_is_not_kept(server: Server, path: str, body: Any) -> None:
    key = {"Idempotency-Key": "fill the disk"}
    for _ in range(2):
        answered = server.v1("ada", "POST", path, json=body, headers=key)
        assert answered.status_code != 409, answered.text
        assert "idempotency-replayed" not in answered.headers
    with server.service.app.store._database.read() as connection:
        kept = connection.exec_driver_sql("SELECT count(*) FROM idempotent_answers").scalar_one()
    assert kept == 0


@pytest.mark.parametrize("name", ["Content-Type", "Content-Encoding", "Content-Length"])
def test_a_header_of_the_body_is_sent_once(server: Server, name: str) -> None:
    """What bounds a body would read the last one, and what decodes it the first."""
    twice = [("Content-Type", JSON), (name, "text/plain"), (name, "7")]
    headers = [*twice, ("Authorization", f"Bearer {server.keys['rita']}")]
    answered = server.client.post("/api/v1/runs", content=b"{}", headers=headers)
    assert answered.status_code == 400
    assert answered.json()["detail"] == f"the header {name.lower()} is sent twice; send it once"


def test_strangers_together_have_a_part_of_the_budget() -> None:
    budget = MemoryBudget(1000)
    for number in range(2):
        budget.hold(f"address 10.0.0.{number}", 125)
    with pytest.raises(Busy):
        budget.hold("address 10.0.0.9", 1)
    budget.hold("default rita", 500)
    budget.release("address 10.0.0.0", 125)
    budget.hold("address 10.0.0.9", 100)


def test_a_report_has_a_size(server: Server) -> None:
    many = {f"m{number}": 1 for number in range(20_000)}
    body = {"agent": "bob", "metrics": many}
    answered = server.v1("rita", "POST", "/challenges/sums/reports", json=body)
    assert answered.status_code == 413
    assert "larger than 100,000 bytes" in answered.json()["detail"]
