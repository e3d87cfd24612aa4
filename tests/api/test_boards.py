"""Boards: a frozen one is frozen on every route, to everybody but organisers."""

from __future__ import annotations

from typing import Any

import pytest
from tests.api.conftest import Server, publish

COMPETE = ("nobody", "bob", "victor", "rita")


def report(server: Server, agent: str, rating: float) -> str:
    body = {"agent": agent, "metrics": {"succeeded": True, "rating": rating}}
    done = server.v1("rita", "POST", "/challenges/speed/reports", json=body)
    assert done.status_code == 201, done.text
    return str(done.json()["attempt"]["id"])


@pytest.fixture
def frozen(server: Server) -> Server:
    """A board that froze after two attempts."""
    publish(server, name="speed", scoring_formula="rating * 10", visibility="public")
    report(server, "bob", 5)
    report(server, "charlie", 6)
    body = {"frozen": True, "reason": "the final hour"}
    assert server.v1("alice", "PATCH", "/challenges/speed", json=body).status_code == 200
    return server


LATE = '"rating":77.7'
"""In whatever tells of the late attempt; a bare number might be part of a time."""


def look(server: Server, who: str) -> list[Any]:
    """All that somebody sees of it, but for the bare fact that others try."""
    what = ({"formula": "rating * 1000"}, {"formula": "rating", "around": "charlie"})
    paths = (
        "/challenges/speed/leaderboard",
        "/challenges/speed/leaderboard?around=bob",
        "/challenges/speed/attempts?state=scored",
        "/challenges/speed/attempts?state=scored&limit=1",
        "/agents/bob",
        "/agents/charlie",
        "/ratings",
        "/export/board?challenge=speed",
    )
    seen = [server.v1(who, "GET", path) for path in paths]
    seen += [server.v1(who, "POST", "/challenges/speed/what-if", json=each) for each in what]
    told = [(each.status_code, each.text) for each in seen if each.status_code == 200]
    return [(status, text.partition('"seq"')[0]) for status, text in told]


def test_nothing_of_a_frozen_board_moves(frozen: Server) -> None:
    before = {who: look(frozen, who) for who in (*COMPETE, "charlie")}
    late = report(frozen, "charlie", 77.7)
    report(frozen, "dora", 66.6)
    for who, seen in before.items():
        assert look(frozen, who) == seen, who
    for who in COMPETE:
        told = frozen.v1(who, "GET", f"/attempts/{late}")
        assert (told.json()["attempt"]["state"], told.json()["attempt"]["score"]) == (
            "submitted",
            None,
        )
        assert LATE not in frozen.v1(who, "GET", "/challenges/speed/attempts").text
        assert LATE not in frozen.v1(who, "GET", "/export/attempts?challenge=speed").text


def test_one_sees_ones_own_late_score_and_organisers_see_all(frozen: Server) -> None:
    late = report(frozen, "charlie", 70)
    assert frozen.v1("charlie", "GET", f"/attempts/{late}").json()["attempt"]["score"] == 700.0
    board = frozen.v1("alice", "GET", "/challenges/speed/leaderboard").json()
    assert (board["items"][0]["score"], board["frozen_at"]) == (700.0, None)
    assert frozen.v1("bob", "GET", "/challenges/speed/leaderboard").json()["frozen_at"]


def test_pages_of_scored_attempts_go_on_behind_what_is_hidden(frozen: Server) -> None:
    for rating in range(4):
        report(frozen, "charlie", rating)
    page = frozen.v1("bob", "GET", "/challenges/speed/attempts?state=scored&limit=1").json()
    assert [each["agent"] for each in page["items"]] == ["charlie"]
    rest = frozen.v1(
        "bob", "GET", f"/challenges/speed/attempts?state=scored&limit=5&cursor={page['next']}"
    ).json()
    assert ([each["agent"] for each in rest["items"]], rest["next"]) == (["bob"], None)


def test_a_board_is_read_in_pages_and_around_an_agent(server: Server) -> None:
    publish(server, name="speed", scoring_formula="rating")
    for n in range(9):
        report(server, f"agent-{n}", n)
    first = server.v1("bob", "GET", "/challenges/speed/leaderboard?limit=4").json()
    assert [each["rank"] for each in first["items"]] == [1, 2, 3, 4]
    assert set(first["items"][0]) >= {"rank", "agent", "score", "value", "attempt"}
    path = f"/challenges/speed/leaderboard?limit=9&cursor={first['next']}"
    last = server.v1("bob", "GET", path).json()
    assert [each["rank"] for each in last["items"]] == [5, 6, 7, 8, 9]
    assert last["next"] is None
    around = server.v1("bob", "GET", "/challenges/speed/leaderboard?around=agent-4").json()
    assert [each["agent"] for each in around["items"]] == [f"agent-{n}" for n in range(7, 0, -1)]


def test_what_is_private_is_in_no_rating_and_no_track_of_the_public(server: Server) -> None:
    publish(server, name="open", scoring_formula="rating", visibility="public")
    publish(server, name="hidden", scoring_formula="rating")
    for name, agent in (("open", "bob"), ("hidden", "charlie"), ("hidden", "bob")):
        body = {"agent": agent, "metrics": {"succeeded": True, "rating": 1}}
        server.v1("rita", "POST", f"/challenges/{name}/reports", json=body)
    track = {"name": "spring", "challenges": ["open", "hidden"]}
    assert server.v1("alice", "POST", "/tracks", json=track).status_code == 201
    told = server.v1("nobody", "GET", "/ratings").json()
    assert (list(told["challenges"]), list(told["agents"])) == (["open"], ["bob"])
    assert set(server.v1("bob", "GET", "/ratings").json()["challenges"]) == {"open", "hidden"}
    for path in ("/tracks/spring/leaderboard", "/tracks/sprin/leaderboard"):
        answered = server.v1("nobody", "GET", path)
        assert answered.status_code == 404
        assert "hidden" not in answered.text
        assert "'spring'?" not in answered.text
    assert server.v1("bob", "GET", "/tracks/spring/leaderboard").json()["agents"] == 2
