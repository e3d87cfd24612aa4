"""One server process on loopback: its CPU for what is asked most, by 64 clients elsewhere.

Reported attempts are answered after their commit and counted afterwards, beside a bare Starlette
route that inserts rows of one table in groups. Then boards and what-if at a million attempts,
reports in bulk, and a plugin in its sandbox. What PostgreSQL's own processes use is not in it.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
from bench import bench_sandbox
from bench.bench_boards import attempts as make_attempts
from bench.measurement import OURS, Bench, MakeSides, Promise, Side, Sides
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
from tallymark.store.contests.tables import attempt_scores, attempts, boards

CLIENTS = 64
MILLION = 1_000_000
JSON = {"Content-Type": "application/json"}


# What is reported


def send_reports(url: str, seed: int, count: int) -> dict[str, str]:
    """Reports from another process; the attempts that were answered, by the keys of reports."""
    command = [sys.executable, "-m", "scripts.report_load", url, "--seed", str(seed)]
    command += ["--clients", str(CLIENTS), "--count", str(count)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    told = map(msgspec.json.decode, done.stdout.splitlines())
    return {each["key"]: each["attempt"] for each in told}


_numbers = itertools.count()


def meter(server: ServerProcess, count: int, work: Callable[[int], object]) -> Side:
    """The server's CPU for one of so many; the work is given another number each time."""

    def spend() -> float:
        before = server.cpu
        work(next(_numbers))
        return server.cpu - before

    spend()  # what is loaded and remembered once
    return Side(spend, count, told=True)


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


BARE = """
import asyncio, json, sqlite3, sys, time
from contextlib import asynccontextmanager
import uvicorn
import msgspec
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

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

class Report(msgspec.Struct):
    agent: str
    metrics: dict[str, bool | int | float | None]
    key: str | None = None

async def report(request):
    body = msgspec.json.decode(await request.body(), type=Report)
    future = asyncio.get_running_loop().create_future()
    waiting.append(((body.agent, json.dumps(body.metrics), time.time()), future))
    arrived.set()
    await future
    told = {"attempt": {"id": body.key, "score": 0.0}}
    return Response(msgspec.json.encode(told), 201, media_type="application/json")

route = Route("/api/v1/challenges/{name}/reports", report, methods=["POST"])
app = Starlette(routes=[route], lifespan=live)

server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning", access_log=False))
startup = server.startup

async def start(sockets=None):
    await startup(sockets=sockets)
    port = server.servers[0].sockets[0].getsockname()[1]
    print(f"served at http://127.0.0.1:{port}", file=sys.stderr, flush=True)

server.startup = start
server.run()
"""


@contextmanager
def reports_on_sqlite(size: int) -> Iterator[Sides]:
    """Ours beside a Starlette route that only inserts."""
    with tempfile.TemporaryDirectory(prefix="tally-bench-") as folder:
        bare = ServerProcess([sys.executable, "-c", BARE, f"{folder}/bare.db"])
        try:
            with reports_on(f"{folder}/reports.db", size) as sides:
                work = lambda number: send_reports(bare.url, number, size)  # noqa: E731
                yield {**sides, "a bare Starlette route": meter(bare, size, work)}
        finally:
            bare.kill()


@contextmanager
def reports_on_postgres(size: int) -> Iterator[Sides]:
    """The same there."""
    with open_postgres() as url, reports_on(url, size) as sides:
        yield sides


@contextmanager
def reports_on(db: str, size: int) -> Iterator[Sides]:
    """A server on an empty database; in the end every attempt that was answered must be there."""
    with open_store(db) as store:
        set_up(store)
    answered: set[str] = set()
    sent = []
    with serve(db) as server:

        def work(number: int) -> None:
            sent.append(size)
            answered.update(send_reports(server.url, number, size).values())

        yield {OURS: meter(server, size, work)}
    with open_store(db) as store:
        audit(store, answered, sum(sent))


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


_folder = tempfile.TemporaryDirectory(prefix="tally-bench-")


def load_million(folder: Path, count: int = MILLION) -> str:
    """A database with a million attempts by 100,000 agents."""
    db = str(folder / f"{count}.db")
    with open_store(db) as store:
        set_up(store)
        store.attempts.load("bench", make_attempts(count), at=0.0, rated=False)
    return db


@cache
def load_once(count: int) -> str:
    """The same, for whoever asks in this process."""
    return load_million(Path(_folder.name), count)


def board_pages(ask_board: Callable[[str, int, int], object], count: int) -> MakeSides:
    """A server with so many attempts, asked for boards."""

    @contextmanager
    def make(size: int) -> Iterator[Sides]:
        with serve(load_once(size)) as server:
            board = f"{server.url}/api/v1/challenges/bench/leaderboard"
            yield {OURS: meter(server, count, lambda number: ask_board(board, number, size))}

    return make


def ask_top(board: str, _: int, __: int) -> None:
    """The first 100."""
    asyncio.run(ask(board, 1_000))


def ask_unchanged(board: str, _: int, __: int) -> None:
    """By somebody who knows them."""
    known = {"If-None-Match": find_etag(board)}
    asyncio.run(ask(board, 1_000, headers=known, status=304))


def ask_around(board: str, number: int, size: int) -> None:
    """Each time of agents whom nobody asked for before."""
    first, agents = number * 500, size // 10
    asyncio.run(ask(lambda nth: f"{board}?around=agent-{(first + nth) % agents:06}", 500))


