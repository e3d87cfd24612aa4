"""The server process, its OpenAPI document against its answers, and mutated bodies."""

from __future__ import annotations

import copy
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from tests.http.conftest import ADA, Server, furnish, listening, run_server, send_spans
from tests.http.route_table import ROUTES, Row

from tallymark.service.callers import SESSION_COOKIE

WORDS = re.compile(r"[a-z]{2,}\W+\w+")
HOOKS = """
import schemathesis

@schemathesis.serializer("application/x-ndjson")
def write_lines(context, value):
    return value if isinstance(value, (bytes, str)) else repr(value)

@schemathesis.hook
def filter_case(context, case):
    # The server's parser refuses a longer address with a plain text of its own.
    return len(repr(case.query)) + len(repr(case.path_parameters)) < 5_000
"""


SUITE = "evals: [{prompt: say hello, checks: [{match: '*hello*'}]}]"
REPORT = {"agent": "dora", "metrics": {"succeeded": True, "rating": 3}}


@pytest.fixture(scope="module")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with something of every kind."""
    with run_server(str(tmp_path_factory.mktemp("server") / "tally.db"), workers=1) as running:
        furnish(running)
        yield running


# The process


@contextmanager
def serving(folder: Path, *more: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`tally serve` as people start it, and where it listens."""
    process = subprocess.Popen(
        [Path(sys.executable).parent / "tally", "serve", "--port", "0", *more],
        cwd=folder,
        env={**os.environ, "TALLY_ADMIN_KEY": ADA, "TALLY_DB": "tally.db"},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    try:
        said = []
        for line in process.stderr:
            said.append(line)
            if found := re.search(r"at (http://\S+)", line):
                yield process, found[1]
                return
        raise AssertionError("".join(said))
    finally:
        process.kill()
        process.stderr.close()
        process.wait(30)


def ask(url: str, **body: Any) -> Any:
    request = urllib.request.Request(
        url,
        json.dumps(body).encode() if body else None,
        {"Authorization": f"Bearer {ADA}", "Content-Type": "application/json"},
    )
    return urllib.request.urlopen(request, timeout=60)


def test_it_ends_when_it_is_told_to_with_listeners_connected(tmp_path: Path) -> None:
    with serving(tmp_path) as (process, url):
        with ask(f"{url}/readyz") as ready:
            found = json.load(ready)
        assert found.pop("sandbox") in ("ok", "off")
        assert found == {"status": "ready", "database": "ok", "workers": "ok", "disk": "ok"}
        new = {"name": "speed", "scoring_formula": "rating"}
        with ask(f"{url}/api/v1/challenges", **new) as made:
            assert made.status == 201
        listeners = [ask(f"{url}/api/v1/challenges/speed/events") for _ in range(5)]
        assert all(each.headers["content-type"].startswith("text/event") for each in listeners)
        gone = listeners.pop()
        gone.close()
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        for each in listeners:
            each.read()  # it ends
            each.close()


def test_a_request_that_is_cut_off_leaves_nothing_behind(tmp_path: Path) -> None:
    with serving(tmp_path, "--workers", "0") as (process, url):
        host, port = url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=60) as half:
            half.sendall(
                b"POST /api/v1/challenges HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n"
                + f"Authorization: Bearer {ADA}\r\n".encode()
                + b'Content-Type: application/json\r\n\r\n{"name": "half", '
            )
        with ask(f"{url}/api/v1/challenges") as listed:
            assert json.load(listed)["items"] == []
        with ask(f"{url}/metrics") as metrics:
            assert b'status="500"' not in metrics.read()
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0


# The document


