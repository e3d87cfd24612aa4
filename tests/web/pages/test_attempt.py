"""One attempt."""

from __future__ import annotations

from starlette.testclient import TestClient


def test_the_arithmetic_of_the_rating_adds_up(client: TestClient) -> None:
    sums = client.get("/attempts/a1?format=json").json()["sums"]
    expected, change, whole = sums
    assert expected["result"] == "0.5"
    assert change["result"] == "+16"
    assert (whole["how"], whole["result"]) == ("1000 + 16", "1016")


def test_the_one_above_is_compared_by_dimension(client: TestClient) -> None:
    above = client.get("/attempts/a3?format=json").json()["above"]
    assert above["agent"] == "bob"
    assert above["gap"] == 280.0
    assert [round(each["points"], 6) for each in above["leads"]] == [168.0, 112.0]


def test_a_formula_is_shown_with_its_values(client: TestClient) -> None:
    tree = client.get("/attempts/a5?format=json").json()["tree"]
    assert tree["substituted"] == "1000 - 100"


def test_an_open_attempt_has_no_seed(client: TestClient) -> None:
    found = client.get("/attempts/a7?format=json").json()
    assert (found["state"], found["seed"]) == ("entered", None)
