"""One server process on loopback: its CPU for what is asked most, by 64 clients elsewhere.

Reported attempts are answered after their commit and counted afterwards. Beside them, in the same
run, a bare FastAPI route that inserts rows of one table in groups. Then boards and what-if at a
million attempts, reports in bulk, and a plugin in its sandbox. What PostgreSQL's own processes use
is not in it.

    python bench/bench_server.py [reports | boards | bulk | plugin]...

Exits 1 when a promise is broken.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
from bench import bench_sandbox
from bench.bench_boards import attempts as make_attempts
from scripts.report_load import AGENTS, make_reports
from scripts.server_process import (
    ADMIN_KEY,
    CHALLENGE,
    ServerProcess,
    open_postgres,
    read_family_cpu,
    serve,
    set_up,
)
from sqlalchemy import func, select

from tallymark.challenges.challenge import ScoringRule
from tallymark.challenges.challenge_folder import pack
from tallymark.sandbox import Sandbox
from tallymark.store import Store, open_store
from tallymark.store.contests.attempt_tables import attempt_scores, attempts
from tallymark.store.contests.contest_tables import boards

CLIENTS, EACH, ROUNDS = 64, 3_000, 5
MOST_OF_BARE = 2.5
PROMISES = {"SQLite": 0.8, "PostgreSQL": 1.2}
"""Milliseconds of the server's CPU for a reported attempt."""
BOARD_MS, UNCHANGED_MS, BULK_MS = 1.0, 0.3, 0.25
MILLION = int(os.environ.get("BENCH_ATTEMPTS", "1000000"))
WARM_MS, FIRST_MS = 60.0, 3000.0
MOST_OF_WARM = 1.5


def say(what: str, found: float, promise: float | None = None, unit: str = "ms") -> bool:
    """Prints a line; whether the promise is kept."""
    kept = promise is None or found <= promise
    words = "" if promise is None else f"at most {promise:g}"
    print(f"  {what:<46}{found:9.3f} {unit:<3} {words}{'' if kept else '   BROKEN'}", flush=True)
    return kept


# What is reported


