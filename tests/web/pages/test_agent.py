"""One agent."""

from __future__ import annotations

from starlette.testclient import TestClient


def test_a_profile_has_both_ratings_and_how_they_grew(client: TestClient) -> None:
    found = client.get("/agents/alice?format=json").json()
    assert found["elo_path"][0] == 1000
    assert found["elo_path"][-1] == found["rating"]["elo"]
    assert [each["match"] for each in found["fit_path"]] == [1, 2]
    assert abs(found["fit_path"][-1]["value"] - found["rating"]["strength"]) < 1e-6


def test_results_are_by_place(client: TestClient) -> None:
    results = client.get("/agents/alice?format=json").json()["results"]
    assert [(each["name"], each["place"]) for each in results] == [("frugal", 1), ("maze", 1)]


def test_head_to_head_counts_shared_challenges(client: TestClient) -> None:
    rivals = client.get("/agents/alice?format=json").json()["rivals"]
    assert {each["agent"]: each["better"] for each in rivals}["charlie"] == 1