@pytest.mark.proof
@pytest.mark.parametrize("who", ["ada", "alice", "rita", "bob", "victor", "nobody"])
def test_the_document_tells_what_is_answered_whatever_is_asked(who: str, tmp_path: Path) -> None:
    """Schemathesis finds no 5xx, and no answer that the document does not allow."""
    (tmp_path / "tally_hooks.py").write_text(HOOKS)
    with run_server(str(tmp_path / "tally.db"), workers=1) as server:
        furnish(server)
        with listening(server) as url:
            key = server.keys.get(who)
            done = subprocess.run(
                [
                    *(Path(sys.executable).parent / "schemathesis", "run", f"{url}/openapi.json"),
                    *(("-H", f"Authorization: Bearer {key}") if key else ()),
                    *("--no-color", "--seed", "1", "--max-examples", "50"),
                    # Rules between fields are described in words, not by the schema.
                    *("--exclude-checks", "positive_data_acceptance", "--continue-on-failure"),
                    # Endless streams have their own tests.
                    *("--exclude-path-regex", "events$", "--request-timeout", "60"),
                    *("--suppress-health-check", "all", "--warnings", "off"),
                ],
                cwd=tmp_path,
                env={
                    **os.environ,
                    "SCHEMATHESIS_HOOKS": "tally_hooks",
                    "PYTHONPATH": str(tmp_path),
                },
                capture_output=True,
                text=True,
                check=False,
            )
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr


LIST = {"items", "next"}
FIXED: tuple[tuple[str, str, Any, int, set[str]], ...] = (
    ("ada", "GET /healthz", None, 200, {"status"}),
    ("ada", "GET /readyz", None, 200, {"status"}),
    ("ada", "GET /openapi.json", None, 200, {"openapi", "paths"}),
    ("rita", "POST /v1/traces", {"resourceSpans": []}, 200, set()),
    ("rita", "POST /api/v1/runs", {"run": {"suite": "s", "results": []}}, 422, {"detail"}),
    ("alice", "POST /api/v1/runs", {"suite": SUITE, "models": ["echo/me"]}, 202, {"run", "job"}),
    ("alice", "POST /api/runs", {"suite": SUITE, "models": ["echo/me"]}, 202, {"run", "job"}),
    ("victor", "GET /api/v1/runs", None, 200, LIST),
    ("victor", "GET /api/v1/runs/{run}", None, 200, {"run"}),
    ("victor", "GET /api/v1/runs/{run}/cases", None, 200, LIST),
    ("victor", "GET /api/v1/compare?run={run}&run={run}", None, 200, {"comparisons"}),
    ("alice", "POST /api/v1/runs/{run}/rescore", {"formula": "1"}, 201, {"before", "after"}),
    ("nobody", "GET /api/v1/challenges", None, 200, LIST),
    ("nobody", "GET /api/v1/challenges/speed", None, 200, {"challenge"}),
    (
        *("alice", "PATCH /api/v1/challenges/speed?validate_only=true"),
        *({"closed": True, "reason": "x"}, 200, {"challenge"}),
    ),
    ("bob", "POST /api/v1/challenges/sums/attempts", {"memoryless": True}, 201, {"attempt"}),
    (
        *("bob", "POST /api/v1/attempts/{open}/submission"),
        *({"answer": {"sum": 42}, "metadata": {}, "trajectory": None}, 200),
        {"attempt", "score", "score_breakdown", "submission_warnings", "harness_warning"},
    ),
    ("nobody", "GET /api/v1/attempts/{scored}", None, 200, {"attempt"}),
    ("bob", "POST /api/v1/attempts/{open}/withdraw", {}, 200, {"attempt"}),
    ("alice", "POST /api/v1/attempts/{scored}/void", {"reason": "x"}, 200, {"attempt"}),
    ("rita", "POST /api/v1/challenges/speed/reports", REPORT, 201, {"attempt", "score"}),
    ("nobody", "GET /api/v1/challenges/speed/leaderboard?limit=1", None, 200, LIST),
    ("nobody", "GET /api/v1/challenges/speed/leaderboard?around=bob", None, 200, LIST),
    ("bob", "POST /api/v1/challenges/speed/what-if", {"formula": "rating"}, 200, LIST - {"next"}),
    (
        *("bob", "POST /api/v1/challenges/sums/what-if"),
        *(
            {"weights": {"correctness": 0.5, "speed": 0.5}, "around": "bob"},
            200,
            {"items", "around"},
        ),
    ),
    (
        *("alice", "POST /api/v1/challenges/speed/rescore?preview=true", {"formula": "rating"}),
        *(200, {"rescoring"}),
    ),
    ("nobody", "GET /api/v1/ratings", None, 200, LIST),
    ("victor", "GET /api/v1/agents", None, 200, LIST),
    ("victor", "GET /api/v1/agents/bob", None, 200, {"agent"}),
    ("victor", "GET /api/v1/traces", None, 200, LIST),
    ("victor", "GET /api/v1/traces/{trace}", None, 200, {"trace"}),
    ("victor", "GET /api/v1/rules", None, 200, LIST),
    ("victor", "GET /api/v1/scores", None, 200, LIST),
    ("nobody", "POST /api/v1/formula/check", {"formula": "cost"}, 200, {"valid"}),
    ("nobody", "POST /api/v1/formula/explain", {"formula": "1 + 1"}, 200, {"score"}),
    ("alice", "GET /api/v1/keys", None, 200, LIST),
    ("alice", "GET /api/v1/invitations", None, 200, LIST),
    ("alice", "GET /api/v1/webhooks", None, 200, LIST),
    ("nobody", "GET /api/v1/limits", None, 200, {"rates"}),
    ("alice", "GET /api/v1/audit", None, 200, LIST),
    ("victor", "GET /api/v1/vars", None, 200, {"vars"}),
    ("alice", "GET /api/v1/secrets", None, 200, {"secrets"}),
    ("victor", "GET /api/v1/jobs/nothing", None, 404, {"code", "detail", "errors"}),
)
"""Caller, fixed path, body, status, and keys of the answer."""
FIXED_PAGES = (
    *("/", "/runs", "/runs/{run}", "/suites/greeting", "/compare?run={run}&run={other}"),
    *("/challenges", "/challenges/speed", "/attempts/{scored}", "/agents", "/agents/bob"),
    *("/ratings", "/traces", "/formula", "/organiser", "/docs"),
)