def send_reports(url: str, seed: int, count: int = EACH) -> dict[str, str]:
    """Reports from another process; the attempts that were answered, by the keys of reports."""
    command = [sys.executable, "-m", "scripts.report_load", url, "--seed", str(seed)]
    command += ["--clients", str(CLIENTS), "--count", str(count)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    told = map(msgspec.json.decode, done.stdout.splitlines())
    return {each["key"]: each["attempt"] for each in told}


def measure(server: ServerProcess, work: Callable[[int], int]) -> float:
    """Milliseconds of the server's CPU for one of what is done, the median of some rounds."""
    work(0)  # what is loaded and remembered once
    found = []
    for number in range(1, ROUNDS + 1):
        before = server.cpu
        count = work(number)
        found.append((server.cpu - before) / count * 1000)
    return statistics.median(found)


def audit(store: Store, answered: set[str], sent: int) -> None:
    """Every attempt that was answered is there once, and nothing else is."""
    assert len(answered) == sent, (len(answered), sent)
    with store._database.read() as connection:  # noqa: SLF001
        stored = set(connection.scalars(select(attempts.c.key)))
        scored = connection.scalar(select(func.count()).select_from(attempt_scores))
        agents = connection.scalar(select(func.count()).select_from(boards))
        played = connection.scalar(select(func.count(attempts.c.agent.distinct())))
    assert (len(stored), scored) == (sent, sent), (len(stored), scored, sent)
    assert (agents or 0) <= (played or 0)


def measure_reports(db: str) -> float:
    """A server on an empty database."""
    with open_store(db) as store:
        set_up(store)
    answered: set[str] = set()
    with serve(db) as server:

        def work(number: int) -> int:
            answered.update(send_reports(server.url, number).values())
            return EACH

        found = measure(server, work)
    with open_store(db) as store:
        audit(store, answered, EACH * (ROUNDS + 1))
    return found


BARE = """
import asyncio, json, sqlite3, sys, time
from contextlib import asynccontextmanager
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

connection = sqlite3.connect(sys.argv[1], isolation_level=None, check_same_thread=False)
connection.execute("PRAGMA journal_mode = WAL")
connection.execute("PRAGMA synchronous = FULL")
connection.execute("CREATE TABLE plain (id INTEGER PRIMARY KEY, agent, metrics, at)")
waiting, arrived = [], asyncio.Event()

def insert(rows):
    connection.execute("BEGIN")
    connection.executemany("INSERT INTO plain (agent, metrics, at) VALUES (?, ?, ?)", rows)
    connection.execute("COMMIT")

async def write():
    while True:
        await arrived.wait()
        arrived.clear()
        batch, waiting[:] = waiting[:], []
        await asyncio.to_thread(insert, [row for row, _ in batch])
        for _, future in batch:
            future.set_result(None)

@asynccontextmanager
async def live(app):
    app.state.writer = asyncio.create_task(write())
    yield

class Report(BaseModel):
    agent: str
    metrics: dict[str, bool | int | float | None]
    key: str | None = None

app = FastAPI(lifespan=live)

@app.post("/api/v1/challenges/{name}/reports", status_code=201)
async def report(name: str, body: Report):
    future = asyncio.get_running_loop().create_future()
    waiting.append(((body.agent, json.dumps(body.metrics), time.time()), future))
    arrived.set()
    await future
    return {"attempt": {"id": body.key, "score": 0.0}}

server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning", access_log=False))
startup = server.startup

async def start(sockets=None):
    await startup(sockets=sockets)
    port = server.servers[0].sockets[0].getsockname()[1]
    print(f"served at http://127.0.0.1:{port}", file=sys.stderr, flush=True)

server.startup = start
server.run()
"""


def compare_with_bare(folder: Path) -> tuple[float, float]:
    """Ours on SQLite, and a FastAPI route that only inserts, in turns: the medians of both."""
    db = str(folder / "reports.db")
    with open_store(db) as store:
        set_up(store)
    bare = ServerProcess([sys.executable, "-c", BARE, str(folder / "bare.db")])
    answered: set[str] = set()
    found: dict[str, list[float]] = {}
    try:
        with serve(db) as ours:
            for number in range(ROUNDS + 1):
                for name, server in (("bare", bare), ("ours", ours)):
                    before = server.cpu
                    told = send_reports(server.url, number)
                    used = (server.cpu - before) / EACH * 1000
                    found.setdefault(name, []).append(used)
                    answered.update(told.values() if server is ours else ())
    finally:
        bare.kill()
    with open_store(db) as store:
        audit(store, answered, EACH * (ROUNDS + 1))
    # The first round is for what is loaded and remembered once.
    return statistics.median(found["ours"][1:]), statistics.median(found["bare"][1:])


def bench_reports(folder: Path) -> bool:
    """Single reports on both databases, against the bare route."""
    print(f"Reported attempts, {CLIENTS} clients: server CPU for one")
    lite, bare = compare_with_bare(folder)
    say("a bare FastAPI route with a grouped insert", bare)
    kept = say("SQLite", lite, PROMISES["SQLite"])
    kept &= say("SQLite / bare", lite / bare, MOST_OF_BARE, "")
    with open_postgres() as url:
        kept &= say("PostgreSQL", measure_reports(url), PROMISES["PostgreSQL"])
    return kept


# What is read


async def ask(
    url: str | Callable[[int], str], count: int, *, clients: int = CLIENTS, **request: Any
) -> int:
    """Asks so often; every answer must be of the status that is expected."""
    method, status = request.pop("method", "GET"), request.pop("status", 200)
    bodies, left = request.pop("bodies", None), iter(range(count))
    headers = {"Authorization": f"Bearer {ADMIN_KEY}"} | request.pop("headers", {})
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(headers=headers, connector=connector) as session:

        async def work() -> None:
            for number in left:
                body = None if bodies is None else bodies(number)
                address = url(number) if callable(url) else url
                async with session.request(method, address, data=body) as answer:
                    said = await answer.read()
                    assert answer.status == status, said

        async with asyncio.TaskGroup() as group:
            for _ in range(clients):
                group.create_task(work())
    return count


def find_etag(url: str) -> str:
    """Of a page as it is now."""

    async def main() -> str:
        headers = {"Authorization": f"Bearer {ADMIN_KEY}"}
        async with aiohttp.ClientSession(headers=headers) as session, session.get(url) as answer:
            assert answer.status == 200, await answer.read()
            return answer.headers["etag"]

    return asyncio.run(main())


def bench_boards(folder: Path) -> bool:
    """Boards and what-if, on SQLite."""
    db = os.environ.get("BENCH_MILLION") or load_million(folder)
    with serve(db) as server:
        base = f"{server.url}/api/v1/challenges/bench"
        print(f"What-if at {MILLION:,} attempts: server CPU for one")
        kept = bench_what_if(server, base)
        print(f"Boards at {MILLION:,} attempts, {CLIENTS} clients: server CPU for one")
        board = f"{base}/leaderboard"
        top = measure(server, lambda _: asyncio.run(ask(board, EACH)))
        kept &= say("the first 100", top, BOARD_MS)
        known = {"If-None-Match": find_etag(board)}
        unchanged = measure(
            server, lambda _: asyncio.run(ask(board, EACH, headers=known, status=304))
        )
        kept &= say("with the ETag", unchanged, UNCHANGED_MS)

        def ask_around(number: int) -> int:
            start = number * 1000
            place = lambda nth: f"{board}?around=agent-{start + nth:06}"  # noqa: E731
            return asyncio.run(ask(place, 500))

        around = measure(server, ask_around)
        kept &= say("around an agent, which nobody asked for before", around, BOARD_MS)
    return kept


def bench_what_if(server: ServerProcess, base: str) -> bool:
    """First the columns are read, then they are there."""
    url = f"{base}/what-if"

    def suppose(number: int) -> bytes:
        return b'{"formula": "1000 * succeeded - tokens_total / %d"}' % (50 + number)

    json = {"Content-Type": "application/json"}
    asked: dict[str, Any] = {"method": "POST", "headers": json, "bodies": suppose, "clients": 1}
    asyncio.run(ask(f"{base}/leaderboard?side=red", 1))  # FastAPI makes its routes ready
    before = server.cpu
    asyncio.run(ask(url, 1, **asked))
    kept = say("the first after a start", (server.cpu - before) * 1000, FIRST_MS)
    warm = measure(server, lambda _: asyncio.run(ask(url, 10, **asked)))
    return say("warm", warm, WARM_MS) and kept


def load_million(folder: Path) -> str:
    """A database with a million attempts by 100,000 agents."""
    db = str(folder / "million.db")
    with open_store(db) as store:
        set_up(store)
        given = itertools.islice(make_attempts(), MILLION)
        store.attempts.load("bench", given, at=0.0, rated=False)
    return db


# What is sent in bulk, and what others wrote


def bench_bulk(folder: Path) -> bool:
    """NDJSON, each line answered."""
    lines = 5_000
    print(f"Reports in bulk, {lines:,} lines: server CPU for one")
    db = str(folder / "bulk.db")
    with open_store(db) as store:
        set_up(store)
    with serve(db) as server:
        url = f"{server.url}/api/v1/challenges/bench/reports"

        def work(number: int) -> int:
            made = itertools.islice(make_reports(number, AGENTS), lines)
            body = b"\n".join(map(msgspec.json.encode, made))
            json = {"Content-Type": "application/x-ndjson"}
            asked: dict[str, Any] = {"headers": json, "bodies": lambda _: body, "clients": 1}
            asyncio.run(ask(url, 1, method="POST", **asked))
            return lines

        found = measure(server, work)
    with open_store(db) as store:
        keys = {f"{nth}-{line}" for nth in range(ROUNDS + 1) for line in range(lines)}
        audit(store, keys, lines * (ROUNDS + 1))
    return say("SQLite", found, BULK_MS)


def bench_plugin(folder: Path) -> bool:
    """Reports that a plugin in its sandbox scores: CPU with that of sandboxes, beside the call."""
    print(f"Reports scored by a sandboxed plugin, {CLIENTS} clients: CPU of all processes for one")
    root = folder / "plugin"
    root.mkdir()
    (root / "scorer.py").write_text(bench_sandbox.PLUGIN)
    code = bench_sandbox.code(root, "MyCustomScorer")
    rule = ScoringRule(plugin="scorer.py:MyCustomScorer", config=bench_sandbox.CONFIG)
    db = str(folder / "plugin.db")
    with open_store(db) as store:
        set_up(store, msgspec.structs.replace(CHALLENGE, scoring=rule), pack(root))

    def make_body(number: int) -> bytes:
        agent = f"agent-{number * 7919 % AGENTS:05}"
        return msgspec.json.encode({"agent": agent, "metrics": bench_sandbox.METRICS})

    json = {"Content-Type": "application/json"}
    asked: dict[str, Any] = {"headers": json, "bodies": make_body, "status": 201}
    calls: list[float] = []
    sent: list[float] = []
    with serve(db) as server, Sandbox() as sandbox:
        url = f"{server.url}/api/v1/challenges/bench/reports"

        def call(count: int) -> None:
            for _ in range(count):
                sandbox.score(code, bench_sandbox.METRICS, bench_sandbox.CONFIG, {})

        def report(count: int) -> None:
            asyncio.run(ask(url, count, method="POST", **asked))

        call(20)
        report(100)
        for _ in range(ROUNDS):
            before = read_family_cpu(server.process.pid)
            report(400)
            sent.append((read_family_cpu(server.process.pid) - before) / 400 * 1000)
            before = read_guests_cpu(server.process.pid)
            call(400)
            calls.append((read_guests_cpu(server.process.pid) - before) / 400 * 1000)
    warm, whole = statistics.median(calls), statistics.median(sent)
    say("a warm call alone", warm)
    say("the whole report", whole)
    return say("report / call", whole / warm, MOST_OF_WARM, "")


def read_guests_cpu(server: int) -> float:
    """CPU of this process and its sandboxes, without the server's."""
    return read_family_cpu(os.getpid()) - read_family_cpu(server)


BENCHES: dict[str, Callable[[Path], bool]] = {
    "reports": bench_reports,
    "boards": bench_boards,
    "bulk": bench_bulk,
    "plugin": bench_plugin,
}


def main(names: list[str]) -> int:
    """Prints what each takes; 1 when a promise is broken."""
    print(f"load of the machine before: {os.getloadavg()[0]:.1f}")
    kept = True
    with tempfile.TemporaryDirectory(prefix="tally-bench-") as folder:
        for name in names or BENCHES:
            kept &= BENCHES[name](Path(folder))
    return int(not kept)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
