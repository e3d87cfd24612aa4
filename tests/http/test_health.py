"""Readiness, metrics and log of a server."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import case, update
from starlette.testclient import TestClient
from tests.http.conftest import Server, run_server

from tallymark.errors import InvalidInput, WorkFailed
from tallymark.instrumentation import watch
from tallymark.service import readiness
from tallymark.service.proxy import Networks
from tallymark.service.server_logs import set_up_logs
from tallymark.service.settings import read_settings
from tallymark.store.jobs import NewJob
from tallymark.store.jobs import jobs as jobs_table

OPERATIONS = Path(__file__).parents[2] / "docs" / "operations.md"


def read_metrics(server: Server) -> dict[str, float]:
    """All samples, by name and labels."""
    text = server.ask("ada", "GET", "/metrics").text
    return {
        f"{sample.name}{json.dumps(sample.labels, sort_keys=True)}": sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_all_that_it_needs_is_named(shared: Server) -> None:
    found = shared.ask("nobody", "GET", "/readyz")
    assert found.status_code == 200
    assert list(found.json()) == ["status", "database", "sandbox", "workers", "disk"]


@pytest.mark.parametrize("part", ["database", "sandbox", "workers", "disk"])
def test_what_fails_is_said_without_where_it_is(
    shared: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, part: str
) -> None:
    where = shared.service.app.store.shown

    def fail(*_: object) -> None:
        raise WorkFailed(f"{where} is broken")

    if part == "database":
        monkeypatch.setattr(type(shared.service.app.store), "check", fail)
    if part == "sandbox":
        monkeypatch.setattr(readiness, "choose_policy", fail)
    if part == "workers":
        monkeypatch.setattr(type(shared.service.workers), "is_alive", False)
    if part == "disk":
        monkeypatch.setenv("TALLY_MIN_FREE_MB", "999999999")
    shared.service.readiness.forget()
    found = shared.ask("nobody", "GET", "/readyz")
    assert found.status_code == 503
    (problem,) = found.json()["errors"]
    assert problem["message"].startswith(f"{part}: ")
    assert problem["hint"]
    assert where not in found.text
    assert part in caplog.text
    assert (where in caplog.text) == (part in ("database", "sandbox"))
    monkeypatch.setenv("TALLY_READY_WITHOUT", f"nothing, {part}")
    assert shared.ask("nobody", "GET", "/readyz").json()[part] == "off"


GAUGES = {
    *("tally_info", "tally_writer", "tally_listeners", "tally_cache_bytes", "tally_threads"),
    *("tally_disk_free_bytes", "tally_database_connections", "tally_paused_addresses"),
    *("tally_rule_delay_seconds", "process_open_fds", "process_resident_memory_bytes"),
    *("process_start_time_seconds", "process_max_fds"),
}


def test_the_age_of_jobs_is_by_their_kind(tmp_path: Path) -> None:
    with run_server(str(tmp_path / "tally.db"), workers=0) as server:
        jobs = server.service.app.store.jobs
        jobs.add(NewJob(kind="run", subject="a"))
        jobs.add(NewJob(kind="deliver", subject="b", delay=3600.0))
        database = server.service.app.store._database
        earlier = {"created_at": jobs_table.c.created_at - 100}
        ready = jobs_table.c.not_before - case((jobs_table.c.kind == "run", 60), else_=0)
        change = update(jobs_table).values(**earlier, not_before=ready)
        database.write(lambda connection: connection.execute(change).rowcount)
        found = read_metrics(server)
    assert found['tally_jobs{"kind": "run", "state": "queued"}'] == 1
    assert 100 <= found['tally_job_oldest_seconds{"kind": "run"}'] < 160
    assert 60 <= found['tally_job_waiting_seconds{"kind": "run"}'] < 100
    assert 100 <= found['tally_job_oldest_seconds{"kind": "deliver"}'] < 160
    assert found['tally_job_waiting_seconds{"kind": "deliver"}'] == 0


@pytest.mark.parametrize(
    ("who", "address", "headers", "status"),
    [
        ("nobody", "192.0.2.1", {}, 403),
        ("alice", "192.0.2.1", {}, 403),
        ("otto", "192.0.2.1", {}, 403),  # an admin of another tenant
        ("unknown", "192.0.2.1", {}, 401),
        ("ada", "192.0.2.1", {}, 200),
        ("nobody", "127.0.0.1", {}, 200),
        ("nobody", "::1", {}, 200),
        ("nobody", "10.1.2.3", {}, 200),
        ("nobody", "127.0.0.1", {"X-Forwarded-For": "127.0.0.1"}, 403),
        ("nobody", "127.0.0.1", {"Forwarded": "for=192.0.2.1"}, 403),
    ],
)
def test_metrics_are_for_operators(
    shared: Server,
    monkeypatch: pytest.MonkeyPatch,
    who: str,
    address: str,
    headers: dict[str, str],
    status: int,
) -> None:
    networks = Networks.read("127.0.0.0/8,::1,10.0.0.0/8")
    settings = replace(shared.service.settings, metrics_from=networks)
    monkeypatch.setattr(shared.service, "settings", settings)
    client = TestClient(shared.client.app, client=(address, 1), base_url="http://tally.test")
    if who in shared.keys:
        headers = headers | {"Authorization": f"Bearer {shared.keys[who]}"}
    found = client.get("/metrics", headers=headers)
    assert found.status_code == status
    assert ("tally_requests" in found.text) == (status == 200)


def test_networks_of_the_metrics_are_read_at_the_start() -> None:
    with pytest.raises(InvalidInput, match="TALLY_METRICS_FROM has 'monitor', which is no address"):
        read_settings({"TALLY_METRICS_FROM": "10.0.0.1, monitor"})
    assert "127.0.0.9" in read_settings({}).metrics_from
    assert "127.0.0.1" not in read_settings({"TALLY_METRICS_FROM": ""}).metrics_from


def test_each_metric_moves_and_is_in_the_documents(server: Server) -> None:
    before = read_metrics(server)
    new = {"name": "speed", "scoring_formula": "rating"}
    assert server.v1("ada", "POST", "/challenges", json=new).status_code == 201
    metrics = {"succeeded": True, "rating": 3}
    report = {"agent": "bob", "metrics": metrics}
    sent = server.v1("rita", "POST", "/challenges/speed/reports", json=report)
    assert sent.status_code == 201
    with watch("sandbox", kind="plugin") as work:
        work.outcomes["timeout"] += 2
    with watch("job", kind="run") as work:
        work.outcomes["done"] += 1
    after = read_metrics(server)
    moved = {name for name, value in after.items() if value != before.get(name)}
    for start in (
        'tally_requests_total{"method": "POST", "route": "/api/v1/challenges", "status": "201"}',
        'tally_request_seconds_count{"route": "/api/v1/challenges"}',
        'tally_batch_size_count{"thread": "tally-writer"}',
        'tally_sandbox_calls_total{"kind": "plugin", "outcome": "timeout"}',
        'tally_jobs_done_total{"kind": "run", "outcome": "done"}',
        'tally_writer{"kind": "written"}',
        "process_cpu_seconds_total{}",
    ):
        assert start in moved, start
    names = {name.partition("{")[0] for name in after}
    assert names >= GAUGES
    told = OPERATIONS.read_text(encoding="utf-8")
    for name in names:
        base = name.removesuffix("_created").removesuffix("_bucket").removesuffix("_count")
        assert f"`{base.removesuffix('_sum')}" in told, name


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    secrets = {"TALLY_LOG": "json", "SOME_API_KEY": "a provider's own words"}
    handler = set_up_logs(None, secrets, stream)
    yield stream
    logging.getLogger().removeHandler(handler)
    logging.getLogger("tallymark").setLevel(logging.NOTSET)


def read_lines(log: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.getvalue().splitlines()]


def test_a_request_is_a_line_with_its_id_and_who(shared: Server, log: io.StringIO) -> None:
    given = {"X-Request-Id": "from-the-proxy.7"}
    answered = shared.v1("rita", "GET", "/runs?limit=3", headers=given)
    assert answered.headers["x-request-id"] == "from-the-proxy.7"
    (line,) = read_lines(log)
    key = shared.service.accounts.authenticate(shared.keys["rita"]).key_id
    assert line["route"] == "/api/v1/runs"
    assert (line["status"], line["key"], line["role"]) == (200, key, "reporter")
    assert line["request_id"] == "from-the-proxy.7"
    assert 0 < line["seconds"] < 60


@pytest.mark.parametrize("given", ["", "a" * 65, 'x" onload="', "a b", "../../etc", "id\u00e9"])
def test_an_id_that_could_do_harm_is_not_taken(shared: Server, given: str) -> None:
    sent = {"X-Request-Id": given.encode("latin-1")}
    answered = shared.v1("rita", "GET", "/runs", headers=sent)
    assert answered.headers["x-request-id"] != given
    assert answered.headers["x-request-id"].isalnum()


def test_no_secret_comes_to_the_log(
    shared: Server, log: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    invitation = "tli_" + "i" * 43
    for who in ("ada", "unknown", "revoked"):
        shared.v1(who, "GET", f"/runs?key={shared.keys[who]}&password=hunter22")
    shared.ask("nobody", "GET", f"/join/{invitation}")
    shared.ask("nobody", "GET", "/runs", headers={"Authorization": "Basic dXNlcjpodW50ZXIyMg=="})
    shared.ask("nobody", "GET", "/", headers={"Cookie": "tally_session=tls_" + "s" * 43})
    mistake = "Bearer hunter22hunter22, sk-proj-1234567890abcdef, postgresql://me:hunter22@host/db"

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError(f"{mistake}, token=hunter22, a provider's own words, {invitation}")

    monkeypatch.setattr(type(shared.service.app.store), "runs", fail)
    monkeypatch.setattr(type(shared.service.app.store), "count_runs", fail, raising=False)
    shared.client._transport.raise_server_exceptions = False  # type: ignore[attr-defined]
    answered = shared.v1("ada", "GET", "/runs")
    assert answered.status_code == 500
    assert answered.json()["request_id"] == answered.headers["x-request-id"]
    logging.getLogger("tallymark.any").warning("it said %s", mistake)
    text = log.getvalue()
    assert "RuntimeError" in text
    for secret in (
        *(*shared.keys.values(), invitation, "hunter22", "dXNlcjpodW50ZXIyMg", "sssss"),
        *("sk-proj", "provider's own", "iiiii"),
    ):
        assert secret not in text, secret
    assert answered.headers["x-request-id"] in text


def test_as_text_each_entry_is_a_line(shared: Server) -> None:
    stream = io.StringIO()
    handler = set_up_logs("text", {}, stream)
    try:
        shared.v1("rita", "GET", "/runs", headers={"X-Request-Id": "abc"})
        logging.getLogger("tallymark.any").warning("one\ntwo")
    finally:
        logging.getLogger().removeHandler(handler)
        logging.getLogger("tallymark").setLevel(logging.NOTSET)
    first, second = stream.getvalue().splitlines()
    assert "GET /api/v1/runs 200" in first
    assert first.endswith("[abc]")
    assert "one\\ntwo" in second
