"""Production traces by the API: lists with cursors and fields, sums, comparisons, own scores."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from tests.http.conftest import Server, run_server
from tests.traces.otlp_samples import START, as_protobuf, model_call, span

from tallymark.suites.suite_file import load_suite


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Six traces of two versions, in three sessions."""
    with run_server(str(tmp_path_factory.mktemp("traces") / "tally.db"), workers=1) as server:
        for number in range(1, 7):
            start = START + number
            body = as_protobuf(
                span(number, start=start, session__id=f"s{number % 3}", seconds=float(number)),
                model_call(trace=number, start=start),
                service__version=f"1.{number % 2}",
            )
            kind = {"Content-Type": "application/x-protobuf"}
            answered = server.ask("rita", "POST", "/v1/traces", content=body, headers=kind)
            assert answered.status_code == 200
            given = {"name": "polite", "value": number / 10}
            path = f"/traces/{number:032x}/scores"
            assert server.v1("alice", "POST", path, json=given).status_code == 201
        yield server


def test_a_list_goes_on_where_the_page_before_ended(full: Server) -> None:
    found: list[dict[str, Any]] = []
    cursor: str | None = ""
    while cursor is not None:
        page = full.v1("victor", "GET", f"/traces?limit=4&fields=id,scores{cursor}").json()
        found += page["items"]
        cursor = page["next"] and f"&cursor={page['next']}"
    assert [int(each["id"], 16) for each in found] == [6, 5, 4, 3, 2, 1]
    assert set(found[0]) == {"id", "scores"}
    (score,) = found[0]["scores"]
    assert (score["name"], score["value"], score["author"]) == ("polite", 0.6, "alice")


def test_a_wrong_filter_says_where(full: Server) -> None:
    answered = full.v1("victor", "GET", "/traces?filter=status:ok modle:x")
    assert answered.status_code == 422
    (error,) = answered.json()["errors"]
    assert (error["column"], error["hint"]) == (11, "did you mean 'model'?")


def test_sums_and_the_two_versions_side_by_side(full: Server) -> None:
    told = full.v1("victor", "GET", "/traces/sums?by=version&measure=people.polite").json()
    assert {each["group"]: each["mean"] for each in told["items"]} == pytest.approx(
        {"1.0": 0.4, "1.1": 0.3}
    )
    assert told["whole"]["traces"] == 6
    steps = full.v1("victor", "GET", "/traces/sums?every=3&measure=duration").json()["items"]
    assert sum(each["traces"] for each in steps) == 6
    told = full.v1("victor", "GET", "/traces/sums?every=auto").json()
    assert (told["step"], sum(each["traces"] for each in told["items"])) == (3600.0, 6)
    query = "first=version:1.0&second=version:1.1&measure=people.polite"
    compared = full.v1("victor", "GET", f"/traces/compare?{query}").json()["comparison"]
    assert compared["difference"] == pytest.approx(-0.1)
    assert compared["low"] < 0 < compared["high"]
    assert compared["verdict"] == "no difference can be shown"


def test_a_session_as_a_whole_and_the_worst(full: Server) -> None:
    session = full.v1("victor", "GET", "/traces/sessions/s1").json()["session"]
    assert [int(each["id"], 16) for each in session["traces"]] == [1, 4]
    assert session["sums"]["traces"] == session["scores"]["people.polite"]["measured"] == 2
    worst = full.v1("victor", "GET", "/traces/worst?score=people.polite&limit=2").json()["items"]
    assert [each["value"] for each in worst] == [0.1, 0.2]
    assert full.v1("victor", "GET", "/traces/sessions/none").status_code == 404


def test_traces_become_a_suite_that_is_valid(full: Server, tmp_path: Path) -> None:
    given = {"name": "right", "value": 0, "expected": "It is 13 degrees."}
    path = f"/traces/{3:032x}/scores"
    assert full.v1("alice", "POST", path, json=given).status_code == 201
    asked = {"traces": [f"{3:032x}", f"{4:032x}"], "name": "warm"}
    made = full.v1("victor", "POST", "/traces/suite", json=asked).json()
    assert made["cases"] == 1  # both ask the same
    assert made["left_out"] == [{"trace": f"{4:032x}", "reason": f"it asks the same as {3:032x}"}]
    (case,) = yaml.safe_load(made["suite"])["evals"]
    assert case["prompt"] == "How warm is it?"
    assert case["expected"]["output"] == "It is 13 degrees."
    (tmp_path / "suite.yaml").write_text(made["suite"])
    assert load_suite(tmp_path / "suite.yaml").evals


def test_a_removed_trace_is_gone(full: Server) -> None:
    body = as_protobuf(span(99))
    kind = {"Content-Type": "application/x-protobuf"}
    full.ask("rita", "POST", "/v1/traces", content=body, headers=kind)
    assert full.v1("alice", "DELETE", f"/traces/{99:032x}").status_code == 204
    assert full.v1("alice", "GET", f"/traces/{99:032x}").status_code == 404
