"""A server that is killed, stopped and doubled loses nothing and does nothing twice.

    python -m scripts.prove_server [--short] [NAME ...]

Every attempt that was answered with 2xx must be there, scored once; and `tally admin check` must
find boards, ratings and all else to be what the attempts come to.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
from scripts.prove_live import LATEST_S, Trial, prove_server
from scripts.prove_rolling_upgrade import prove_rolling
from scripts.prove_shutdown import prove_stopping
from scripts.prove_tenant_isolation import prove_isolation
from scripts.server_process import (
    ADMIN_KEY,
    ServerProcess,
    open_postgres,
    require_as_logged,
    serve,
    set_up,
    start_server,
)
from sqlalchemy import Connection, func, select

from tallymark.challenges.attempt import Payload
from tallymark.service.app import App
from tallymark.service.jobs import JobService
from tallymark.store import open_store
from tallymark.store.contests.attempt_rows import attempt_key
from tallymark.store.contests.tables import attempt_scores, attempts, contest_audit, score_history
from tallymark.store.idempotency import attempt_requests
from tallymark.store.jobs import NewJob

END_S = 8.0
MOST_GROWTH_MB = 30.0
_MANY = 10_000_000


@dataclass(frozen=True, slots=True)
class Size:
    """How much of everything."""

    times: int = 10
    least: int = 300
    """Answers before something happens; at most four times as many."""
    reports: int = 4000
    listeners: int = 1000
    rate: int = 100
    seconds: float = 60.0


SHORT = Size(times=2, least=100, reports=600, listeners=200, rate=50, seconds=5.0)


class Load:
    """Clients in a process of their own, and what they were answered."""

    def __init__(self, *urls: str, seed: int, count: int = _MANY) -> None:
        command = [sys.executable, "-m", "scripts.report_load", *urls]
        command += ["--seed", str(seed), "--count", str(count), "--agents", "500"]
        self.answered: list[dict[str, Any]] = []
        self._more = threading.Condition()
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._more:
                self.answered.append(msgspec.json.decode(line))
                self._more.notify_all()

    def wait_for(self, count: int) -> None:
        """Returns when so many were answered; raises when the clients gave up before."""
        with self._more:
            enough = self._more.wait_for(
                lambda: len(self.answered) >= count or self.process.poll() is not None, 300
            )
        if not enough or len(self.answered) < count:
            raise RuntimeError(f"only {len(self.answered)} of {count} were answered")

    def finish(self) -> list[dict[str, Any]]:
        """All answers, when the clients have ended."""
        self._reader.join(300)
        assert self.process.stdout is not None
        self.process.stdout.close()
        if self.process.wait(30):
            raise RuntimeError("a client was refused")
        return self.answered


def audit(db: str, answered: list[dict[str, Any]]) -> int:
    """Raises where something is lost, doubled or counted wrong; how many attempts there are."""
    with open_store(db) as store:
        database = store._database  # noqa: SLF001
        with database.read() as connection:
            states = {
                row[0]: row[1]
                for row in connection.execute(select(attempts.c.key, attempts.c.state))
            }
            scored = _count(connection, attempt_scores.c.attempt)
            kept = _count(connection, score_history.c.attempt)
            logged = _count(connection, contest_audit.c.attempt, contest_audit.c.event == "scored")
            keys = connection.scalar(select(func.count()).select_from(attempt_requests))
        by_key = {each["key"]: attempt_key(each["attempt"]) for each in answered}
        for each in answered:
            _require(
                by_key[each["key"]] == attempt_key(each["attempt"]), "one key, two attempts", each
            )
        lost = [each for each in by_key.values() if states.get(each or 0) != "scored"]
        _require(not lost, "answered, and not there", lost[:3])
        _require(len(set(by_key.values())) == len(by_key), "two keys, one attempt")
        _require(keys == len(states), "reports and attempts differ", keys, len(states))
        for name, found in (("scores", scored), ("history", kept), ("log", logged)):
            twice = [key for key, count in found.items() if count != 1]
            _require(not twice, f"scored twice, by the {name}", twice[:3])
            _require(
                found.keys() == states.keys(), f"the {name} lack some", len(found), len(states)
            )
        require_as_logged(store, "scores", "boards", "ratings")
    return len(states)


def _count(connection: Connection, column: Any, *where: Any) -> Counter[int]:
    query = select(column, func.count()).where(column.is_not(None), *where).group_by(column)
    return Counter({row[0]: row[1] for row in connection.execute(query)})


def _require(holds: bool, what: str, *facts: Any) -> None:
    if not holds:
        raise AssertionError(f"{what}: {facts}")


# What is done to servers


def prove_kills(db: str, size: Size) -> str:
    """`kill -9` under load; the next server is sent the same again, and then more."""
    dice = random.Random(5)
    answered: list[dict[str, Any]] = []
    with open_store(db) as store:
        set_up(store)
    stored = 0
    for nth in range(size.times):
        server = start_server(db)
        load = Load(server.url, seed=nth // 2)
        try:
            load.wait_for(dice.randrange(size.least, 4 * size.least))
        finally:
            server.kill()
        answered += load.finish()
        stored = audit(db, answered)
    return f"killed {size.times} times, {len(answered):,} answers, {stored:,} attempts"


def prove_kills_sqlite(folder: Path, size: Size) -> str:
    """On SQLite."""
    return prove_kills(str(folder / "killed.db"), size)


def prove_kills_postgres(folder: Path, size: Size) -> str:  # noqa: ARG001
    """On PostgreSQL."""
    with open_postgres() as url:
        return prove_kills(url, size)


def prove_copies(folder: Path, size: Size) -> str:
    """The files of SQLite, copied while the process stands still in the middle of anything."""
    db = folder / "copied.db"
    with open_store(str(db)) as store:
        set_up(store)
    dice, sizes = random.Random(6), []
    with serve(str(db)) as server:
        load = Load(server.url, seed=1)
        for nth in range(size.times):
            load.wait_for(len(load.answered) + dice.randrange(size.least, 2 * size.least))
            server.pause()
            answered = list(load.answered)
            copy = folder / f"copy-{nth}" / "copied.db"
            copy.parent.mkdir()
            for end in ("", "-wal", "-shm"):
                if (source := Path(f"{db}{end}")).exists():
                    shutil.copyfile(source, f"{copy}{end}")
            server.resume()
            sizes.append(audit(str(copy), answered))
            shutil.rmtree(copy.parent)
        server.kill()
        load.finish()
    return f"{size.times} copies, of {sizes[0]:,} to {sizes[-1]:,} attempts"


def prove_two_servers(folder: Path, size: Size) -> str:  # noqa: ARG001
    """Two servers on one PostgreSQL; both are sent the same reports at the same time."""
    with open_postgres() as db:
        with open_store(db) as store:
            set_up(store)
        with serve(db) as one, serve(db) as other:
            loads = [
                Load(*urls, seed=1, count=size.reports)
                for urls in ((one.url, other.url), (other.url, one.url))
            ]
            answered = [each for load in loads for each in load.finish()]
        stored = audit(db, answered)
    _require(len(answered) == 2 * size.reports, "not all were answered", len(answered))
    _require(stored == size.reports, "not each report is one attempt", stored)
    return f"{len(answered):,} answers to {stored:,} reports, each one attempt"


SCRIPT_CHALLENGE = """
name: bench
title: Bench
goal: Wait.
time_limit: 1h
evaluator: {type: script, script: evaluate.py, time: 60}
"""
SLOW_SCRIPT = """
import time

