"""Comparing runs."""

from __future__ import annotations

from starlette.testclient import TestClient


def test_the_heading_is_the_answer(client: TestClient) -> None:
    same = client.get("/compare?run=rnone&run=rnone&format=json")
    assert same.status_code == 422  # the same run twice is one
    found = client.get("/compare?run=rnone&run=rntwo&format=json").json()
    assert "60.00" in found["title"] or "lower" in found["title"] or "worse" in found["title"]


def test_page_and_verdict_agree(client: TestClient) -> None:
    found = client.get("/compare?run=rnone&run=rntwo&format=json").json()
    assert ("is worse" in found["title"]) is found["verdict"]["regression"]


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
