"""Exports stream, hold little, and start no formula in a spreadsheet."""

from __future__ import annotations

import csv
import io
import json
import tracemalloc
from typing import Any

from tests.http.conftest import Server, publish

from tallymark.http.streams import write_csv
from tallymark.service.exports import Exports


def test_every_kind_is_exported_as_lines_and_as_a_table(shared: Server) -> None:
    for kind, query in (
        ("runs", ""),
        ("cases", "&run=latest"),
        ("attempts", "&challenge=speed"),
        ("board", "&challenge=speed"),
        ("audit", ""),
    ):
        lines = shared.v1("ada", "GET", f"/export/{kind}?format=ndjson{query}")
        rows = [json.loads(each) for each in lines.text.splitlines()]
        table = shared.v1("ada", "GET", f"/export/{kind}?format=csv{query}")
        assert table.headers["content-type"] == "text/csv; charset=utf-8"
        read = list(csv.DictReader(io.StringIO(table.text)))
        assert len(rows) == len(read) > 0
        assert set(read[0]) >= set(rows[0])


def test_a_table_has_all_columns_whatever_the_first_attempt_came_to(server: Server) -> None:
    publish(server, name="speed", scoring_formula="rating")
    services = server.service.tenant("default")
    services.store.attempts.enter("speed", "bob", at=server.service.clock(), seed=1)
    body = {"agent": "charlie", "metrics": {"succeeded": True, "rating": 7}}
    assert server.v1("rita", "POST", "/challenges/speed/reports", json=body).status_code == 201
    table = server.v1("ada", "GET", "/export/attempts?format=csv&challenge=speed").text
    opened, scored = csv.DictReader(io.StringIO(table))
    assert (opened["state"], opened["result"], opened["score"]) == ("entered", "", "")
    assert (scored["result"], scored["score"]) == ("win", "7.0")


def test_what_is_missing_or_not_there_is_said_before_the_first_byte(shared: Server) -> None:
    for query, status in (
        ("cases", 400),
        ("attempts", 400),
        ("board?challenge=nowhere", 404),
        ("cases?run=nothing", 404),
        ("wishes", 400),
        ("runs?format=xml", 400),
    ):
        assert shared.v1("ada", "GET", f"/export/{query}").status_code == status, query
    assert shared.v1("victor", "GET", "/export/audit").status_code == 403
    assert shared.v1("bob", "GET", "/export/attempts?challenge=speed").status_code == 403


def test_traces_and_their_scores_are_exported(server: Server) -> None:
    lines = b"".join(b'{"trace_id": "t-%d", "output": "word"}\n' % n for n in range(3))
    kind = {"Content-Type": "application/x-ndjson"}
    assert server.v1("rita", "POST", "/traces", content=lines, headers=kind).status_code == 201
    body = {"name": "helpful", "value": 0.5}
    assert server.v1("rita", "POST", "/traces/t-1/scores", json=body).is_success

    def read(query: str) -> list[dict[str, Any]]:
        return list(map(json.loads, server.v1("ada", "GET", f"/export/{query}").text.splitlines()))

    assert {each["id"]: each["trace"]["trace_id"] for each in read("traces")} == {
        name: name for name in ("t-0", "t-1", "t-2")
    }
    assert [each["id"] for each in read("traces?filter=people.helpful<1")] == ["t-1"]
    assert [(each["trace_id"], each["value"]) for each in read("scores")] == [("t-1", 0.5)]
    refused = server.v1("ada", "GET", "/export/traces", params={"filter": "cost>"})
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_input")


def test_no_cell_is_a_formula(server: Server) -> None:
    run = {"suite": "=1+1", "model": "@sum(a1)", "results": [{"case": "-2+3", "status": "passed"}]}
    assert server.v1("rita", "POST", "/runs", json={"run": run}).status_code == 201
    for query in ("runs?format=csv", "cases?run=latest&format=csv"):
        for row in csv.reader(io.StringIO(server.v1("ada", "GET", f"/export/{query}").text)):
            assert not any(cell[:1] in ("=", "@", "+", "-", "\t", "\r") for cell in row), row


def test_what_a_kind_does_not_take_is_refused_before_anything_is_sent(server: Server) -> None:
    publish(server, name="speed", scoring_formula="rating")
    run = {"suite": "s", "model": "m", "results": [{"case": "a", "status": "passed"}]}
    assert server.v1("rita", "POST", "/runs", json={"run": run}).status_code == 201
    for query in (
        "cases?run=latest&challenge=speed",
        "attempts?challenge=speed&run=latest",
        "runs?challenge=speed",
        "traces?run=latest",
        "board?challenge=speed&filter=cost>1",
    ):
        refused = server.v1("ada", "GET", f"/export/{query}")
        assert refused.status_code == 422, query
        assert "does not take it" in refused.json()["detail"]


def test_many_rows_take_no_more_memory_than_few(server: Server) -> None:
    publish(server, name="speed", scoring_formula="rating")
    body = b"".join(
        b'{"agent": "agent-%d", "metrics": {"succeeded": true, "rating": %d}}\n' % (n % 50, n)
        for n in range(3200)
    )
    sent = server.v1(
        "rita",
        "POST",
        "/challenges/speed/reports",
        content=body,
        headers={"Content-Type": "application/x-ndjson"},
    )
    assert len(sent.json()["items"]) == 3200
    caller = server.service.accounts.authenticate(server.keys["alice"])
    exports = Exports(server.service.tenant("default"), caller)
    lines = write_csv(exports.rows("attempts", challenge="speed", live=True))
    peaks = []
    tracemalloc.start()
    for n, _ in enumerate(lines):
        if n in (1100, 3200):
            peaks.append(tracemalloc.get_traced_memory()[1])
    tracemalloc.stop()
    assert peaks[1] < peaks[0] * 1.5