def evaluate(submission, truth, data):
    time.sleep(submission["seconds"])
    return {"succeeded": True}
"""


def queue_script(app: App, folder: Path, seconds: float) -> str:
    """A job that scores an attempt by a script which takes so long."""
    folder.mkdir(exist_ok=True)
    (folder / "challenge.yaml").write_text(SCRIPT_CHALLENGE)
    (folder / "evaluate.py").write_text(SLOW_SCRIPT)
    games = app.competition()
    games.publish(folder)
    entry = games.enter("bench", "waiter")
    games.close()
    payload = Payload(submission={"seconds": seconds})
    store, attempt = app.store, entry.attempt
    store.attempts.submit(attempt.id, "waiter", payload, at=attempt.entered_at + 1)
    return store.jobs.add(NewJob(kind="score", subject=attempt.id, owner="waiter")).id


def _wait_until_running(app: App, job: str) -> None:
    deadline = time.monotonic() + 60
    while app.store.jobs.get(job).state != "running":
        _require(time.monotonic() < deadline, "the job never began", job)
        time.sleep(0.05)


def prove_worker(folder: Path, size: Size) -> str:  # noqa: ARG001
    """`tally worker`, killed while a script scores in its sandbox; the others kinds are tests."""
    db = str(folder / "worker.db")
    command = [str(Path(sys.executable).with_name("tally")), "worker", "--db", db]
    with closing(App(db)) as app:
        app.store.prepare()
        job = queue_script(app, folder / "slow", 4.0)
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as worker:
            _wait_until_running(app, job)
            time.sleep(1.5)  # in the middle of the script
            worker.kill()
        _require(app.store.jobs.get(job).state == "running", "it was not in the middle")
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as worker:
            done = asyncio.run(JobService(app.store).await_end(job, 150))
            worker.terminate()
        _require(done.state == "done", "nobody went on", done.state, done.error)
        attempt = app.store.attempts.get(done.subject)
        events = Counter(each.event for each in app.store.attempts.audit(attempt.id))
        require_as_logged(app.store, "attempts", "jobs")
    _require(attempt.state == "scored", "it is not scored", attempt.state)
    _require(events["scored"] == 1, "it was scored twice", events)
    words = [sys.executable, "-m", "pytest", "-q", "-m", "proof", "tests/service/test_workers.py"]
    tests = subprocess.run(words, capture_output=True, text=True, check=False)
    _require(tests.returncode == 0, "a worker's test fails", tests.stdout[-500:])
    return f"a script's job taken over once ({done.takeovers}); {tests.stdout.splitlines()[-1]}"


def prove_listeners(folder: Path, size: Size) -> str:
    """Everybody hears of everything, soon, and the server grows by nothing."""
    db = str(folder / "live.db")
    with open_store(db) as store:
        set_up(store)
    trial = Trial(size.listeners, size.rate, size.seconds)
    memory: list[tuple[float, float]] = []
    ended = threading.Event()
    with serve(db) as server:

        def watch() -> None:
            while not ended.wait(0.5):
                memory.append((time.monotonic(), server.memory_mb))

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            asyncio.run(prove_server(trial, server.url, ADMIN_KEY, "bench"))
        finally:
            ended.set()
            watcher.join()
    with open_store(db) as store:
        require_as_logged(store, "scores", "boards", "ratings")
    first = min(trial.reported.values())
    during = [held for at, held in memory if at >= first + size.seconds * 0.1]
    growth = during[-1] - during[0]
    _require(trial.latest <= LATEST_S, "somebody heard of it late", trial.latest)
    _require(growth <= MOST_GROWTH_MB, "the server grows", during[0], during[-1])
    each = trial.messages / size.listeners
    return (
        f"{size.listeners:,} listeners, {trial.count:,} attempts at {size.rate} a second, the last"
        f" heard after {trial.latest:.2f} s, in {each:.0f} messages each; the server held"
        f" {during[0]:.0f} MB a tenth into it and {during[-1]:.0f} MB at the end"
    )


def prove_end(folder: Path, size: Size) -> str:
    """SIGTERM with listeners and a job: it ends in time, and the job goes back to the queue."""
    db = str(folder / "end.db")
    with closing(App(db)) as app:
        app.store.prepare()
        set_up(app.store)
        job = queue_script(app, folder / "end", 50.0)
        server = start_server(db, workers=2)
        _wait_until_running(app, job)
        seconds = asyncio.run(listen_and_stop(server, size.listeners))
        code = server.process.returncode
        left = app.store.jobs.get(job)
        require_as_logged(app.store, "jobs")
    _require(code == 0, "it did not end well", code, server_said(server))
    _require(seconds <= END_S, "it took too long", seconds)
    _require(left.state == "queued", "the job was not handed back", left.state)
    return f"ended after {seconds:.1f} s with {size.listeners} listeners, its job {left.state}"


def prove_stopping_sqlite(folder: Path, size: Size) -> str:
    """SIGTERM under load of all kinds, on SQLite."""
    return prove_stopping(str(folder / "stopped.db"), folder / "waiting", size.times, size.least)


def prove_stopping_postgres(folder: Path, size: Size) -> str:
    """The same on PostgreSQL."""
    with open_postgres() as url:
        return prove_stopping(url, folder / "waiting", size.times, size.least)


def prove_tenants(folder: Path, size: Size) -> str:
    """Providers, receivers and judges of two tenants hang, and a third submits."""
    return prove_isolation(str(folder / "tenants.db"), folder / "waiting", size.times)


def prove_replacing(folder: Path, size: Size) -> str:  # noqa: ARG001
    """Two servers on one PostgreSQL, replaced in turn under load."""
    with open_postgres() as url:
        return prove_rolling(url, max(1, size.times // 3))


def server_said(server: ServerProcess) -> str:
    """The last words of a server."""
    return "" if server.last_words is None else server.last_words[-500:]


async def listen_and_stop(server: ServerProcess, listeners: int) -> float:
    """Asks a server to end while so many listen to it; how many seconds that took."""
    headers = {"Authorization": f"Bearer {ADMIN_KEY}"}
    limits: dict[str, Any] = {"connector": aiohttp.TCPConnector(limit=0)}
    limits["timeout"] = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(headers=headers, **limits) as session:
        url = f"{server.url}/api/v1/challenges/bench/events"
        streams = [await session.get(url) for _ in range(listeners)]
        for each in streams:
            await each.content.readuntil(b"event: ready")
        began = time.monotonic()
        await asyncio.to_thread(server.stop, 60.0)
        seconds = time.monotonic() - began
        for each in streams:
            each.close()
        return seconds


PROOFS: dict[str, Callable[[Path, Size], str]] = {
    "kill -9 on SQLite": prove_kills_sqlite,
    "kill -9 on PostgreSQL": prove_kills_postgres,
    "copies of a stopped server": prove_copies,
    "two servers, one PostgreSQL": prove_two_servers,
    "a killed worker": prove_worker,
    "listeners": prove_listeners,
    "tenants of whom everything hangs": prove_tenants,
    "rolling restart, two servers": prove_replacing,
    "SIGTERM": prove_end,
    "SIGTERM under load, SQLite": prove_stopping_sqlite,
    "SIGTERM under load, PostgreSQL": prove_stopping_postgres,
}


def judge_server(size: Size | None = None, names: list[str] | None = None) -> tuple[bool, str]:
    """Whether all of it holds, and a table of what was found."""
    return judge(PROOFS, size or Size(), names)


def judge(
    proofs: Mapping[str, Callable[[Path, Any], str]], size: Any, names: Collection[str] | None
) -> tuple[bool, str]:
    """The same of any proofs, or of those whose names hold one of these words."""
    holds, table = True, "| what | found | seconds |\n|---|---|---|\n"
    for name, prove in proofs.items():
        if names and not any(each in name for each in names):
            continue
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="tally-proof-") as folder:
            try:
                found = prove(Path(folder), size)
            except (AssertionError, RuntimeError, OSError, subprocess.SubprocessError) as error:
                holds, found = False, f"DOES NOT HOLD: {error}"
        table += f"| {name} | {found} | {time.monotonic() - began:.0f} |\n"
        sys.stdout.write(f"{name}: {found}\n")
        sys.stdout.flush()
    return holds, table


def main() -> int:
    """Tells what was found; 1 when something does not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="parts of the names of proofs; all without any")
    parser.add_argument("--short", action="store_true")
    given = parser.parse_args()
    holds, _ = judge_server(SHORT if given.short else Size(), given.names)
    return int(not holds)


if __name__ == "__main__":
    sys.exit(main())
