"""Reports, singly and in bulk: an answer per line and in order, all or none where asked."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.http.conftest import Server, publish

from tallymark.errors import WorkFailed
from tallymark.service.competition import Competition

NDJSON = {"Content-Type": "application/x-ndjson"}
SPEED = "/challenges/speed/reports"


@pytest.fixture
def speed(server: Server) -> Server:
    publish(server, name="speed", scoring_formula="rating * 10")
    return server


def line(agent: str = "bob", rating: Any = 1, **more: Any) -> bytes:
    metrics = {"succeeded": True, "rating": rating}
    return json.dumps({"agent": agent, "metrics": metrics, **more}).encode()


def bulk(server: Server, body: bytes, query: str = "", **headers: str) -> Any:
    return server.v1("rita", "POST", f"{SPEED}{query}", content=body, headers={**NDJSON, **headers})


def read(answered: Any) -> list[Any]:
    found = answered.json()["items"]
    assert isinstance(found, list)
    return found


def count(server: Server) -> int:
    return len(server.v1("ada", "GET", "/challenges/speed/attempts?limit=1000").json()["items"])


def test_each_line_is_answered_in_order(speed: Server) -> None:
    body = b"\n".join([line(rating=n) for n in range(600)])
    told = read(bulk(speed, body))
    assert [each["line"] for each in told] == list(range(1, 601))
    assert [each["score"] for each in told] == [n * 10 for n in range(600)]
    assert {each["status"] for each in told} == {201}


def test_a_bad_line_is_refused_alone(speed: Server) -> None:
    bad = [b"{", b"[]", line("B O B"), line(rating="x"), b'{"agent": "bob"}', b"\xff", line(x=1)]
    body = b"\n".join([line(), *bad, line(rating=2)])
    told = read(bulk(speed, body))
    assert [each["status"] for each in told] == [201, *[422] * len(bad), 201]
    assert all(each["problem"]["errors"] for each in told[1:-1])
    assert count(speed) == 2


@pytest.mark.parametrize("query", ["", "?validate_only=true", "?atomic=true"])
def test_lines_are_counted_as_in_the_file_and_empty_ones_answer_nothing(
    speed: Server, query: str
) -> None:
    body = b"\r\n" + line() + b"\r\n\n   \n" + line(rating=2) + b"\r\n\r\n"
    assert [each["line"] for each in read(bulk(speed, body, query))] == [2, 5]
    assert read(bulk(speed, b"", query)) == read(bulk(speed, b"\n\n", query)) == []


def test_all_or_none_names_the_line_of_the_file_that_is_refused(speed: Server) -> None:
    told = read(bulk(speed, b"\n" + line() + b"\n\n" + line("B O B"), "?atomic=true"))
    assert [each["line"] for each in told] == [2, 4]
    assert "as line 4 is refused" in told[0]["problem"]["detail"]


@pytest.mark.parametrize("name", ["tokens_total", "elapsed_ms", "created_at", "cost", "calls"])
def test_what_used_less_than_nothing_is_refused_and_not_stored(speed: Server, name: str) -> None:
    body = {"agent": "bob", "metrics": {"succeeded": True, "rating": 8, name: -1}}
    for query in ("", "?validate_only=true"):
        told = speed.v1("rita", "POST", f"{SPEED}{query}", json=body)
        assert told.status_code == 422
        assert told.json()["errors"][0]["field"] == f"metrics.{name}"
        lines = read(bulk(speed, json.dumps(body).encode(), query))
        assert [each["status"] for each in lines] == [422]
    assert count(speed) == 0


def test_all_or_none(speed: Server) -> None:
    wrong = bulk(speed, b"\n".join([line(), line(rating="x"), line()]), "?atomic=true")
    assert wrong.status_code == 422
    assert count(speed) == 0
    assert [(each["line"], each["status"]) for each in read(wrong)] == [
        (1, 409),
        (2, 422),
        (3, 409),
    ]
    unknown = bulk(speed, b"\n".join([line(), line("B B")]), "?atomic=true")
    assert [each["status"] for each in read(unknown)] == [409, 422]
    assert unknown.status_code == 422
    assert count(speed) == 0
    right = bulk(speed, b"\n".join([line(), line()]), "?atomic=true")
    assert (right.status_code, count(speed)) == (200, 2)


def test_the_same_bulk_under_a_key_is_done_once(speed: Server) -> None:
    body = b"\n".join(line(rating=n) for n in range(5))
    first = read(bulk(speed, body, **{"Idempotency-Key": "k"}))
    again = read(bulk(speed, body + b"\n" + line(rating=9), **{"Idempotency-Key": "k"}))
    assert [each["attempt"] for each in again[:5]] == [each["attempt"] for each in first]
    assert count(speed) == 6
    other = read(bulk(speed, line(rating=77), **{"Idempotency-Key": "k"}))
    assert [each["status"] for each in other] == [409]


def test_keys_of_lines_are_their_own(speed: Server) -> None:
    body = b"\n".join([line(key="a"), line(key="b"), line(key="a")])
    told = read(bulk(speed, body))
    assert told[0]["attempt"] == told[2]["attempt"] != told[1]["attempt"]


def test_validated_lines_are_not_kept(speed: Server) -> None:
    told = read(bulk(speed, line() + b"\n" + line(rating="x"), "?validate_only=true"))
    assert [each["status"] for each in told] == [200, 422]
    assert count(speed) == 0


def test_more_lines_than_are_taken_are_refused_at_once(speed: Server) -> None:
    answered = bulk(speed, b"1\n" * 100_001)
    assert (answered.status_code, answered.json()["code"]) == (413, "too_large")
    answered = bulk(speed, b"1\n" * 5_001, "?atomic=true")
    assert answered.status_code == 413


def test_a_challenge_that_is_not_there_is_said_before_the_first_line(speed: Server) -> None:
    answered = speed.v1(
        "rita", "POST", "/challenges/nowhere/reports", content=line(), headers=NDJSON
    )
    assert answered.status_code == 404


def test_reports_are_scored_by_plugins(server: Server) -> None:
    publish(
        server,
        name="weighted",
        scoring_strategy="custom",
        scoring_plugin_id="builtin.weighted_scorer",
        scoring_config={"success_bonus": 100, "rating_weight": 10},
    )
    body = b"\n".join([line(rating=n) for n in (1, 2)])
    answered = server.v1(
        "rita", "POST", "/challenges/weighted/reports", content=body, headers=NDJSON
    )
    assert [each["status"] for each in read(answered)] == [201, 201]
    one = server.v1("rita", "POST", "/challenges/weighted/reports", json=json.loads(line()))
    assert one.status_code == 201, one.text
    assert one.json()["score"] == read(answered)[0]["score"]


@pytest.mark.parametrize(
    ("metrics", "field", "message"),
    [
        ({"rating": "8"}, "metrics.rating", "expected `float | null`, got `str`"),
        ({"lines": "8"}, "metrics.lines", "expected `int | float | null`, got `str`"),
        ({"succeeded": 3}, "metrics.succeeded", "expected `bool`, got `int`"),
        ([], "metrics", "expected object, got array"),
    ],
)
def test_one_bad_body_is_told_by_its_field(
    speed: Server, metrics: Any, field: str, message: str
) -> None:
    told = speed.v1("rita", "POST", SPEED, json={"agent": "bob", "metrics": metrics}).json()
    assert (told["errors"][0]["field"], told["errors"][0]["message"]) == (field, message)


def test_that_an_attempt_did_not_succeed_is_told(speed: Server) -> None:
    body = {"agent": "bob", "metrics": {"succeeded": False, "rating": 4}}
    attempt = speed.v1("rita", "POST", SPEED, json=body).json()["attempt"]["id"]
    bare = {"agent": "bob", "metrics": {"succeeded": False}}
    speed.v1("rita", "POST", SPEED, json=bare)
    told = speed.v1("ada", "GET", "/challenges/speed/attempts").json()["items"]
    assert [each["metrics"]["succeeded"] for each in told] == [False, False]
    assert speed.v1("ada", "GET", f"/attempts/{attempt}").json()["attempt"]["metrics"] == {
        "succeeded": False,
        "rating": 4.0,
        "created_at": told[1]["metrics"]["created_at"],
    }
    sent = speed.v1("ada", "GET", f"/attempts/{attempt}/submission").json()
    assert sent["submission"]["reported"]["succeeded"] is False


def test_a_line_that_cannot_be_stored_does_not_say_where_the_database_is(
    speed: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = speed.service.app.database

    async def fail(_: Any, prepared: Any) -> Any:
        return [WorkFailed(f"the disk of {where} is full")] * len(prepared)

    monkeypatch.setattr(Competition, "areport_many", fail)
    told = bulk(speed, line())
    assert where not in told.text
    assert "the disk of the database is full" in told.text
    hidden = speed.service.hide_database(f"there is no {where}.key beside {where}")
    assert hidden == "there is no key file beside the database"
