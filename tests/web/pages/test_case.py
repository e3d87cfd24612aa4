"""One case."""

from __future__ import annotations

from starlette.testclient import TestClient


def test_failing_cost_what_passing_would_have_given(client: TestClient) -> None:
    losses = client.get("/runs/rntwo/cases/case-0?format=json").json()["losses"]
    found = {each["what"]: each["points"] for each in losses}
    assert abs(found["Failing"] + 20.0) < 1e-9  # one of four cases, at 0.8 a point
    assert abs(found["Cost"] + 0.1) < 1e-9


def test_cases_lead_to_their_neighbours(client: TestClient) -> None:
    case = client.get("/runs/rntwo/cases/case-1?format=json").json()
    assert (case["before"], case["after"]) == (["case-0", 0], ["case-2", 0])


def test_of_many_spans_the_page_holds_the_first(client: TestClient) -> None:
    page = client.get("/runs/rntwo/cases/case-0").text
    assert page.count("<rect") < 150
    assert "300 spans" in page
    spans = client.get("/runs/rntwo/cases/case-0?format=json").json()["spans"]
    assert len(spans) == 300
