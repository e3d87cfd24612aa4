"""The formula bench."""

from __future__ import annotations

from urllib.parse import quote

from starlette.testclient import TestClient


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
