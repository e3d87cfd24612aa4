"""Every error is a problem document: broken JSON, numbers, texts, methods."""

from __future__ import annotations

from typing import Any

import pytest
from tests.http.conftest import Server

from tallymark.service.reports import MOST_BYTES

JSON = {"Content-Type": "application/json"}


def post(server: Server, path: str, body: bytes) -> Any:
    return server.v1("ada", "POST", path, content=body, headers=JSON)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"nonsense",
        b"[" * 200_000,
        b'{"a":' * 90_000,
        b'{"name": NaN}',
        b'{"name": Infinity}',
        b'{"name": "\\ud800"}',
        b'{"name": "\xff"}',
        b"\xff\xfe{\x00}\x00",
        b'{"name": "a"} {}',
    ],
    ids=range(11),
)
def test_what_is_not_json_is_400(body: bytes, shared: Server) -> None:
    for path in ("/challenges", "/keys", "/challenges/speed/reports", "/formula/check"):
        answered = post(shared, path, body)
        expected = (400, 422) if body[:1] in (b"[", b"", b"{") else (400,)
        if len(body) > MOST_BYTES and path.endswith("/reports"):
            expected = (413,)
        assert answered.status_code in expected, (path, answered.text)
        assert answered.headers["content-type"] == "application/problem+json"
        assert answered.json()["errors"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/challenges/speed/reports", b'{"agent":"bob","metrics":{"rating":1e400}}'),
        ("/challenges/speed/reports", b'{"agent":"bob","metrics":{"rating":%s}}' % (b"9" * 400)),
        ("/challenges/speed/reports", b'{"agent":"bo\\u0000b","metrics":{}}'),
        ("/challenges/speed/reports", b'{"agent":"bob","metrics":{},"key":"a\\u0000"}'),
        ("/challenges/speed/reports", b'{"agent":"bob","metrics":{},"key":""}'),
        ("/challenges", b'{"name":"a","scoring_formula":"rating","attempts":%d}' % 2**63),
        ("/keys", b'{"name":"a","owner":"a\\u0000"}'),
        ("/runs", b'{"run":{"suite":"s\\u0000","model":"m","results":[]}}'),
    ],
)
def test_numbers_and_texts_that_nothing_can_hold_are_refused(
    path: str, body: bytes, shared: Server
) -> None:
    answered = post(shared, path, body)
    assert answered.status_code in (400, 422), answered.text
    assert answered.json()["detail"]


@pytest.mark.parametrize(
    "path",
    [
        "/challenges/a%00b",
        "/runs/a%00b",
        "/attempts/a%00b",
        "/agents/a%00b",
        "/runs?suite=a%00b",
        "/runs?since=nan&min_score=inf",
        "/audit?actor=%00",
        "/runs/%ED%A0%80",
        "/challenges/speed/leaderboard?around=%00",
    ],
)
def test_odd_addresses_are_answered(path: str, shared: Server) -> None:
    assert shared.v1("ada", "GET", path).status_code in (200, 400, 404)


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("DELETE", "/challenges", "GET, HEAD, POST"),
        ("PUT", "/runs", "GET, HEAD, POST"),
        ("POST", "/challenges/speed/leaderboard", "GET, HEAD"),
        ("GET", "/vars/city", "DELETE, PUT"),
        ("GET", "/challenges/speed/reports", "POST"),
        ("PUT", "/traces/sums", "GET, HEAD"),
        ("PUT", "/traces/settings", "GET, HEAD, PATCH"),
    ],
)
def test_another_method_is_405_and_says_which_there_are(
    method: str, path: str, allowed: str, shared: Server
) -> None:
    answered = shared.v1("ada", method, path)
    assert (answered.status_code, answered.headers["allow"]) == (405, allowed)
    assert answered.json()["code"] == "method_not_allowed"


def test_what_is_nowhere_is_404_in_words(shared: Server) -> None:
    answered = shared.ask("ada", "GET", "/api/v1/nothing")
    assert (answered.status_code, answered.json()["code"]) == (404, "not_found")
    assert answered.headers["content-type"] == "application/problem+json"


def test_a_mistyped_field_is_told_with_the_right_one(shared: Server) -> None:
    told = shared.v1("ada", "POST", "/keys", json={"nam": "x"}).json()
    (problem,) = told["errors"]
    assert (problem["field"], problem["hint"]) == ("nam", "did you mean 'name'?")
