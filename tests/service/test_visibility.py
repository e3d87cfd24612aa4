"""Visibility of contests: names of actors, and private challenges."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.http.conftest import Server, publish, run_server
from tests.http.route_table import PACKED_CHALLENGE
from tests.service.account_samples import make_key

ORGANISER, REPORTER = "alice.secret@example.com", "bob.secret@example.com"


@pytest.fixture
def contest(tmp_path: Path) -> Iterator[Server]:
    """Two who organise and report have addresses of mail for names."""
    with run_server(str(tmp_path / "tally.db"), workers=0) as running:
        for name, role, owner in (
            ("alice", "organiser", ORGANISER),
            ("rita", "reporter", REPORTER),
        ):
            running.keys[name] = make_key(running.service, role, owner=owner)
        publish(running, name="open", scoring_formula="rating", visibility="public")
        publish(running, name="shut", scoring_formula="rating")
        yield running


def report(server: Server, challenge: str, agent: str, **metrics: Any) -> str:
    body = {"agent": agent, "metrics": {"succeeded": True, "rating": 5} | metrics}
    told = server.v1("rita", "POST", f"/challenges/{challenge}/reports", json=body)
    assert told.status_code == 201, told.text
    return str(told.json()["attempt"]["id"])


def void(server: Server, attempt: str) -> None:
    told = server.v1("alice", "POST", f"/attempts/{attempt}/void", json={"reason": "copied"})
    assert told.status_code == 200, told.text


def tell_actors(server: Server, who: str, attempt: str) -> list[str]:
    audit = server.v1(who, "GET", f"/attempts/{attempt}").json()["attempt"]["audit"]
    return list(dict.fromkeys(each["actor"] for each in audit))


def test_who_acted_on_an_attempt_is_told_by_role_to_all_but_organisers(contest: Server) -> None:
    attempt = report(contest, "open", "bob")
    void(contest, attempt)
    api, page = f"/api/v1/attempts/{attempt}", f"/attempts/{attempt}"
    for who in ("nobody", "bob", "charlie", "victor", "rita"):
        assert tell_actors(contest, who, attempt) == ["reporter", "system", "organiser"]
        for address in (api, page, f"{page}?format=json", "/api/v1/challenges/open/attempts"):
            assert "secret@example.com" not in contest.ask(who, "GET", address).text, address


def test_organisers_are_told_who_acted(contest: Server) -> None:
    attempt = report(contest, "open", "bob")
    void(contest, attempt)
    named = [f"reporter {REPORTER}", "system", f"organiser {ORGANISER}"]
    assert tell_actors(contest, "alice", attempt) == named


def test_an_agent_that_acted_is_named(contest: Server) -> None:
    kind = {"Content-Type": "application/octet-stream"}
    contest.v1("alice", "POST", "/challenges", content=PACKED_CHALLENGE, headers=kind)
    entered = contest.v1("bob", "POST", "/challenges/sums/attempts", json={})
    assert tell_actors(contest, "bob", entered.json()["attempt"]["id"]) == ["bob"]


def test_results_at_private_challenges_move_no_rating_that_the_public_sees(
    contest: Server,
) -> None:
    report(contest, "open", "bob", succeeded=False)  # a win ends what counts
    report(contest, "shut", "charlie")
    first = report(contest, "shut", "bob", succeeded=False)
    later = report(contest, "open", "bob")
    addresses = ("/api/v1/ratings", "/ratings?format=json", f"/attempts/{later}?format=json")
    before = [contest.ask("nobody", "GET", each).json() for each in addresses]
    (line,) = before[0]["items"]
    elo = line["elo"]
    assert (line["agent"], elo["matches"], before[1]["agents"]) == ("bob", 2, [line])
    assert before[2]["sums"][-1]["result"] == str(elo["rating"])
    void(contest, first)
    report(contest, "shut", "bob", succeeded=False)
    report(contest, "shut", "bob")
    assert [contest.ask("nobody", "GET", each).json() for each in addresses] == before
    known = contest.v1("victor", "GET", "/ratings").json()["items"]
    assert {each["agent"]: each["elo"]["matches"] for each in known}["bob"] == 4


def test_what_the_public_sees_of_ratings_follows_public_challenges(contest: Server) -> None:
    def tell() -> dict[str, int]:
        told = contest.v1("nobody", "GET", "/ratings").json()["items"]
        return {each["agent"]: each["elo"]["matches"] for each in told}

    report(contest, "shut", "bob")
    attempt = report(contest, "open", "bob", succeeded=False)
    assert tell() == {"bob": 1}
    report(contest, "open", "bob")
    assert tell() == {"bob": 2}
    void(contest, attempt)
    assert tell() == {"bob": 1}
    publish_again = {"name": "shut", "scoring_formula": "rating", "visibility": "public"}
    made = contest.v1("alice", "POST", "/challenges?force=true", json=publish_again)
    assert made.status_code in (200, 201), made.text
    assert tell() == {"bob": 2}


@pytest.mark.parametrize("undone", [False, True], ids=["voided", "unvoided"])
def test_what_is_made_void_after_a_freeze_shows_when_it_ends(contest: Server, undone: bool) -> None:
    def change(what: str, **body: str) -> None:
        told = contest.v1("alice", "POST", f"/attempts/{best}/{what}", json={"reason": "x"} | body)
        assert told.status_code == 200, told.text

    def look() -> list[Any]:
        told = [contest.ask("nobody", "GET", each).json() for each in addresses]
        told[3].pop("frame", None)
        return told

    store = contest.service.app.store
    best = report(contest, "open", "charlie", rating=9)
    report(contest, "open", "bob", rating=5)
    page = f"/attempts/{best}?format=json"
    addresses = (
        *("/api/v1/ratings", "/api/v1/challenges/open/leaderboard", f"/api/v1/attempts/{best}"),
        *(page, "/api/v1/challenges/open/attempts", "/ratings?format=json"),
    )
    if undone:
        change("void")
    frozen = contest.v1("alice", "PATCH", "/challenges/open", json={"frozen": True, "reason": "x"})
    assert frozen.status_code == 200, frozen.text
    before, seq = look(), store.board_changes.newest("open").seq
    change("unvoid" if undone else "void", reason="copied from another")
    assert look() == before
    assert store.board_changes.after("open", seq)[1].told is None
    own = contest.v1("charlie", "GET", f"/attempts/{best}").json()["attempt"]
    assert (own.get("voided_at") is None) == undone
    assert "copied from another" in contest.v1("alice", "GET", f"/attempts/{best}").text
    contest.v1("alice", "PATCH", "/challenges/open", json={"frozen": False, "reason": "x"})
    after = look()
    assert ("charlie" in {each["agent"] for each in after[0]["items"]}) == undone
    assert (after[2]["attempt"].get("voided_at") is None) == undone
    assert after[2]["attempt"]["audit"][-1]["note"]["reason"] == "copied from another"
