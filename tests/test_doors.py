"""Every door shows the same record of the same thing to the same caller, or refuses it.

The doors are HTTP, the Python client, pages as JSON, MCP tools, and commands, here and there.
`RECORDS` says which doors show which record, and to whom. The others are compared with HTTP.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
from starlette.testclient import TestClient
from tests.golden.stage import shared_zygote
from tests.golden.zygote import Call
from tests.http.conftest import Server, Unlimited, listening
from tests.service.account_samples import make_key
from tests.web import page_samples
from tests.web.page_samples import JOB, NOW

from tallymark.challenges.attempt import Evaluation, Metrics, Outcome, Payload
from tallymark.client import Client
from tallymark.errors import TallymarkError
from tallymark.server import make_server
from tallymark.service.callers import SESSION_COOKIE
from tallymark.service.resources import Resources
from tallymark.service.service import Service
from tallymark.service.settings import ServiceSettings
from tallymark.store import Store

ROLES = {
    "nobody": None,
    "viewer": "viewer",
    "own": "agent",
    "rival": "agent",
    "organiser": "organiser",
}
AGENTS = {"own": "alice", "rival": "bob"}
EVERYBODY = frozenset(ROLES)
MEMBERS = EVERYBODY - {"nobody"}
TEAM = frozenset({"viewer", "organiser"})
OWN = frozenset({"own", "organiser"})
ORGANISER = frozenset({"organiser"})
OWNER = "owner"
"""The owner of a database, who runs a command on it."""
REFUSED = "refused"
LEFT_OUT = {("command", "viewer"), ("command", "rival")}
"""Each command is a process; it differs from the client only in what it prints."""


@dataclass(frozen=True, kw_only=True)
class Record:
    """A thing, and where each door shows it: an address and the keys that lead to the record."""

    seen_by: frozenset[str]
    http: str
    """`PATH KEY…` below /api/v1; the others alike."""
    call: Callable[[Resources], Any]
    page: str | None = None
    page_for: frozenset[str] = EVERYBODY
    """Roles that may open the page."""
    tool: str | None = None
    """`NAME {ARGUMENTS} KEY…`"""
    command: str | None = None
    """`COMMAND; KEY…`"""
    live: str = ""
    """Options of the command for what organisers see without asking elsewhere."""


def attempt(number: int, seen_by: frozenset[str] = EVERYBODY) -> Record:
    """An attempt, which six doors show."""
    name = f"a{number:012}"
    return Record(
        seen_by=seen_by,
        http=f"/attempts/{name} attempt",
        call=lambda tally: tally.attempts.get(name),
        page=f"/attempts/{name} attempt",
        tool=f'explain_score {{"attempt":"{name}"}} attempt',
        command=f"attempt show {name}",
        live="--live --organiser",
    )


def challenge(name: str, seen_by: frozenset[str] = EVERYBODY) -> Record:
    return Record(
        seen_by=seen_by,
        http=f"/challenges/{name} challenge",
        call=lambda tally: tally.challenges.get(name),
        page=f"/challenges/{name} challenge",
        tool=f'read_challenge {{"challenge":"{name}"}} challenge',
        command=f"challenge show {name}",
    )


def detailed_board(name: str, seen_by: frozenset[str] = EVERYBODY) -> Record:
    return Record(
        seen_by=seen_by,
        http=f"/challenges/{name}/leaderboard?limit=10&details=true",
        call=lambda tally: tally.boards.get(name, limit=10, details=True),
        page=f"/challenges/{name}?limit=10 board",
    )


def board(name: str, seen_by: frozenset[str] = EVERYBODY) -> Record:
    return Record(
        seen_by=seen_by,
        http=f"/challenges/{name}/leaderboard?limit=10",
        call=lambda tally: tally.boards.get(name, limit=10),
        tool=f'view_board {{"challenge":"{name}"}} board',
        command=f"leaderboard {name} --limit 10",
        live="--live",
    )


RECORDS: dict[str, Record] = {
    "challenge, open": challenge("maze"),
    "challenge, private": challenge("frugal", MEMBERS),
    "challenge, frozen": challenge("iced"),
    "challenge, closed": challenge("over"),
    "board, open": board("maze"),
    "board, private": board("frugal", MEMBERS),
    "board, frozen": board("iced"),
    "board, closed": board("over"),
    "board with details, open": detailed_board("maze"),
    "board with details, private": detailed_board("frugal", MEMBERS),
    "board with details, frozen": detailed_board("iced"),
    "attempt, scored": attempt(1),
    "attempt, at a private challenge": attempt(5, MEMBERS),
    "attempt, open": attempt(7, ORGANISER),
    "attempt, own and open": attempt(16, OWN),
    "attempt, own, after the freeze": attempt(11),
    "attempt, after the freeze": attempt(12),
    "attempt, waiting": attempt(13),
    "attempt, failed": attempt(14),
    "attempt, void": attempt(15),
    "attempts, own": Record(
        seen_by=EVERYBODY,
        http="/challenges/iced/attempts?agent=alice items",
        call=lambda tally: tally.attempts.list("iced", "alice").items,
        command="attempt list iced --agent alice; items",
        live="--live",
    ),
    "submission": Record(
        seen_by=OWN,
        http="/attempts/a000000000013/submission submission",
        call=lambda tally: tally.attempts.submission("a000000000013"),
        command="attempt submission a000000000013",
    ),
    "agent": Record(
        seen_by=MEMBERS,
        http="/agents/alice agent",
        call=lambda tally: tally.agents.get("alice"),
        page="/agents/alice agent",
    ),
    "agents": Record(
        seen_by=MEMBERS,
        http="/agents items",
        call=lambda tally: tally.agents.list().items,
        page="/agents agents",
        command="admin agents list; agents",
    ),
    "rating": Record(
        seen_by=MEMBERS,
        http="/ratings/alice rating",
        call=lambda tally: tally.ratings.get("alice"),
        page="/agents/alice rating",
    ),
    "attempts of an agent": Record(
        seen_by=EVERYBODY,
        http="/challenges/maze/attempts?agent=dave items",
        call=lambda tally: tally.attempts.list("maze", "dave").items,
        page="/agents/dave attempts",
        page_for=MEMBERS,
        command="attempt list maze --agent dave; items",
        live="--live",
    ),
    "attempt, for organisers": Record(
        seen_by=EVERYBODY,
        http="/attempts/a000000000013 attempt",
        call=lambda tally: tally.attempts.get("a000000000013"),
        page="/organiser/attempts/a000000000013 attempt",
        page_for=ORGANISER,
    ),
    "ratings": Record(
        seen_by=EVERYBODY,
        http="/ratings items",
        call=lambda tally: tally.ratings.list().items,
        page="/ratings agents",
        command="ratings; agents",
        live="--live",
    ),
    "difficulties": Record(
        seen_by=EVERYBODY,
        http="/difficulties items",
        call=lambda tally: tally.ratings.challenges().items,
        page="/ratings challenges",
        command="ratings; challenges",
        live="--live",
    ),
    "track": Record(
        seen_by=EVERYBODY,
        http="/tracks/spring/leaderboard?limit=10",
        call=lambda tally: tally.tracks.board("spring", limit=10),
        page="/tracks/spring?limit=10 board",
        command="leaderboard spring --limit 10",
        live="--live",
    ),
    "track, private": Record(
        seen_by=MEMBERS,
        http="/tracks/both/leaderboard?limit=10",
        call=lambda tally: tally.tracks.board("both", limit=10),
        page="/tracks/both?limit=10 board",
        command="leaderboard both --limit 10",
        live="--live",
    ),
    "side submission": Record(
        seen_by=OWN,
        http="/challenges/guard/submissions/1 submission",
        call=lambda tally: tally.versus.get("guard", 1),
        page="/challenges/guard/submissions/1 submission",
        command="versus submission guard 1",
    ),
    "run": Record(
        seen_by=TEAM,
        http="/runs/rntwo run",
        call=lambda tally: tally.runs.get("rntwo"),
        page="/runs/rntwo run",
        tool='read_run {"run":"rntwo"} run',
    ),
    "runs": Record(
        seen_by=TEAM,
        http="/runs?limit=20 items",
        call=lambda tally: tally.runs.list(limit=20).items,
        page="/runs?view=all runs",
        tool='list_runs {"limit":20} runs',
        command="runs; runs",
    ),
    "case": Record(
        seen_by=TEAM,
        http="/runs/rntwo/cases/case-1 case",
        call=lambda tally: tally.runs.get_case("rntwo", "case-1"),
        page="/runs/rntwo/cases/case-1 case",
        command="show rntwo --case case-1; results 0",
    ),
    "trace": Record(
        seen_by=TEAM,
        http=f"/traces/{1:032x} trace",
        call=lambda tally: tally.traces.get(f"{1:032x}"),
        page=f"/traces/{1:032x} trace",
        command=f"traces show {1:032x}; trace",
    ),
    "rule": Record(
        seen_by=TEAM,
        http="/rules/short rule",
        call=lambda tally: tally.rules.get("short"),
        page="/rules/short rule",
        command="rules show short",
    ),
    "rules": Record(
        seen_by=TEAM,
        http="/rules items",
        call=lambda tally: tally.rules.list().items,
        page="/rules rules",
        command="rules list",
    ),
    "job": Record(
        seen_by=ORGANISER,
        http=f"/jobs/{JOB} job",
        call=lambda tally: tally.jobs.get(JOB),
        page=f"/organiser/jobs/{JOB} line job",
    ),
    "audit": Record(
        seen_by=ORGANISER,
        http="/audit?challenge=over items",
        call=lambda tally: tally.audit.list(challenge="over").items,
        page="/organiser/audit?challenge=over entries",
        command="log --challenge over; entries",
    ),
}


@dataclass
class World:
    """A server and all who use it."""

    server: Server
    url: str
    db: Path
    sessions: dict[str, str]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    db = tmp_path_factory.mktemp("doors") / "tally.db"
    service = Service(ServiceSettings(db=str(db), workers=0), clock=lambda: NOW)
    service.limits = Unlimited()
    with TestClient(make_server(service), base_url="http://tally.test") as client:
        keys = {
            who: make_key(service, role, owner=who, agent=AGENTS.get(who))
            for who, role in ROLES.items()
            if role is not None
        }
        server = Server(client, service, keys)
        page_samples.fill_store(service.app.store)
        fill_more(service.app.store)
        sessions = {who: service.accounts.sign_in(key).token or "" for who, key in keys.items()}
        with listening(server) as url:
            yield World(server, url, db, sessions)


def fill_more(store: Store) -> None:
    """A frozen challenge, a closed one, and attempts in each state."""
    for name in ("iced", "over"):
        store.challenges.publish(
            page_samples.a_maze(name=name, title=name), page_samples.NO_FILES, at=NOW - 900
        )
    for agent, score in (("alice", 500.0), ("bob", 800.0)):  # a9, a10
        page_samples.play(store, "iced", agent, score, at=NOW - 800)
    store.challenges.freeze("iced", at=NOW - 700, reason="the end is near")
    for agent, score in (("alice", 900.0), ("bob", 950.0)):  # a11, a12
        page_samples.play(store, "iced", agent, score, at=NOW - 600)
    for number, agent in enumerate(("alice", "alice", "bob"), 13):
        entered = store.attempts.enter("over", agent, at=NOW - 400, seed=1)
        assert entered.id == f"a{number:012}"
        store.attempts.submit(entered.id, agent, Payload(submission="one"), at=NOW - 300)
    store.attempts.wait("a13", "no sandbox", "the truth is 41", at=NOW - 290)
    error = Outcome(score=None, error="it is no number", metrics=Metrics(succeeded=True))
    store.attempts.finish(
        "a14", Evaluation(metrics=error.metrics), error, at=NOW - 280, verified=False
    )
    won = Outcome(score=800.0, ranks=True, metrics=Metrics(succeeded=True))
    store.attempts.finish("a15", Evaluation(metrics=won.metrics), won, at=NOW - 270, verified=False)
    store.attempts.void("a15", at=NOW - 200, reason="a wrong report")
    store.attempts.enter("over", "alice", at=NOW - 150, seed=1)  # a16
    store.challenges.close("over", at=NOW - 100, reason="it is over")


def follow(document: Any, keys: list[str]) -> Any:
    for key in keys:
        document = document[int(key) if isinstance(document, list) else key]
    return document


def ask_http(world: World, who: str, record: Record) -> Any:
    path, *keys = record.http.split()
    answered = world.server.v1(who, "GET", path)
    return follow(answered.json(), keys) if answered.is_success else REFUSED


def ask_client(world: World, who: str, record: Record) -> Any:
    try:
        with Client(world.url, world.server.keys.get(who, "")) as client:
            return json.loads(msgspec.json.encode(record.call(client)))
    except TallymarkError:
        return REFUSED


def ask_page(world: World, who: str, record: Record) -> Any:
    path, *keys = str(record.page).split()
    client = world.server.client
    client.cookies.clear()
    if who in world.sessions:
        client.cookies.set(SESSION_COOKIE, world.sessions[who])
    live = "&live=1" if who == "organiser" else ""
    answered = client.get(f"{path}{'&' if '?' in path else '?'}format=json{live}")
    client.cookies.clear()
    return follow(answered.json(), keys) if answered.is_success else REFUSED


def ask_tool(world: World, who: str, record: Record) -> Any:
    name, arguments, *keys = str(record.tool).split()
    params = {"name": name, "arguments": json.loads(arguments)}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    accept = {"Accept": "application/json, text/event-stream"}
    result = world.server.ask(who, "POST", "/mcp", json=call, headers=accept).json()["result"]
    return REFUSED if result.get("isError") else follow(result["structuredContent"], keys)


def ask_command(world: World, who: str, record: Record) -> Any:
    """On the server, or for the owner of the database here."""
    line, _, keys = str(record.command).partition(";")
    env = {"PATH": "", "HOME": str(world.db.parent)}
    env |= {"TALLY_SERVER": world.url, "TALLY_KEY": world.server.keys.get(who, "")}
    if who == OWNER:
        env |= {"TALLY_SERVER": "", "TALLY_DB": str(world.db)}
    live = record.live if who in ("organiser", OWNER) else ""
    argv = ["tally", *shlex.split(f"{line} {live} --json")]
    done = shared_zygote()(Call(argv, str(world.db.parent), env, now=NOW))
    return follow(json.loads(done.out), keys.split()) if done.code == 0 else REFUSED


DOORS: Mapping[str, Callable[[World, str, Record], Any]] = {
    "call": ask_client,
    "page": ask_page,
    "tool": ask_tool,
    "command": ask_command,
}


@pytest.mark.parametrize("name", RECORDS)
def test_every_door_shows_the_same(name: str, world: World) -> None:
    record = RECORDS[name]
    for who in ROLES:
        shown = ask_http(world, who, record)
        assert (shown != REFUSED) == (who in record.seen_by), who
        for door, ask in DOORS.items():
            if getattr(record, door) is None or (door, who) in LEFT_OUT:
                continue
            is_shut = door == "page" and who not in record.page_for
            assert ask(world, who, record) == (REFUSED if is_shut else shown), (who, door)


@pytest.mark.parametrize("name", [name for name, each in RECORDS.items() if each.command])
def test_commands_show_the_owner_what_organisers_see(name: str, world: World) -> None:
    record = RECORDS[name]
    shown = ask_http(world, "organiser", record)
    assert ask_command(world, OWNER, record) == approximate(shown)


def approximate(value: Any) -> Any:
    """The fit of ratings may end at other last digits in another process."""
    if isinstance(value, dict):
        return {key: approximate(each) for key, each in value.items()}
    if isinstance(value, list):
        return [approximate(each) for each in value]
    return pytest.approx(value, rel=1e-6) if isinstance(value, float) else value