@pytest.mark.parametrize(("who", "asked", "body", "status", "keys"), FIXED)
def test_fixed_paths_answer_as_written(
    who: str, asked: str, body: Any, status: int, keys: set[str], furnished: Server
) -> None:
    method, path = asked.format(**find_names(furnished)).split()
    answered = furnished.ask(who, method, path, json=body)
    assert answered.status_code == status, answered.text
    assert answered.json().keys() >= keys


@pytest.mark.parametrize("path", FIXED_PAGES)
def test_fixed_pages_are_there(path: str, furnished: Server) -> None:
    client = furnished.client
    client.cookies.set(SESSION_COOKIE, furnished.service.accounts.sign_in(ADA).token or "")
    names = find_names(furnished)
    run = {"suite": "greeting", "model": "m", "results": [{"case": "a", "status": "passed"}]}
    other = furnished.v1("rita", "POST", "/runs", json={"run": run}).json()["run"]["id"]
    page = client.get(path.format(**names, other=other))
    client.cookies.clear()
    assert page.status_code == 200, page.text[-500:]


def test_places_on_boards_have_the_fixed_fields(furnished: Server) -> None:
    find_names(furnished)
    board = furnished.v1("nobody", "GET", "/challenges/speed/leaderboard").json()
    assert board["items"][0].keys() >= {"rank", "agent", "score", "value", "attempt"}


def test_the_document_has_examples_and_names_every_problem(furnished: Server) -> None:
    document = furnished.ask("nobody", "GET", "/openapi.json").json()
    told = json.dumps(document)
    for found in re.findall(r'"#/components/schemas/(\w+)"', told):
        assert found in document["components"]["schemas"]
    for path, operations in document["paths"].items():
        for operation in operations.values():
            assert operation.get("description"), path
            for status, answer in operation["responses"].items():
                # OTLP has errors of its own.
                if status >= "400" and "content" in answer and path != "/v1/traces":
                    assert "application/problem+json" in answer["content"]


