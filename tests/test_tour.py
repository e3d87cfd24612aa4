"""A tour of all pages and routes over a large store: no request reads all of a large table.

What a statement reads is counted by SQLite itself, in steps of its virtual machine, and its plan is
looked up as it was prepared: with values written out, a partial index would seem to be used.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from sqlite3 import Connection, Cursor
from typing import Any

import pytest
from scripts.large_store import NOW, load_attempts, load_traces, name_agent, name_challenge
from sqlalchemy import Engine, event
from starlette.routing import Mount, Route
from starlette.testclient import TestClient
from tests.http.conftest import ADA, Server, Unlimited, _make_keys, furnish

from tallymark.server import make_api, make_server
from tallymark.service.callers import SESSION_COOKIE
from tallymark.service.service import Service
from tallymark.service.settings import ServiceSettings
from tallymark.store import open_store
from tallymark.web.site import make_site

ATTEMPTS, AGENTS, CHALLENGES, TRACES = 25_000, 6_000, 200, 20_000
LARGE = 5_000
"""A table of so many rows is large."""
TICK = 1_000
MOST_STEPS = 100_000
"""To read 20,000 rows takes at least so many, and to sum them up six times."""
MOST_STATEMENTS = 100
"""Far less than one for each challenge."""
BOUNDED = {"/traces": 450_000, "/traces/compare": 600_000}
"""What sums up the newest 2,000 traces, and those of two days by each measure."""
LEFT_OUT = {
    "/api/v1/challenges/{name}/events",
    "/api/v1/runs/{run}/events",
    "/api/runs/{run}/events",
    "/{rest:path}",
}
"""Streams, which end when the client goes, and the page of what is not there."""
WHOLE = {"/api/v1/traces/sums", "/api/v1/traces/compare"}
"""Sums of all that fits, which are limited as work is."""
ABSENT = {
    "/api/v1/jobs/{job}",
    "/api/v1/rules/{name}/backfills/{number}",
    "/organiser/jobs/{job}",
}
"""Of which the store has none."""
ENTER = "/challenges/sums/attempts", {"agent": name_agent(7)}
WRITES: dict[str, Any] = {
    f"/challenges/{name_challenge(7)}/reports": {
        "agent": name_agent(7),
        "metrics": {"succeeded": True, "rating": 7},
    },
    f"/challenges/{name_challenge(7)}/what-if": {"formula": "rating"},
    "/runs": {
        "run": {
            "suite": "greeting",
            "model": "echo/you",
            "results": [{"case": "a", "status": "passed"}],
        }
    },
}
VERSUS = "submissions", "tallies"
"""Of red against blue, which no challenge here is."""
QUERIES = {
    "/api/compare": "?run={run}&run={other_run}",
    "/api/v1/compare": "?run={run}&run={other_run}",
    "/api/v1/export/{kind}": "?challenge={name}",
    "/api/v1/scores/case": "?run={run}&case=a",
    "/api/v1/traces/compare": "?first=status:ok&second=status:error&measure=cost",
    "/api/v1/traces/sums": "?by=model&measure=cost",
    "/api/v1/traces/worst": "?score=polite",
    "/compare": "?run={run}&run={other_run}",
}


@dataclass
class Heard:
    """Statements of one request, with what they were prepared as, and their steps."""

    statements: list[tuple[str, Any]] = field(default_factory=list)
    ticks: Counter[str] = field(default_factory=Counter)

    @property
    def steps(self) -> int:
        return sum(self.ticks.values()) * TICK

    def describe(self) -> str:
        often = Counter(text for text, _ in self.statements).most_common(3)
        long = [(count * TICK, text) for text, count in self.ticks.most_common(3)]
        return f"{len(self.statements)} statements, {self.steps} steps; {often}; {long}"


@contextmanager
def listen() -> Iterator[list[Heard]]:
    """Record what connections that are opened from here on are asked, into the last item."""
    heard = [Heard()]

    class HeardCursor(Cursor):
        def execute(self, text: str, values: Any = ()) -> HeardCursor:
            if re.match(r"\s*(SELECT|WITH|INSERT|UPDATE|DELETE)\b", text):
                heard[-1].statements.append((text, values))
            self.connection.asked = text  # type: ignore[attr-defined]
            return super().execute(text, values)

    class HeardConnection(Connection):
        asked = ""

        def __init__(self, *given: Any, **named: Any) -> None:
            super().__init__(*given, **named)
            self.set_progress_handler(self._tick, TICK)

        def _tick(self) -> int:
            heard[-1].ticks[self.asked] += 1
            return 0

        def cursor(self, factory: Any = HeardCursor) -> Any:
            return super().cursor(factory)

    def choose(_dialect: Any, _record: Any, _given: Any, named: dict[str, Any]) -> None:
        named["factory"] = HeardConnection

    event.listen(Engine, "do_connect", choose)
    try:
        yield heard
    finally:
        event.remove(Engine, "do_connect", choose)


@dataclass(frozen=True)
class Answer:
    """What an address asked when it was asked for a second time, with all caches filled."""

    status: int
    heard: Heard
    scans: list[str]


Tour = dict[tuple[str, str], Answer]
"""By address, and who looked at it."""


@pytest.fixture(scope="module")
def tour(tmp_path_factory: pytest.TempPathFactory) -> Tour:
    db = str(tmp_path_factory.mktemp("tour") / "tally.db")
    with open_store(db) as store:
        load_attempts(store, ATTEMPTS, AGENTS, CHALLENGES)
        load_traces(store, TRACES)
    with listen() as heard:
        service = Service(ServiceSettings(db=db, workers=0), clock=lambda: NOW)
        service.limits = Unlimited()
        with TestClient(make_server(service), base_url="http://tally.test") as client:
            server = Server(client, service, _make_keys(service))
            furnish(server)
            return play(server, heard)


def play(server: Server, heard: list[Heard]) -> Tour:
    """Ask for every address, as who runs the server and as a stranger."""
    engine = server.service.app.store._database.engine
    with engine.connect() as connection:
        large = find_large(connection)
    assert {"attempts", "boards", "traces", "trace_labels", "trace_scores"} <= large
    session = {SESSION_COOKIE: str(server.service.accounts.sign_in(ADA).token)}
    found: Tour = {}

    def note(path: str, who: str, ask: Callable[[], Any]) -> Any:
        heard.append(Heard())
        answered = ask()
        asked = heard[-1]
        heard.append(Heard())
        with engine.connect() as connection:
            scans = list_scans(connection, asked, large)
        found[path, who] = Answer(answered.status_code, asked, scans)
        return answered

    for _ in range(2):
        attempt = note("POST enter", "ada", lambda: post(server, *ENTER)).json()["attempt"]["id"]
        submission = f"/attempts/{attempt}/submission", {"answer": {"sum": 42}}
        note("POST submission", "ada", partial(post, server, *submission))
        for path, body in WRITES.items():
            note(f"POST {path}", "ada", partial(post, server, path, body))
    values = find_values(server)
    for path in list_addresses(server):
        query = QUERIES.get(path, "").format(**values)
        parts = values | find_names(path)
        address = re.sub(r":path(?=\})", "", path).format(**parts) + query
        for who in ("ada", "nobody"):
            server.client.cookies.clear()
            if who == "ada" and not path.startswith("/api"):
                server.client.cookies.update(session)
            server.ask(who, "GET", address)
            note(path, who, partial(server.ask, who, "GET", address))
    return found


def post(server: Server, path: str, body: Any) -> Any:
    answered = server.v1("ada", "POST", path, json=body)
    assert answered.status_code in (200, 201, 202), answered.text
    return answered


def list_addresses(server: Server) -> list[str]:
    """All routes of the API and of the pages that answer GET, from the tables that serve them."""
    (pages,) = (each for each in make_site(server.service) if isinstance(each, Mount))
    routes = [*make_api(server.service).routes, *pages.routes]
    paths = [
        each.path for each in routes if isinstance(each, Route) and "GET" in (each.methods or ())
    ]
    return [path for path in paths if path not in LEFT_OUT]


def find_values(server: Server) -> dict[str, str]:
    """Something that exists for each part of an address."""
    attempt = server.v1("ada", "GET", "/challenges/sums/attempts").json()["items"][0]["id"]
    post(
        server, "/tracks", {"name": "spring", "challenges": [name_challenge(1), name_challenge(2)]}
    )
    with server.service.app.store._database.engine.connect() as connection:
        newest = "SELECT trace_id FROM traces ORDER BY key DESC LIMIT 1"
        trace = str(connection.exec_driver_sql(newest).scalar())
    runs = server.v1("ada", "GET", "/runs").json()["items"]
    return {
        "agent": name_agent(7),
        "attempt": attempt,
        "case": "a",
        "challenge": name_challenge(7),
        "handle": name_agent(7),
        "job": "1",
        "kind": "attempts",
        "name": name_challenge(7),
        "number": "1",
        "other": name_agent(8),
        "page": "api",
        "rule": "sparing",
        "run": runs[0]["id"],
        "other_run": runs[1]["id"],
        "session": "s-7",
        "submission": "1",
        "suite": "greeting",
        "trace": trace,
        "trace_id": trace,
        "track": "spring",
        "webhook": "whk_a",
    }


def find_names(path: str) -> dict[str, str]:
    """What `{name}` is in addresses that are not of a challenge."""
    nouns = {"rules": "sparing", "sessions": "s-7", "tenants": "default", "tracks": "spring"}
    for noun, name in nouns.items():
        if f"/{noun}/{{name}}" in path:
            return {"name": name}
    return {}


def find_large(connection: Any) -> set[str]:
    names = connection.exec_driver_sql("SELECT name FROM sqlite_master WHERE type = 'table'")
    return {
        name
        for (name,) in names.all()
        if connection.exec_driver_sql(f"SELECT count(*) FROM {name}").scalar() >= LARGE
    }


def list_scans(connection: Any, heard: Heard, large: set[str]) -> list[str]:
    """Statements that go through a large table without an index.

    Not those that stop when they have enough rows, unless they must sort all of them first.
    """
    found = []
    for text, values in dict(heard.statements).items():
        rows = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}", tuple(values)).all()
        plan = [row[-1] for row in rows]
        if "LIMIT" in text and "USE TEMP B-TREE FOR ORDER BY" not in plan:
            continue
        for line in plan:
            scanned = re.fullmatch(r"SCAN (\w+)", line)
            if scanned and find_table(text, scanned[1]) in large:
                found.append(f"{line}: {text}")
    return found


def find_table(text: str, alias: str) -> str:
    named = re.search(rf"(?:FROM|JOIN|,)\s+(\w+)\s+(?:AS\s+)?{alias}\b", text)
    return named[1] if named else alias


def test_every_page_and_route_is_visited(tour: Tour) -> None:
    told = {
        path: answer.status
        for (path, who), answer in tour.items()
        if who == "ada"
        and not path.startswith("POST")
        and not path.endswith(VERSUS)
        and "{submission}" not in path
    }
    assert {path for path, status in told.items() if status != 200} == ABSENT


def test_no_page_or_route_scans_a_large_table(tour: Tour) -> None:
    scans = {at: answer.scans for at, answer in tour.items() if at[0] not in WHOLE}
    assert not {at: found for at, found in scans.items() if found}


def test_no_page_or_route_asks_many_statements(tour: Tour) -> None:
    over = [
        (*at, answer.heard.describe())
        for at, answer in tour.items()
        if len(answer.heard.statements) > MOST_STATEMENTS
    ]
    assert not over, "\n".join(map(str, over))


def test_no_page_or_route_reads_as_many_rows_as_a_large_table_has(tour: Tour) -> None:
    over = [
        (*at, answer.heard.describe())
        for at, answer in tour.items()
        if answer.heard.steps > BOUNDED.get(at[0], MOST_STEPS) and at[0] not in WHOLE
    ]
    assert not over, "\n".join(map(str, over))


def test_a_scan_and_its_steps_are_found(tmp_path: Path) -> None:
    with listen() as heard, open_store(str(tmp_path / "tally.db")) as store:
        load_traces(store, 1_000)
        heard.append(Heard())
        with store._database.read() as connection:
            connection.exec_driver_sql("SELECT sum(bytes) FROM traces t WHERE spans > ?", (1,))
            asked = heard[-1]
            assert list_scans(connection, asked, {"traces"})
            assert not list_scans(connection, asked, {"attempts"})
        assert asked.steps >= 3 * TICK
