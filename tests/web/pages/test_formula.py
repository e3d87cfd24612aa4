"""The formula bench."""

from __future__ import annotations

from urllib.parse import quote

from starlette.testclient import TestClient
from tests.web.conftest import browse_as

from tallymark.service.app import App


def ask(client: TestClient, formula: str, **more: str) -> str:
    query = "&".join(f"{name}={value}" for name, value in more.items())
    return client.get(f"/formula?run=rntwo&formula={quote(formula)}&{query}").text


def test_a_mistake_is_shown_at_its_column(client: TestClient) -> None:
    page = ask(client, "total_cost + succes_pct")
    assert 'data-column="14"' in page
    assert "did you mean" in page


def test_a_part_is_the_result_alone(client: TestClient) -> None:
    part = ask(client, "success_pct", part="result")
    assert "<html" not in part
    assert "50.00" in part


def test_runs_are_ordered_by_the_formula(client: TestClient) -> None:
    address = f"/formula?run=rntwo&formula={quote('0 - success_pct')}&format=json"
    order = client.get(address).json()["order"]
    assert order[-1]["run"]["id"] == "rnone"
    assert order[-1]["was"] == 1


def test_an_endless_formula_is_refused(client: TestClient) -> None:
    assert "characters" in ask(client, "1+" * 3000 + "1")


def test_a_formula_is_tried_on_a_board(client: TestClient) -> None:
    told = client.get("/formula?challenge=frugal&formula=tokens_total&format=json").json()
    assert [each["agent"] for each in told["board"]["items"]] == ["bob", "alice"]
    assert [each["moved"] for each in told["board"]["items"]] == [1, -1]
    assert told["tree"]["value"] == 200  # of whoever would be first
    page = client.get("/formula?on=board:frugal&formula=tokens_total").text
    assert "2 of 2 would move" in page
    rows = client.get("/formula?challenge=frugal&formula=tokens_total&format=csv").text
    assert rows.startswith("rank,agent,score")


def test_a_wrong_formula_for_a_board_has_its_column(client: TestClient) -> None:
    told = client.get("/formula?challenge=maze&formula=total+%2B+succes&format=json").json()
    assert [each["column"] for each in told["mistakes"]] == [9]
    assert told["board"] is None


def test_a_stranger_tries_public_boards_alone(app: App) -> None:
    stranger = browse_as(app)
    assert stranger.get("/formula?challenge=maze&formula=-total").status_code == 200
    told = stranger.get("/formula?format=json").json()
    assert {each["name"] for each in told["challenges"]} == {"maze"}
    assert stranger.get("/formula?challenge=frugal&formula=1").status_code == 404
    assert stranger.get("/formula?run=rntwo").status_code == 401