# Mutated bodies

ODD: tuple[Any, ...] = (
    *(None, True, 0, -1, 2**63, 1e308, "", "x" * 300, "a\0b", "\u202e", [], {}, [[]], {"": {}}),
    *("1 +", "rating", "evals: [", ["echo/me"], "../../etc/passwd", "tly_" + "z" * 43),
)
BODIES = [row for row in ROUTES if row.body is not None]


def list_places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Path to a value inside a document."""
    yield path
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    for key, each in items:
        yield from list_places(each, (*path, key))


def mutate(body: Any, chance: random.Random) -> Any:
    """Drop, replace, nest, rename or repeat one value."""
    mutant = [copy.deepcopy(body)]
    *above, last = chance.choice(list(list_places(mutant))[1:])
    holder: Any = mutant
    for key in above:
        holder = holder[key]
    how = chance.choice(("drop", "replace", "replace", "nest", "rename", "swap"))
    if how == "drop" and above:
        del holder[last]
    elif how == "nest":
        for _ in range(chance.choice((1, 3, 200))):
            holder[last] = chance.choice(([holder[last]], {"value": holder[last]}))
    elif how == "rename" and isinstance(holder, dict):
        holder[chance.choice(("", "name", "x" * 300, f"{last} ", "\0"))] = holder.pop(last)
    elif how == "swap" and isinstance(holder, dict):
        holder[last] = holder[chance.choice(list(holder))]
    else:
        holder[last] = chance.choice(ODD)
    return mutant[0]


def find_names(server: Server) -> dict[str, str]:
    # A new agent: attempts of others may be void by now.
    newcomer = {"agent": f"agent-{uuid4().hex}", "metrics": {"succeeded": True, "rating": 9}}
    reported = server.v1("rita", "POST", "/challenges/speed/reports", json=newcomer).json()
    entered = server.v1("bob", "POST", "/challenges/sums/attempts", json={}).json()
    # The sweep may have said that traces are kept for a moment only.
    kept = {"keep_days": 90, "keep_mb": None}
    assert server.v1("alice", "PATCH", "/traces/settings", json=kept).status_code == 200
    send_spans(server)
    return {
        "run": server.v1("ada", "GET", "/runs").json()["items"][0]["id"],
        "scored": reported["attempt"]["id"],
        "trace": server.v1("ada", "GET", "/traces").json()["items"][0]["id"],
        "open": entered["attempt"]["id"],
        "key": "key_none",
    }


def send_mutants(server: Server, row: Row, count: int) -> None:
    names = find_names(server)
    chance = random.Random(f"{row.method} {row.path}")
    path = re.sub(r"\{(\w+)\}", lambda found: names[found[1]], row.path) + row.query
    for _ in range(count):
        body = mutate(row.body, chance)
        answered = server.v1(row.who[0], row.method, path, json=body)
        assert answered.status_code < 500, (body, answered.text)
        if answered.status_code >= 400:
            assert answered.headers["content-type"] == "application/problem+json"
            told = answered.json()
            assert told["errors"], body
            assert all(WORDS.search(each["message"]) for each in told["errors"]), told
            assert "Traceback" not in told["detail"], body


@pytest.mark.parametrize("row", BODIES, ids=[f"{row.method} {row.path}" for row in BODIES])
def test_mutated_bodies_are_refused_in_words(row: Row, furnished: Server) -> None:
    send_mutants(furnished, row, 5)


@pytest.mark.proof
@pytest.mark.parametrize("row", BODIES, ids=[f"{row.method} {row.path}" for row in BODIES])
def test_a_thousand_mutants_of_every_body_are_refused_in_words(row: Row, furnished: Server) -> None:
    send_mutants(furnished, row, 1000)
