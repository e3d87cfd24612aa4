"""Comparing runs."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient


def test_the_heading_is_the_answer(client: TestClient) -> None:
    same = client.get("/compare?run=rnone&run=rnone&format=json")
    assert same.status_code == 422  # the same run twice is one
    found = client.get("/compare?run=rnone&run=rntwo&format=json").json()
    assert "60.00" in found["title"] or "lower" in found["title"] or "worse" in found["title"]


def test_page_and_verdict_agree(client: TestClient) -> None:
    found = client.get("/compare?run=rnone&run=rntwo&format=json").json()
    assert ("is worse" in found["title"]) is (found["verdict"]["outcome"] == "worse")


def test_flipped_cases_show_their_words(client: TestClient) -> None:
    page = client.get("/compare?run=rnone&run=rntwo&case=case-0").text
    assert "<del>" in page
    assert "<ins>" in page


def test_prompts_and_models_are_a_matrix(client: TestClient) -> None:
    matrix = client.get("/compare?run=rnone&run=rntwo&format=json").json()["matrix"]
    assert matrix["prompts"] == ["short", "long"]
    assert sum(cell["best"] for row in matrix["cells"] for cell in row if cell) == 1


def test_several_runs_stand_against_the_first(client: TestClient) -> None:
    found = client.get("/compare?run=rnone&run=rntwo&run=rnprompt0&format=json").json()
    assert [line["letter"] for line in found["runs"]] == ["A", "B", "C"]
    assert found["title"] == "A scored highest of 3"


def test_what_was_run_otherwise_is_told_first(client: TestClient) -> None:
    told = client.get("/compare?run=rnone&run=rnprompt0&format=json").json()
    found = {each["title"]: each["values"] for each in told["differences"]}
    assert found["Model"] == ["sample-careful", "sample-hasty"]
    assert found["Prompt"] == ["", "short"]
    assert "Formula" not in found


def test_of_several_runs_every_case_that_flipped_stands_side_by_side(client: TestClient) -> None:
    address = "/compare?run=rnone&run=rntwo&run=rnprompt0"
    told = client.get(f"{address}&format=json").json()
    outcomes = {each["case"]: each["outcomes"] for each in told["flipped"]}
    assert outcomes["case-0"] == ["passed", "failed", "passed"]
    assert "case-1" not in outcomes
    assert [side["letter"] for side in told["sides"]] == ["A", "B", "C"]
    assert client.get(f"{address}&format=csv").text.startswith("case,A,B,C")


def test_runs_are_sent_by_mail_as_one_file(client: TestClient) -> None:
    for address in ("/runs/rntwo?format=html", "/compare?run=rnone&run=rntwo&format=html"):
        file = client.get(address)
        assert file.headers["content-disposition"].startswith('attachment; filename="desk')
        assert "<!doctype html>" in file.text[:200].lower()
        assert "/static/" not in file.text
        assert "May I send it back?" in file.text


def test_runs_that_are_too_large_say_what_to_type_instead(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tallymark.web.pages.compare.MOST_RESULTS", 1)
    answer = client.get("/compare?run=rnone&run=rntwo")
    assert answer.status_code == 422
    assert "<h1>Too large for a page</h1>" in answer.text
    assert "The run rnone has too many results to compare on a page." in answer.text
    assert "Compare them in a terminal: tally compare rnone rntwo." in answer.text
