"""Attempts from entry to score: by whom, with what fields, at once or by a job."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.challenges.challenge_folders import folder_with
from tests.http.conftest import Server, furnish, run_server

from tallymark.challenges.challenge_folder import pack
from tallymark.server import make_server
from tallymark.service.competition import Competition
from tallymark.service.service import Service

EXAMPLES = Path(__file__).parents[2] / "examples" / "challenges"
FIELDS = (
    *("score", "score_breakdown", "result", "submission_warnings", "constraint_violations"),
    *("harness_warning", "rating", "rank"),
)
DRAWN = """
    name: drawn
    goal: Add up.
    data: {generate: generate.py}
    evaluator: {type: deterministic, fields: {sum: {dimension: correctness}}}
    scoring: {strategy: custom, dimensions: {correctness: 0.8, speed: 0.2}}
"""
GENERATE = "def generate(seed): return {'public': {}, 'truth': {'sum': 42}}"
STEPS = '{"trace_id": "t-1", "output": "x"}'


@pytest.fixture
def sums(server: Server) -> Server:
    furnish(server)
    return server


def send_folder(server: Server, name: str) -> None:
    kind = {"Content-Type": "application/vnd.tallymark.challenge"}
    made = server.v1(
        "alice", "POST", "/challenges?force=true", content=pack(EXAMPLES / name), headers=kind
    )
    assert made.status_code == 201, made.text


def enter(server: Server, who: str = "bob", name: str = "sums", **body: Any) -> str:
    entered = server.v1(who, "POST", f"/challenges/{name}/attempts", json=body)
    assert entered.status_code == 201, entered.text
    return str(entered.json()["attempt"]["id"])


def submit(
    server: Server, who: str, attempt: str, answer: Any, *, wait: bool = True, **headers: str
) -> Any:
    path = f"/attempts/{attempt}/submission?wait={str(wait).lower()}"
    return server.v1(who, "POST", path, json={"answer": answer}, headers=headers)


def test_fields_may_be_asked_for_that_an_open_attempt_has_not_got(sums: Server) -> None:
    submit(sums, "bob", enter(sums), {"sum": 42})
    opened = enter(sums)
    asked = "id,result,scored_at,verified,score_breakdown,origin"
    told = sums.v1("ada", "GET", f"/challenges/sums/attempts?fields={asked}")
    assert told.status_code == 200, told.text
    first, last = told.json()["items"]
    nothing = dict.fromkeys(("result", "scored_at", "score_breakdown", "origin"))
    assert first == {"id": opened, "verified": False, **nothing}
    assert last["result"] == "win"
    whole = sums.v1("ada", "GET", f"/attempts/{opened}").json()["attempt"]
    assert whole["submitted_at"] is whole["scored_at"] is whole["result"] is None
    assert sums.v1("ada", "GET", "/challenges/sums/attempts?fields=reslt").status_code == 400


def test_a_submission_is_answered_with_the_fields_of_the_document(sums: Server) -> None:
    told = submit(sums, "bob", enter(sums), {"sum": 42})
    assert told.status_code == 200, told.text
    document = told.json()
    assert set(FIELDS) <= set(document)
    assert document["result"] == "win"
    parts = document["score_breakdown"]
    assert set(parts) == {"correctness", "speed"}
    for part in parts.values():
        assert set(part) == {"score", "weight", "weighted"}
        assert part["weighted"] == pytest.approx(part["score"] * part["weight"])
    assert document["score"] == pytest.approx(sum(p["weighted"] for p in parts.values()), abs=1)
    assert (document["submission_warnings"], document["constraint_violations"]) == ([], [])
    assert document["rating"]["after"] > document["rating"]["before"]
    assert document["rank"] == 1


@pytest.fixture
def idle(tmp_path: Path) -> Iterator[Server]:
    """A server without workers, so that the test decides when a waiting attempt is scored."""
    with run_server(str(tmp_path / "tally.db"), workers=0) as running:
        furnish(running)
        yield running


def count_matches(server: Server) -> int:
    told = server.v1("bob", "GET", "/agents/bob").json()
    return int(told["agent"]["elo"]["matches"])


@pytest.mark.parametrize("name", ["sums", "drawn"])
@pytest.mark.parametrize("again", ["settled", "sent again"])
def test_what_of_ours_fails_before_the_score_leaves_the_attempt_waiting(
    idle: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, again: str
) -> None:
    """Its answer is stored first, and no job is needed to score it later."""
    if name == "drawn":
        drawn = folder_with(tmp_path / name, DRAWN, {"generate.py": GENERATE})
        kind = {"Content-Type": "application/vnd.tallymark.challenge"}
        path = "/challenges?force=true"
        assert idle.v1("alice", "POST", path, content=pack(drawn), headers=kind).is_success
    matches, attempt = count_matches(idle), enter(idle, name=name)
    with monkeypatch.context() as broken:
        broken.setattr(Competition, "_evaluate", lambda *_: 1 / 0)
        told = submit(idle, "bob", attempt, {"sum": 42})
    assert (told.status_code, told.json()["job"], told.json()["rating"]) == (202, None, None)
    waiting = idle.v1("bob", "GET", f"/attempts/{attempt}").json()["attempt"]
    assert (waiting["state"], "internal error" in waiting["waiting"]) == ("submitted", True)
    assert count_matches(idle) == matches
    if again == "settled":
        idle.service.tenant("default").competition.settle()
    else:
        assert submit(idle, "bob", attempt, {"sum": 42}).json()["result"] == "win"
    done = idle.v1("bob", "GET", f"/attempts/{attempt}").json()["attempt"]
    assert (done["state"], done["result"], done["waiting"]) == ("scored", "win", None)
    assert count_matches(idle) == matches + 1


def test_an_attempt_is_submitted_once(sums: Server) -> None:
    attempt = enter(sums)
    first = submit(sums, "bob", attempt, {"sum": 41})
    same = submit(sums, "bob", attempt, {"sum": 41})
    other = submit(sums, "bob", attempt, {"sum": 42})
    assert (first.status_code, same.status_code, other.status_code) == (200, 200, 409)
    assert same.json()["score"] == first.json()["score"]


def test_what_comes_too_late_is_a_loss(sums: Server) -> None:
    attempt = enter(sums)
    clock = sums.service.clock
    sums.service.clock = lambda: clock() + 4000
    sums.service.tenant("default").competition._clock = sums.service.clock
    late = submit(sums, "bob", attempt, {"sum": 42})
    assert late.status_code == 409
    assert "expired" in late.json()["detail"]
    assert sums.v1("bob", "GET", f"/attempts/{attempt}").json()["attempt"]["state"] == "expired"


def test_a_key_acts_for_no_other_agent(sums: Server) -> None:
    attempt = enter(sums)
    assert (
        sums.v1("bob", "POST", "/challenges/sums/attempts", json={"agent": "charlie"}).status_code
        == 403
    )
    assert submit(sums, "charlie", attempt, {"sum": 42}).status_code == 404
    assert sums.v1("charlie", "POST", f"/attempts/{attempt}/withdraw", json={}).status_code == 404
    side = {"agent": "charlie", "answer": "x"}
    assert sums.v1("bob", "POST", "/challenges/sums/sides/red", json=side).status_code == 403
    wrong = sums.v1("alice", "POST", f"/attempts/{attempt}/withdraw", json={"agent": "charlie"})
    assert wrong.status_code == 404
    assert sums.v1("bob", "GET", f"/attempts/{attempt}").json()["attempt"]["state"] == "entered"
    unnamed = sums.v1("alice", "POST", "/challenges/sums/attempts", json={})
    assert (unnamed.status_code, unnamed.json()["errors"][0]["field"]) == (422, "agent")


def test_open_attempts_of_others_are_nobodys_business(sums: Server) -> None:
    attempt = enter(sums)
    listed = "/challenges/sums/attempts"
    for who in ("charlie", "nobody", "oscar"):
        assert sums.v1(who, "GET", f"/attempts/{attempt}").status_code == 404
    assert sums.v1("charlie", "GET", listed).json()["items"] == []
    assert sums.v1("charlie", "GET", f"{listed}?agent=bob&state=entered").json()["items"] == []
    assert len(sums.v1("bob", "GET", listed).json()["items"]) == 1


def test_those_who_compete_see_no_truth_no_seed_and_no_answers(sums: Server) -> None:
    attempt = enter(sums)
    before = sums.v1("bob", "GET", f"/attempts/{attempt}").text
    assert '"seed":null' in before
    assert submit(sums, "bob", attempt, {"sum": 41, "secret-words": 5}).status_code == 200
    for who in ("bob", "charlie", "victor"):
        for path in ("/challenges/sums", f"/attempts/{attempt}", "/challenges/sums/attempts"):
            told = sums.v1(who, "GET", path).text
            assert "42" not in json.dumps(json.loads(told).get("challenge", {}).get("evaluator"))
            assert "truth" not in told
            assert "secret-words" not in told or who == "bob"


def test_what_was_submitted_is_read_by_its_agent_and_by_organisers_alone(sums: Server) -> None:
    attempt = enter(sums)
    sent = {"answer": {"sum": 123456789012345}, "metadata": {"model": "m"}, "trajectory": STEPS}
    path = f"/attempts/{attempt}/submission"
    early = sums.v1("bob", "GET", path)
    assert (early.status_code, "nothing was submitted" in early.json()["detail"]) == (404, True)
    assert sums.v1("bob", "POST", path, json=sent).status_code == 200
    for who in ("bob", "alice", "ada"):
        kept = sums.v1(who, "GET", path).json()["submission"]
        assert kept["answer"] == {"sum": 123456789012345}
        assert (kept["metadata"], kept["trajectory"]) == ({"model": "m"}, STEPS)
        assert (kept["format"], kept["agent"], kept["attempt"]) == ("json", "bob", attempt)
    picked = sums.v1("bob", "GET", f"{path}?fields=answer").json()
    assert picked == {"submission": {"answer": {"sum": 123456789012345}}}
    close = sums.v1("alice", "PATCH", "/challenges/sums", json={"closed": True, "reason": "x"})
    assert close.status_code == 200, close.text
    codes = {"charlie": 403, "rita": 403, "victor": 403, "nobody": 401, "oscar": 404}
    for who, code in codes.items():
        refused = sums.v1(who, "GET", path)
        assert (refused.status_code, "123456789012345" in refused.text) == (code, False), who


def test_giving_up_is_a_loss_and_void_counts_no_more(sums: Server) -> None:
    attempt = enter(sums)
    gone = sums.v1("bob", "POST", f"/attempts/{attempt}/withdraw", json={"reason": "tired"})
    assert gone.json()["attempt"]["state"] == "withdrawn"
    again = sums.v1("bob", "POST", f"/attempts/{enter(sums)}/void", json={"reason": "x"})
    assert again.status_code == 403
    scored = enter(sums)
    submit(sums, "bob", scored, {"sum": 42})
    board = "/challenges/sums/leaderboard"
    assert sums.v1("bob", "GET", board).json()["agents"] == 1
    void = sums.v1("alice", "POST", f"/attempts/{scored}/void", json={"reason": "leaked"})
    assert void.status_code == 200
    assert sums.v1("bob", "GET", board).json()["agents"] == 0
    log = sums.v1("alice", "GET", "/audit?event=voided").json()["items"]
    assert [(each["actor"], each["note"], each["attempt"]) for each in log] == [
        ("organiser alice", {"reason": "leaked"}, scored)
    ]
    assert log[0]["address"] == "testclient"


def test_programs_are_run_by_workers_and_the_job_tells_the_score(server: Server) -> None:
    send_folder(server, "fix-the-parser")
    answer = {
        "durations.py": (EXAMPLES / "fix-the-parser/solution/durations.py").read_text(),
    }
    waited = submit(server, "bob", enter(server, name="fix-the-parser"), answer)
    assert (waited.status_code, waited.json()["attempt"]["state"]) == (200, "scored"), waited.text
    attempt = enter(server, "charlie", "fix-the-parser")
    taken = submit(server, "charlie", attempt, answer, wait=False)
    assert taken.status_code == 202, taken.text
    where = taken.headers["location"]
    assert where == f"/api/v1/jobs/{taken.json()['job']}"
    job = asyncio.run(server.service.tenant("default").jobs.await_end(taken.json()["job"], 60))
    assert job.state == "done"
    assert server.ask("charlie", "GET", where).json()["job"]["state"] == "done"
    assert server.ask("bob", "GET", where).status_code == 404
    done = server.v1("charlie", "GET", f"/attempts/{attempt}").json()["attempt"]
    assert done["state"] == "scored"
    assert done["score"] > 900


def test_the_token_of_an_attempt_is_the_same_after_a_restart(sums: Server) -> None:
    entered = sums.v1("bob", "POST", "/challenges/sums/attempts", json={}).json()
    service = Service(sums.service.settings)
    path = f"/api/v1/attempts/{entered['attempt']['id']}/token"
    with TestClient(make_server(service), base_url="http://tally.test") as client:
        told = client.get(path, headers={"Authorization": f"Bearer {sums.keys['bob']}"})
    assert told.json() == {"token": entered["token"]}
