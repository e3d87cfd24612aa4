"""Boards: a frozen one is frozen on every route, to everybody but organisers."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from tests.challenges.versus.versus_contest import a_challenge
from tests.http.conftest import Server, publish

from tallymark.challenges.challenge_folder import pack
from tallymark.challenges.versus.pairings import Ruling
from tallymark.store import open_store

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
"""Text of the late attempt; a bare number might be part of a time."""


def look(server: Server, who: str) -> list[Any]:
    """Collect everything that a person sees of it, except that others compete."""
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
    told = server.v1("nobody", "GET", "/ratings").json()["items"]
    assert [each["agent"] for each in told] == ["bob"]
    found = server.v1("nobody", "GET", "/difficulties").json()["items"]
    assert [each["challenge"] for each in found] == ["open"]
    found = server.v1("bob", "GET", "/difficulties").json()["items"]
    assert {each["challenge"] for each in found} == {"open", "hidden"}
    for path in ("/tracks/spring/leaderboard", "/tracks/sprin/leaderboard"):
        answered = server.v1("nobody", "GET", path)
        assert answered.status_code == 404
        assert "hidden" not in answered.text
        assert "'spring'?" not in answered.text
    assert server.v1("bob", "GET", "/tracks/spring/leaderboard").json()["agents"] == 2
    server.v1("alice", "POST", "/tracks", json={"name": "plain", "challenges": ["open"]})
    assert list_track_names(server, "nobody") == ["plain"]
    assert list_track_names(server, "bob") == ["plain", "spring"]


def list_track_names(server: Server, who: str, query: str = "") -> list[str]:
    """Names of the tracks that a person may see."""
    return [each["name"] for each in server.v1(who, "GET", f"/tracks{query}").json()["items"]]


def test_tracks_are_listed_in_pages_and_removed_by_organisers(server: Server) -> None:
    publish(server, name="open", scoring_formula="rating")
    for name in ("b", "a", "c"):
        track = {"name": name, "title": name.upper(), "challenges": ["open"]}
        server.v1("alice", "POST", "/tracks", json=track)
    first = server.v1("bob", "GET", "/tracks?limit=2").json()
    assert [each["title"] for each in first["items"]] == ["A", "B"]
    assert list_track_names(server, "bob", f"?limit=2&cursor={first['next']}") == ["c"]
    assert server.v1("bob", "DELETE", "/tracks/b").status_code == 403
    assert server.v1("alice", "DELETE", "/tracks/b").json()["track"]["name"] == "b"
    assert list_track_names(server, "bob") == ["a", "c"]
    assert server.v1("alice", "DELETE", "/tracks/b").status_code == 404


def test_a_track_has_a_name_that_an_address_can_have(server: Server) -> None:
    publish(server, name="open", scoring_formula="rating")
    for name in ("spring/2026", ".."):
        answered = server.v1(
            "alice", "POST", "/tracks", json={"name": name, "challenges": ["open"]}
        )
        assert answered.status_code == 422
        assert "no address can name" in answered.text


QUICK = ("", "?limit=2", "?around=bob")
SLOW = ("?limit=200&side=red", "?around=bob&limit=7")


def read(server: Server, query: str, etag: str | None = None) -> Any:
    headers = {} if etag is None else {"If-None-Match": etag}
    return server.v1("bob", "GET", f"/challenges/speed/leaderboard{query}", headers=headers)


@pytest.mark.parametrize("query", [*QUICK, *SLOW])
def test_what_another_process_wrote_is_in_the_next_answer(
    server: Server, tmp_path: Path, query: str
) -> None:
    publish(server, name="speed", scoring_formula="rating")
    for agent, rating in (("bob", 1), ("charlie", 2)):
        report(server, agent, rating)
    acts: Any
    with open_store(str(tmp_path / "tally.db")) as other:
        acts = (
            lambda: report(server, "bob", 3),
            lambda: other.disqualifications.disqualify("charlie", at=5.0, reason="a test"),
            lambda: other.agents.name_agent("bob", "Bob the Builder", at=6.0),
            lambda: other.challenges.freeze("speed", at=7.0, reason="a test"),
            lambda: other.challenges.unfreeze("speed", at=8.0, reason="a test"),
        )
        before = read(server, query)
        for act in acts:
            assert read(server, query, before.headers["etag"]).status_code == 304
            act()
            after = read(server, query, before.headers["etag"])
            assert (after.status_code, after.text != before.text) == (200, True)
            before = after
    assert [each["agent"] for each in before.json()["items"]] == ["bob"]
    assert before.json()["names"] == {"bob": "Bob the Builder"}


def test_a_quick_form_is_answered_as_any_other(server: Server) -> None:
    publish(server, name="speed", scoring_formula="rating")
    for n in range(9):
        report(server, f"agent-{n}", n)
    for quick, same in (("?around=agent-4", "&limit=100"), ("?limit=5", "&cursor=WzBd")):
        assert read(server, quick).json() == read(server, quick + same).json()
    assert read(server, "?around=nobody").json()["items"] == []
    assert server.v1("bob", "GET", "/challenges/spee/leaderboard?around=bob").status_code == 404


def test_a_board_of_red_against_blue_tells_what_was_played(server: Server, tmp_path: Path) -> None:
    store = server.service.app.store
    (tmp_path / "guard").mkdir()
    (tmp_path / "guard" / "judge.py").write_text("")
    store.challenges.publish(a_challenge(), pack(tmp_path / "guard"), at=1.0)
    path = "/challenges/guard/leaderboard"
    before = server.v1("bob", "GET", path)
    known = {"If-None-Match": before.headers["etag"]}
    assert server.v1("bob", "GET", path, headers=known).status_code == 304
    for player, side in (("alice", "blue"), ("charlie", "red")):
        store.versus.submit("guard", player, side, "text", at=5.0)  # type: ignore[arg-type]
    rulings = [(each, Ruling(breached=True)) for each in store.versus.verdicts("guard")]
    store.versus.rule(rulings, judge="judge", at=6.0)
    after = server.v1("bob", "GET", path, headers=known)
    assert (after.status_code, after.text != before.text) == (200, True)
    frozen = {"frozen": True, "reason": "the last hour"}
    assert server.v1("alice", "PATCH", "/challenges/guard", json=frozen).status_code == 200
    known = {"If-None-Match": server.v1("bob", "GET", path).headers["etag"]}
    store.versus.submit("guard", "dave", "red", "text", at=time.time() + 5)
    assert server.v1("bob", "GET", path, headers=known).status_code == 304
