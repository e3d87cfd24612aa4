"""Runs by the API: executed by a job, sent finished, cancelled, compared, scored again."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from tests.http.conftest import Server

SUITE = "evals: [{prompt: say hello, checks: [{match: '*hello*'}]}]"


def start(server: Server, **more: Any) -> Any:
    return server.v1("alice", "POST", "/runs", json={"suite": SUITE, "models": ["echo/me"], **more})


def test_a_suite_is_executed_by_a_job(server: Server) -> None:
    queued = start(server)
    assert (queued.status_code, queued.json()["run"]["status"]) == (202, "queued"), queued.text
    job = asyncio.run(server.service.tenant("default").jobs.await_end(queued.json()["job"], 60))
    assert job.state == "done"
    run = server.v1("victor", "GET", f"/runs/{queued.json()['run']['id']}").json()["run"]
    assert (run["status"], run["score"], run["score_formula"]) == (
        "completed",
        100.0,
        "success_pct",
    )
    cases = server.v1("victor", "GET", f"/runs/{run['id']}/cases").json()["items"]
    assert [each["status"] for each in cases] == ["passed"]


def test_the_paths_of_the_document_of_formulas_work_too(server: Server) -> None:
    run = {"suite": "s", "model": "m", "results": [{"case": "a", "status": "passed"}]}
    made = server.ask("rita", "POST", "/api/runs", json={"run": run})
    assert made.status_code == 201
    found = server.ask("victor", "GET", f"/api/runs/{made.json()['run']['id']}").json()
    assert found["run"]["score_formula"] == "success_pct"


def test_a_run_that_waits_can_be_cancelled(server: Server) -> None:
    server.service.workers.stop()
    queued = start(server).json()
    path = f"/runs/{queued['run']['id']}/cancel"
    assert server.v1("rita", "POST", path).status_code == 403
    told = server.v1("alice", "POST", path)
    assert (told.status_code, told.json()["run"]["status"]) == (200, "cancelled"), told.text


def test_a_run_is_named_and_deleted_by_organisers_and_the_log_tells(server: Server) -> None:
    run = {"suite": "s", "model": "m", "results": [{"case": "a", "status": "passed"}]}
    made = server.v1("rita", "POST", "/runs", json={"run": run}).json()["run"]["id"]
    path = f"/runs/{made}"
    assert server.v1("rita", "DELETE", path).status_code == 403
    named = server.v1("alice", "PATCH", path, json={"name": "nightly"}).json()
    assert named["run"]["id"] == made
    deleted = server.v1("alice", "DELETE", f"{path}?reason=a+wrong+prompt")
    assert (deleted.status_code, deleted.json()["run"]["id"]) == (200, made)
    assert server.v1("alice", "DELETE", path).status_code == 404
    assert server.v1("alice", "GET", path).status_code == 404
    told, renamed = server.v1("alice", "GET", "/audit?limit=2").json()["items"]
    assert (told["event"], renamed["event"]) == ("run deleted", "run renamed")
    assert told["note"]["reason"] == "a wrong prompt"
    assert told["actor"] not in ("operator", "system")


def test_a_run_that_waits_is_not_deleted(server: Server) -> None:
    server.service.workers.stop()
    queued = start(server).json()["run"]["id"]
    refused = server.v1("alice", "DELETE", f"/runs/{queued}")
    assert refused.status_code == 409
    assert refused.json()["detail"] == f"run {queued} waits for a worker; cancel it first"


def test_what_is_sent_is_tallied_again_and_differences_are_told(server: Server) -> None:
    run = {
        "suite": "s",
        "model": "m",
        "score": 99.0,
        "results": [{"case": "a", "status": "passed"}, {"case": "b", "status": "failed"}],
    }
    made = server.v1("rita", "POST", "/runs", json={"run": run}).json()
    assert made["run"]["score"] == 50.0
    [differences] = made["differences"]
    assert "99" in json.dumps(differences)


def test_runs_are_scored_again_beside_and_compared(server: Server) -> None:
    for passed in (1, 3):
        results = [
            {"case": str(n), "status": "passed" if n < passed else "failed"} for n in range(4)
        ]
        sent = {"run": {"suite": "s", "model": "m", "results": results}}
        assert server.v1("rita", "POST", "/runs", json=sent).status_code == 201
    new, old = [each["id"] for each in server.v1("ada", "GET", "/runs").json()["items"]]
    path = f"/runs/{new}/rescore"
    preview = server.v1("alice", "POST", f"{path}?preview=true", json={"formula": "success_pct/2"})
    assert (preview.status_code, preview.json()["saved_as"]) == (200, None)
    assert preview.json()["after"]["score"] == 37.5
    kept = server.v1("alice", "POST", path, json={"formula": "success_pct / 2"})
    assert kept.status_code == 201
    assert (
        server.v1("ada", "GET", f"/runs/{kept.json()['saved_as']}").json()["run"]["score"] == 37.5
    )
    assert server.v1("ada", "GET", f"/runs/{new}").json()["run"]["score"] == 75.0
    compared = server.v1("victor", "GET", f"/compare?run={old}&run={new}")
    assert len(compared.json()["comparisons"]) == 1
    assert server.v1("victor", "GET", f"/compare?run={old}").status_code == 400
    assert server.v1("victor", "GET", f"/compare?run={old}&run=nothing").status_code == 404


def test_a_suite_that_asks_something_else_says_so(server: Server) -> None:
    queued = start(server).json()
    asyncio.run(server.service.tenant("default").jobs.await_end(queued["job"], 60))
    other = SUITE.replace("[{prompt", "[{prompt: say ho, checks: [match: ho]}, {prompt", 1)
    path = f"/runs/{queued['run']['id']}/rescore"
    told = server.v1("alice", "POST", path, json={"suite": other}).json()
    assert told["notes"] == ["1 case without an answer when it was rescored: #1 say ho"]
    assert (told["after"]["status"], told["after"]["score"]) == ("partial_failure", 100.0)
    kept = server.v1("ada", "GET", f"/runs/{told['saved_as']}").json()["run"]
    assert kept["tags"]["rescore_notes"] == told["notes"]


def test_a_reporter_starts_nothing_and_a_suite_reaches_nothing_of_the_operators(
    server: Server,
) -> None:
    body = {"suite": SUITE, "models": ["echo/me"]}
    assert server.v1("rita", "POST", "/runs", json=body).status_code == 403
    for model in ("python/os:system", "cmd/id", "http://127.0.0.1:1/v1", "replay//etc/passwd"):
        answered = start(server, models=[model])
        assert answered.status_code in (403, 422), (model, answered.text)


def test_a_variable_that_the_suite_never_asks_for_is_refused(server: Server) -> None:
    refused = start(server, vars={"ctiy": "Paris"})
    assert refused.status_code == 422
    (problem,) = refused.json()["errors"]
    assert problem["field"] == "vars"
    assert "asks for no variable 'ctiy'" in problem["message"]


def test_variables_are_shown_and_secrets_never(server: Server) -> None:
    for kind in ("vars", "secrets"):
        put = server.v1("alice", "PUT", f"/{kind}/TOKEN", json={"value": "s3cr3t-value"})
        assert put.status_code == 200, put.text
    assert server.v1("victor", "GET", "/vars").json() == {"vars": {"TOKEN": "s3cr3t-value"}}
    server.v1("alice", "DELETE", "/vars/TOKEN")
    for path in ("/secrets", "/audit", "/vars", "/limits", "/keys", "/export/audit"):
        assert "s3cr3t-value" not in server.v1("ada", "GET", path).text
    assert server.v1("alice", "GET", "/secrets").json() == {"secrets": ["TOKEN"]}
    assert server.v1("alice", "DELETE", "/secrets/NONE").status_code == 404
    assert server.v1("alice", "DELETE", "/secrets/TOKEN").status_code == 200
