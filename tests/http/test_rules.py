"""`/rules`: made by an organiser, worked by the server, seen by the team."""

from __future__ import annotations

import json
import threading
from typing import Any

from tests.http.conftest import Server

RULE = {"name": "polite", "scorer": 'contains(values=["nobody says this"])'}


def send(server: Server, trace: str, at: int = 1) -> None:
    """A trace of one span that has ended."""
    span = {
        "traceId": trace,
        "spanId": "eee19b7ec3c1b174",
        "name": "chat",
        "startTimeUnixNano": str(at * 10**9),
        "endTimeUnixNano": str((at + 1) * 10**9),
        "attributes": [
            {"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}},
            {"key": "gen_ai.completion.0.content", "value": {"stringValue": "no"}},
        ],
    }
    body = {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}
    headers = {"Content-Type": "application/json"}
    answered = server.ask("rita", "POST", "/v1/traces", content=json.dumps(body), headers=headers)
    assert answered.status_code == 200, answered.text


def wait_for(server: Server, path: str, enough: Any) -> Any:
    """Repeat a request until the condition holds, because the server works in the background."""
    pause, found = threading.Event(), None
    for _ in range(600):
        found = server.v1("victor", "GET", path).json()
        if enough(found):
            return found
        pause.wait(0.05)
    raise AssertionError(found)


def test_what_comes_in_is_scored_and_what_was_there_is_backfilled(server: Server) -> None:
    settings = {"quiet_s": 0.1}
    assert server.v1("alice", "PATCH", "/traces/settings", json=settings).status_code == 200
    send(server, "0" * 31 + "1")
    decisions = server.service.app.store.rule_outcomes
    wait_for(
        server,
        "/traces",  # settled, and looked at while there is no rule
        lambda found: found["items"][0]["state"] == "settled" and not decisions.undecided(1),
    )
    made = server.v1("alice", "POST", "/rules", json=RULE)
    assert (made.status_code, made.json()["rule"]["owner"]) == (201, "alice")
    send(server, "0" * 31 + "2", at=5)
    rule = wait_for(server, "/rules/polite", lambda found: found["rule"]["counts"]["scored"])
    assert rule["rule"]["counts"]["scored"] == 1
    assert rule["rule"]["versions"][0]["author"] == "organiser alice"
    span = {"since": 0.0, "until": 100.0}
    said = server.v1("alice", "POST", "/rules/polite/backfill/preview", json=span)
    assert said.json()["to_score"] == 1
    begun = server.v1("alice", "POST", "/rules/polite/backfill", json=span)
    assert begun.status_code == 202
    job = begun.json()["job"]
    done = wait_for(
        server, "/rules/polite/backfills", lambda found: found["items"][0]["state"] == "done"
    )
    assert (done["items"][0]["scored"], done["items"][0]["progress"]) == (1, 1.0)
    assert server.v1("alice", "GET", f"/jobs/{job}").json()["job"]["kind"] == "backfill"
    told = server.v1("victor", "GET", "/rules/polite/decisions?limit=1").json()
    assert told["items"][0]["decision"] == "scored"
    rest = server.v1("victor", "GET", f"/rules/polite/decisions?cursor={told['next']}").json()
    assert (len(rest["items"]), rest["next"]) == (1, None)
    (day,) = server.v1("victor", "GET", "/rules/polite/spending").json()["days"]
    assert (day["scored"], day["spent"]) == (2, 0.0)


def test_a_name_is_taken_once_and_free_again_when_its_rule_is_gone(server: Server) -> None:
    assert server.v1("alice", "POST", "/rules", json=RULE).status_code == 201
    assert server.v1("alice", "POST", "/rules", json=RULE).json()["code"] == "conflict"
    assert server.v1("alice", "DELETE", "/rules/polite").json()["rule"]["state"] == "deleted"
    assert server.v1("alice", "POST", "/rules", json=RULE).status_code == 201


def test_what_is_only_validated_is_not_made(server: Server) -> None:
    answered = server.v1("alice", "POST", "/rules?validate_only=true", json=RULE)
    assert answered.status_code == 200
    assert server.v1("victor", "GET", "/rules").json()["items"] == []
