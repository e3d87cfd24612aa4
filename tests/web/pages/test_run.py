"""One run."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path

from starlette.testclient import TestClient
from tests.web.conftest import browse, open_app, squeeze
from tests.web.page_samples import a_result, fill_runs

from tallymark.runs.record import RunRecord


def test_what_failed_stands_first(client: TestClient) -> None:
    cases = client.get("/runs/rntwo?format=json").json()["cases"]
    assert [each["status"] for each in cases] == ["failed", "failed", "passed", "passed"]


def test_pages_of_cases_have_every_case_once(client: TestClient) -> None:
    found = []
    for offset in range(4):
        page = client.get(f"/runs/rntwo?format=json&limit=1&offset={offset}").json()
        found += [each["case"] for each in page["cases"]]
    assert sorted(found) == sorted(set(found)) == ["case-0", "case-1", "case-2", "last"]


def test_the_points_that_were_lost_add_up(client: TestClient) -> None:
    tree = client.get("/runs/rntwo?format=json").json()["tree"]
    terms = [each for each in tree["parts"] if each["depth"] == 1]
    assert tree["best"] == 100
    assert abs(sum(each["points"] for each in terms) - tree["value"]) < 1e-9
    assert abs(sum(each["lost"] for each in terms) - (tree["best"] - tree["value"])) < 1e-9


def test_a_search_finds_answers(client: TestClient) -> None:
    page = client.get("/runs/rntwo?q=not+after&format=json").json()
    assert {each["case"] for each in page["cases"]} == {"case-0", "case-2"}


def test_the_change_since_the_run_before_leads_to_a_comparison(client: TestClient) -> None:
    page = client.get("/runs/rntwo").text
    assert re.search(r"lower than the run before", page)
    assert "/compare?run=rnone&amp;run=rntwo" in page


def test_numbers_say_where_they_come_from(client: TestClient) -> None:
    told = client.get("/runs/rntwo?format=json").json()
    assert "case-1 - total_cost * 100 with the numbers of 4 results" in told["origins"]["score"]
    assert "Judges cost $0.0008" in told["origins"]["cost"]
    assert told["meanings"]["p95_latency"] == "95 % of the results took no longer"
    assert told["meanings"]["case-1"] == "the share of this case's results that passed"
    assert told["meanings"]["case-1_cost"] == "the mean cost of the case case-1"
    assert told["meanings"]["tone"].startswith("the mean of this scorer")


def test_a_run_that_goes_on_is_told_part_by_part(tmp_path: Path) -> None:
    with closing(open_app(tmp_path / "tally.db", fill_runs)) as app:
        app.store.create_run(RunRecord(id="rlive", suite="s", model="m", status="running", total=3))
        app.store.add_results("rlive", [a_result(0, passed=True)])
        client = browse(app)
        page = client.get("/runs/rlive").text
        assert 'data-events="/api/v1/runs/rlive/events"' in page
        assert "1 of 3 results so far" in squeeze(page)
        app.store.add_results("rlive", [a_result(1, passed=False)])
        live = client.get("/runs/rlive?part=live").text
        assert "2 of 3 results so far" in squeeze(live)
        assert "<html" not in live
        assert "$0.002" in live  # cost so far
        assert "case-1" in client.get("/runs/rlive?part=cases").text
        app.store.update_run("rlive", status="completed", passed=1, failed=1, finished_at=9.0)
        whole = client.get("/runs/rlive?part=whole").text
        assert "data-events" not in whole
        assert "so far" not in whole