@contextmanager
def what_if(size: int) -> Iterator[Sides]:
    """A formula that nobody tried before, when the columns are there."""
    with serve(load_once(size)) as server:
        url = f"{server.url}/api/v1/challenges/bench/what-if"

        def suppose(number: int) -> object:
            formula = f"1000 * succeeded - tokens_total / {50 + number}"
            body = msgspec.json.encode({"formula": formula})
            asked: dict[str, Any] = {"method": "POST", "headers": JSON, "clients": 1}
            return asyncio.run(ask(url, 1, bodies=lambda _: body, **asked))

        def suppose_ten(number: int) -> None:
            for nth in range(10):
                suppose(10 * number + nth)

        yield {OURS: meter(server, 10, suppose_ten)}


# What is sent in bulk, and what others wrote


@contextmanager
def bulk(size: int) -> Iterator[Sides]:
    """NDJSON, each line answered."""
    with tempfile.TemporaryDirectory(prefix="tally-bench-") as folder:
        db = f"{folder}/bulk.db"
        with open_store(db) as store:
            set_up(store)
        keys: set[str] = set()
        with serve(db) as server:
            url = f"{server.url}/api/v1/challenges/bench/reports"

            def work(number: int) -> None:
                made = list(itertools.islice(make_reports(number, AGENTS), size))
                body = b"\n".join(map(msgspec.json.encode, made))
                keys.update(each["key"] for each in made)
                asked: dict[str, Any] = {"method": "POST", "clients": 1}
                kind = {"Content-Type": "application/x-ndjson"}
                asyncio.run(ask(url, 1, headers=kind, bodies=lambda _: body, **asked))

            yield {OURS: meter(server, size, work)}
        with open_store(db) as store:
            audit(store, keys, len(keys))


@contextmanager
def plugin(size: int) -> Iterator[Sides]:
    """Reports that a plugin in its sandbox scores: CPU with that of sandboxes, beside the call."""
    with tempfile.TemporaryDirectory(prefix="tally-bench-") as folder:
        root = Path(folder, "plugin")
        root.mkdir()
        (root / "scorer.py").write_text(bench_sandbox.PLUGIN)
        code = bench_sandbox.code(root, "MyCustomScorer")
        rule = ScoringRule(plugin="scorer.py:MyCustomScorer", config=bench_sandbox.CONFIG)
        db = f"{folder}/plugin.db"
        with open_store(db) as store:
            set_up(store, msgspec.structs.replace(CHALLENGE, scoring=rule), pack(root))
        with serve(db) as server, Sandbox() as sandbox:
            url = f"{server.url}/api/v1/challenges/bench/reports"

            def make_body(number: int) -> bytes:
                agent = f"agent-{number * 7919 % AGENTS:05}"
                return msgspec.json.encode({"agent": agent, "metrics": bench_sandbox.METRICS})

            def report() -> float:
                before = read_family_cpu(server.process.pid)
                asked: dict[str, Any] = {"method": "POST", "headers": JSON, "status": 201}
                asyncio.run(ask(url, size, bodies=make_body, **asked))
                return read_family_cpu(server.process.pid) - before

            def call() -> float:
                before = read_guests_cpu(server.process.pid)
                for _ in range(size):
                    sandbox.score(code, bench_sandbox.METRICS, bench_sandbox.CONFIG, {})
                return read_guests_cpu(server.process.pid) - before

            report()
            call()
            yield {
                OURS: Side(report, size, told=True),
                "a warm call of the sandbox": Side(call, size, told=True),
            }


def read_guests_cpu(server: int) -> float:
    """CPU of this process and its sandboxes, without the server's."""
    return read_family_cpu(os.getpid()) - read_family_cpu(server)


SIZES = (10_000, 100_000, 1_000_000)
BENCHES = (
    Bench(
        "reports, SQLite",
        f"A reported attempt of {CLIENTS} clients, answered after its commit: 2 ms of the "
        "server's CPU. Beside a bare Starlette route with a grouped insert.",
        reports_on_sqlite,
        (30, 300, 3_000),
        "reports",
        (Promise(2e-3),),
        each="report",
        rounds=5,
        seconds=15,
    ),
    Bench(
        "reports, PostgreSQL",
        "The same there: 2 ms of the server's CPU.",
        reports_on_postgres,
        (30, 300, 3_000),
        "reports",
        (Promise(2e-3),),
        each="report",
        rounds=5,
        seconds=15,
    ),
    Bench(
        "reports in bulk",
        "A line of a report in bulk, stored, scored and answered: 0.25 ms of the server's CPU.",
        bulk,
        (50, 500, 5_000),
        "lines",
        (Promise(0.25e-3),),
        each="line",
        rounds=5,
    ),
    Bench(
        "the first 100 of a board",
        f"For {CLIENTS} clients: 10 ms of the server's CPU.",
        board_pages(ask_top, 1_000),
        SIZES,
        "attempts",
        (Promise(10e-3),),
        each="answer",
        rounds=5,
    ),
    Bench(
        "a board that has not changed",
        "For a client that sends its ETag: 10 ms.",
        board_pages(ask_unchanged, 1_000),
        SIZES,
        "attempts",
        (Promise(10e-3),),
        each="answer",
        rounds=5,
    ),
    Bench(
        "a board around an agent",
        "Of agents that nobody asked for before: 10 ms.",
        board_pages(ask_around, 500),
        SIZES,
        "attempts",
        (Promise(10e-3),),
        each="answer",
        rounds=5,
    ),
    Bench(
        "what if",
        "The board by another formula, when the columns are in memory: 100 ms at a million.",
        what_if,
        SIZES,
        "attempts",
        (Promise(100e-3),),
        each="question",
        rounds=5,
    ),
    Bench(
        "reports that a plugin scores",
        "In its sandbox, CPU of all processes: at most one and a half warm calls.",
        plugin,
        (20, 200, 2_000),  # CPU is told in hundredths of a second
        "reports",
        (Promise(1.5, "a warm call of the sandbox"),),
        each="report",
        rounds=5,
    ),
)
