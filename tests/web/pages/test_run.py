"""One run."""

from __future__ import annotations

import re

from starlette.testclient import TestClient


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
