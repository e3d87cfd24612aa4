"""What of contests is shown to whom: who acted, and what private challenges come to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.api.conftest import Server, publish, run_server
from tests.api.route_table import PACKED_CHALLENGE

ORGANISER, REPORTER = "alice.secret@example.com", "bob.secret@example.com"


@pytest.fixture
def contest(tmp_path: Path) -> Iterator[Server]:
    """Two who organise and report have addresses of mail for names."""
    with run_server(str(tmp_path / "tally.db"), workers=0) as running:
        accounts = running.service.accounts
        ada = accounts.authenticate(running.keys["ada"])
        for name, role, owner in (
            ("alice", "organiser", ORGANISER),
            ("rita", "reporter", REPORTER),
        ):
            running.keys[name] = accounts.create_key(ada, role=role, owner=owner).text
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
