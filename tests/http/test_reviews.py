"""People's own scores over the API."""

from __future__ import annotations

from typing import Any

from tests.http.conftest import Server


def give(server: Server, who: str, **fields: Any) -> Any:
    return server.v1(who, "POST", "/scores", json={"run": "latest", "case": "a", **fields})


def test_a_score_is_given_changed_and_withdrawn_by_its_author(shared: Server) -> None:
    given = give(shared, "rita", name="tone", value=0.25, comment="curt")
    assert given.status_code == 201, given.text
    score = given.json()["score"]
    assert (score["author"], score["value"], score["case"]) == ("rita", 0.25, "a")
    again = give(shared, "rita", name="tone", value=0.5)
    assert (again.status_code, again.json()["score"]["id"]) == (200, score["id"])
    path = f"/scores/{score['id']}"
    for method, body in (("PATCH", {"json": {"value": 1}}), ("DELETE", {})):
        refused = shared.v1("alice", method, path, **body)
        assert (refused.status_code, refused.json()["code"]) == (403, "not_allowed")
    changed = shared.v1("rita", "PATCH", path, json={"label": "kind"}).json()["score"]
    assert (changed["name"], changed["value"], changed["label"]) == ("tone", None, "kind")
    assert shared.v1("rita", "DELETE", path).status_code == 200
    assert shared.v1("rita", "DELETE", path).status_code == 404
    assert shared.v1("victor", "GET", "/scores?name=tone").json()["items"] == []


def test_scores_are_listed_in_pages_to_the_team_alone(shared: Server) -> None:
    for who in ("ada", "alice", "rita"):
        assert give(shared, who, name="length", label="right").status_code == 201
    page = shared.v1("victor", "GET", "/scores?name=length&limit=2").json()
    rest = shared.v1("victor", "GET", f"/scores?name=length&limit=2&cursor={page['next']}").json()
    assert [each["author"] for each in page["items"] + rest["items"]] == [
        "rita",
        "alice",
        "operator",
    ]
    assert rest["next"] is None
    assert shared.v1("otto", "GET", "/scores").json()["items"] == []
    assert give(shared, "otto", value=1).status_code == 404


def test_trying_changes_nothing(shared: Server) -> None:
    tried = shared.v1(
        "rita",
        "POST",
        "/scores?validate_only=true",
        json={"run": "latest", "case": "a", "name": "tried", "value": 1},
    )
    assert tried.status_code == 200
    assert shared.v1("rita", "GET", "/scores?name=tried").json()["items"] == []


def test_a_review_is_in_the_queue_and_beside_the_result_of_its_case(shared: Server) -> None:
    assert give(shared, "rita", label="pass").is_success
    mine = shared.v1("rita", "GET", "/scores/queue?show=mine").json()
    assert [(each["case"], each["mine"]) for each in mine["items"]] == [("a", "pass")]
    assert mine["counts"]["mine"] == 1
    assert shared.v1("alice", "GET", "/scores/queue").json()["counts"]["mine"] == 0
    case = shared.v1("victor", "GET", "/scores/case?run=latest&case=a").json()["case"]
    assert (case["people"]["rita"], case["result"]["case"]) == ("pass", "a")
    assert "rita" in {each["author"] for each in case["reviews"]}
    assert shared.v1("victor", "GET", "/scores/case?run=latest&case=none").status_code == 404
