"""Load on all interfaces while everything fails at random; then nothing may be lost or duplicated.

    python -m scripts.soak [--minutes 30] [--database sqlite|postgres] [--seed 1]

A server, two workers and the database run in processes of their own, on a small disk and by a clock
that jumps; between them and all who ask is a network that fails. Beside them a Ray cluster of two
nodes rescores by a plugin and scores traces. Storms come one after the other, drawn by the seed.
What was acknowledged is remembered, and counted when all is calm again: by `tally admin check`,
which must find no difference, and by whoever was told.
"""

from __future__ import annotations

import argparse
import hashlib
import http.client
import json
import logging
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
from bench.bench_boards import attempts as make_attempts
from scripts import load_clients, prove_rules
from scripts.clock_skew import ShiftedClock
from scripts.engine_samples import CHALLENGE, write_attempts, write_traces
from scripts.faulty_proxy import FaultyProxy
from scripts.load_clients import Crowd
from scripts.ray_cluster import RayCluster, open_cluster
from scripts.server_cluster import PATIENCE_S, House, open_crashing_postgres
from scripts.server_process import ADMIN_KEY, TALLY, set_up

from tallymark.client import Client
from tallymark.errors import TallymarkError, WorkFailed
from tallymark.service.accounts import AccountService
from tallymark.service.callers import SESSION_COOKIE
from tallymark.store import Store, open_store
from tallymark.store.contests.attempt_rows import attempt_key
from tallymark.store.quick_statements import QuickStatements

TREE = Path(__file__).parents[1]
TALLY_BY_CLOCK = (sys.executable, "-m", "scripts.clock_skew")
_BUSY = frozenset({409, 429, 502, 503, 504, 507})
"""What a server may answer while something of its own is down, or the same is under way."""
_LOST = (OSError, http.client.HTTPException)
_CALM_S = 240.0
_PACE_S = 0.05
"""Between two passes of a door: what is tried is not how much it bears."""
_NOON = 12 * 3600
_SHORT_MINUTES = 10.0
DATABASES = ("sqlite", "postgres")
PAGES = ("/", "/challenges", "/challenges/bench", "/challenges/sums", "/agents", "/ratings")
FORMULAS = ("1000 * succeeded - tokens_total / {n}", "tokens_total / {n} - elapsed_s")


@dataclass(frozen=True, slots=True)
class Size:
    """How long, and how much there is beforehand."""

    minutes: float = 30.0
    """On each database, so an hour in all."""
    attempts: int = 1_000_000
    """That are rescored again and again."""
    bulk: int = 10_000
    """Attempts that a plugin rescores on a cluster, and traces in a file."""
    disk_mb: int = 4_000
    pause_s: tuple[float, float] = (5.0, 20.0)
    """Between two storms."""


AT_LENGTH = Size()
SHORT = Size(minutes=3.0, attempts=20_000, bulk=3_000, disk_mb=700, pause_s=(3.0, 6.0))
_ROUNDS, _LOOKS = 10_000, 25
"""What the plugin does for an attempt, about a millisecond, and the scorer for a trace."""


class Receiver(ThreadingHTTPServer):
    """Whom webhooks tell; it refuses every fourth, so that they come again."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Delivery)
        self.taken: Counter[str] = Counter()
        self.told: list[dict[str, Any]] = []
        self.asked = 0
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_address[1]}/"


class _Delivery(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        server: Any = self.server
        server.asked += 1
        refused = server.asked % 4 == 0
        if not refused:
            server.taken[self.headers["webhook-id"]] += 1
            server.told.append(json.loads(body))
        self.send_response(503 if refused else 204)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@dataclass
class Soak:
    """One of them: what runs, what was acknowledged, what happened when."""

    size: Size
    dice: random.Random
    db: str
    house: House
    crowd: Crowd
    admin: Client
    """Who sees past the network that fails."""
    session: str
    """Of somebody who looks at pages."""
    judge: prove_rules.Judge
    receiver: Receiver
    clock: Path
    disk: Path | None
    """A small mount that can be filled; None where nobody may make one."""
    recover: Callable[[], None] | None
    """Starts the database again, if it has processes of its own."""
    cluster: RayCluster
    bulk: subprocess.Popen[str] | None = None
    """The command whose work the cluster does now."""
    rescored: int = 0
    """The last rescoring on the cluster that was acknowledged."""
    scored: Counter[str] = field(default_factory=Counter)
    """How often a file of traces came to the same scores."""
    began: float = field(default_factory=time.monotonic)
    ended: threading.Event = field(default_factory=threading.Event)
    diary: list[str] = field(default_factory=list)
    acknowledged: dict[str, str] = field(default_factory=dict)
    """Attempts by the key of their report."""
    done: Counter[str] = field(default_factory=Counter)
    statuses: Counter[int] = field(default_factory=Counter)
    shifts: list[float] = field(default_factory=list)
    raged: Counter[str] = field(default_factory=Counter)
    spans: list[str] = field(default_factory=list)
    """Those that were acknowledged."""
    checked: str = ""
    """What `tally admin check` said."""

    def note(self, what: str) -> None:
        """Writes down what happens now."""
        line = f"{time.monotonic() - self.began:7.1f} s  {what}"
        self.diary.append(line)
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        kind: str = "application/json",
        key: str | None = None,
        done: str | None = None,
    ) -> bytes:
        """What the server answers through the network that fails; OSError where it does not.

        A refusal that says `done` is an answer: it was done by a server that died before its own.
        """
        headers = {"Authorization": f"Bearer {ADMIN_KEY}", "Content-Type": kind}
        headers |= {} if key is None else {"Idempotency-Key": key}
        if not path.startswith("/api/"):
            headers = {"Cookie": f"{SESSION_COOKIE}={self.session}"}
        url = self.crowd.proxy.url + path
        request = urllib.request.Request(url, body, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                found: bytes = answer.read()
        except urllib.error.HTTPError as error:
            self.statuses[error.code] += 1
            if error.code not in _BUSY:
                said = error.read()[:300].decode("utf-8", "replace")
                if done is not None and done in said:
                    return b""
                self.crowd.wrong.append(f"{method} {path}: {error.code} {said}")
            raise
        self.statuses[200] += 1
        return found

    def insist(self, act: Callable[[], Any]) -> Any:
        """Until it gets through, or all is over: then an OSError."""
        while not self.ended.is_set():
            with suppress(*_LOST):
                return act()
            time.sleep(0.1)
        raise OSError("it is over")

    def shift_clock(self, seconds: float) -> None:
        """Sets the clock of all processes off by so much."""
        self.shifts.append(seconds)
        fresh = self.clock.with_suffix(".new")
        fresh.write_text(f"{seconds}", encoding="ascii")
        fresh.replace(self.clock)


# Doors: each is passed again and again by a thread of its own


def report(soak: Soak, number: int) -> None:
    """One attempt, until it is acknowledged; now and then again under the same key."""
    key, line = _make_report(number)
    path, body = "/api/v1/challenges/bench/reports", json.dumps(line).encode()
    for _ in range(2 if number % 5 == 0 else 1):
        told = json.loads(soak.insist(lambda: soak.ask("POST", path, body)))
        _acknowledge(soak, key, told["attempt"]["id"])


def report_many(soak: Soak, number: int) -> None:
    """Fifty lines of NDJSON, again and again until every one is acknowledged."""
    lines = [_make_report(1_000_000 + number * 50 + nth)[1] for nth in range(50)]
    body = b"\n".join(json.dumps(each).encode() for each in lines)
    path = "/api/v1/challenges/bench/reports"
    while True:
        said = soak.insist(lambda: soak.ask("POST", path, body, "application/x-ndjson"))
        told = json.loads(said)["items"]
        for line, each in zip(lines, told, strict=False):
            if each.get("attempt"):
                _acknowledge(soak, line["key"], each["attempt"])
        if len(told) == len(lines) and all(each.get("attempt") for each in told):
            return
        if soak.ended.wait(0.2):
            raise OSError("it is over")


def _make_report(number: int) -> tuple[str, dict[str, Any]]:
    key = f"soak-{number}"
    dice = random.Random(number)
    metrics = {
        "succeeded": dice.random() < 0.9,
        "tokens_total": dice.randrange(20_000),
        "elapsed_ms": dice.randrange(600_000),
    }
    return key, {"agent": f"agent-{dice.randrange(300):05}", "metrics": metrics, "key": key}


def _acknowledge(soak: Soak, key: str, attempt: str) -> None:
    known = soak.acknowledged.setdefault(key, attempt)
    if known != attempt:
        soak.crowd.wrong.append(f"one key, two attempts: {key}: {known}, {attempt}")


def look(soak: Soak, number: int) -> None:
    """A page, or a part of a board."""
    if number % 2:
        soak.ask("GET", PAGES[number // 2 % len(PAGES)])
    else:
        around = f"agent-{number % 300:05}"
        soak.ask("GET", f"/api/v1/challenges/bench/leaderboard?around={around}")


def suppose(soak: Soak, number: int) -> None:
    """What if the rule were another: the whole board, and nothing changes."""
    body = {"formula": FORMULAS[number % 2].format(n=1 + number % 40), "limit": 20}
    soak.ask("POST", "/api/v1/challenges/bench/what-if", json.dumps(body).encode())


def rescore(soak: Soak, number: int) -> None:
    """All attempts that were there beforehand by another rule."""
    body = json.dumps({"formula": FORMULAS[0].format(n=2 + number)}).encode()
    path, key = "/api/v1/challenges/large/rescore", f"rescore-{number}"
    soak.insist(lambda: soak.ask("POST", path, body, key=key, done="is scored so already"))
    soak.ended.wait(5.0)


def listen(soak: Soak, number: int) -> None:  # noqa: ARG001
    """Hears of what happens on a board, until the connection breaks."""
    url = f"{soak.crowd.proxy.url}/api/v1/challenges/bench/events"
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {ADMIN_KEY}"})
    with urllib.request.urlopen(request, timeout=20) as answer:
        for line in answer:
            if line.startswith(b"event: board"):
                soak.done["messages to listeners"] += 1
            if soak.ended.is_set():
                return


def keep_and_report(soak: Soak, number: int) -> None:
    """A run and a report by Python's client."""
    load_clients.keep_and_report(soak.crowd, number)
    soak.acknowledged[f"echo/{number}"] = "storm"


def run(soak: Soak, number: int) -> None:
    """`tally run --server`, and `tally leaderboard` by the same."""
    load_clients.run_by_command(soak.crowd, number)
    words = [TALLY, "leaderboard", "bench", "--server", soak.crowd.proxy.url]
    env = os.environ | {"TALLY_KEY": ADMIN_KEY}
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 3) or "Traceback" in done.stderr:
        soak.crowd.wrong.append(f"tally leaderboard: {done.returncode} {done.stderr[-300:]}")


def rescore_on_cluster(soak: Soak, number: int) -> None:
    """Attempts by a plugin that is told another number each time, on the nodes of a cluster."""
    words = ["rescore", CHALLENGE, "--plugin", "heavy.py:Heavy", "--config", f"more={number}"]
    _insist_on_cluster(soak, [*words, "--apply"])
    soak.rescored = number


def score_on_cluster(soak: Soak, number: int) -> None:
    """A file of traces by a scorer of one's own."""
    file = f"scored-{number}.jsonl"
    _insist_on_cluster(soak, ["score", "traces.jsonl", "-s", "scorers.py:polite", "-o", file, "-q"])
    path = soak.crowd.folder / file
    soak.scored[hashlib.sha256(path.read_bytes()).hexdigest()] += 1
    path.unlink()


def _insist_on_cluster(soak: Soak, words: list[str]) -> None:
    """Types a command until it is done; what was done before it died is not done again."""
    command = [*TALLY_BY_CLOCK, *words, "--db", soak.db]
    env = os.environ | {"PYTHONPATH": str(TREE), "NO_COLOR": "1"}
    pipe, folder = subprocess.PIPE, soak.crowd.folder
    while not soak.ended.is_set():
        soak.bulk = subprocess.Popen(
            [*command, "--engine", f"ray:{soak.cluster.address}"],
            cwd=folder,
            env=env,
            stdout=subprocess.DEVNULL,
            stderr=pipe,
            text=True,
        )
        _, said = soak.bulk.communicate()
        if soak.bulk.returncode == 0:
            return
        if soak.bulk.returncode != -signal.SIGKILL:
            soak.crowd.note(said.strip().splitlines()[-1] if said.strip() else "nothing")
            if soak.bulk.returncode != WorkFailed.exit_code or "Traceback" in said:
                told = f"tally {words[0]}: {soak.bulk.returncode} {said[-1000:]}"
                soak.crowd.wrong.append(told)
        soak.ended.wait(1.0)
    raise OSError("it is over")


def do_bulk_work(soak: Soak, number: int) -> None:
    """One after the other: a machine has no cores for both."""
    (rescore_on_cluster, score_on_cluster)[number % 2](soak, number)


def compete_by(door: str) -> Callable[[Soak, int], None]:
    """One of the ways of an attempt that is judged, by an agent that has no other."""

    def compete(soak: Soak, number: int) -> None:
        handle = f"{door}-{number}"
        if handle not in soak.crowd.agents:
            soak.ended.wait(1.0)
            raise OSError("there are no more agents")
        load_clients.DOORS[door](soak.crowd, handle)
        soak.done[f"won by {door}"] += 1
        soak.acknowledged[f"won {handle}"] = handle

    return compete


DOORS: dict[str, Callable[[Soak, int], None]] = {
    "reports": report,
    "reports in bulk": report_many,
    "pages and boards": look,
    "what-if": suppose,
    "rescorings": rescore,
    "work on a cluster": do_bulk_work,
    "listeners": listen,
    "client": keep_and_report,
    "commands": run,
    "compete by client": compete_by("client"),
    "compete by command": compete_by("command"),
    "compete by tools": compete_by("tools"),
}
_GIVEN_UP = (*_LOST, TallymarkError, RuntimeError, json.JSONDecodeError, ExceptionGroup)


def pass_again_and_again(soak: Soak, name: str) -> None:
    """Through one door until it is over. What cannot be had is a matter of the storm."""
    number = 0
    while not soak.ended.is_set():
        number += 1
        try:
            DOORS[name](soak, number)
            soak.done[name] += 1
            soak.ended.wait(_PACE_S)
        except _GIVEN_UP:
            soak.ended.wait(0.2)
        except Exception as error:  # noqa: BLE001 (a thread that ends would be silent)
            soak.crowd.wrong.append(f"{name}: {type(error).__name__}: {error}")


# Storms


@dataclass(frozen=True, slots=True)
class Storm:
    """Something that happens to all of it; it is over when `rage` returns."""

    name: str
    rage: Callable[[Soak], None]
    can: Callable[[Soak], bool] = lambda _: True


def _kill(*names: str) -> Callable[[Soak], None]:
    return lambda soak: soak.house.kill(names)


def _has_database(soak: Soak) -> bool:
    return soak.recover is not None


def jump(soak: Soak) -> None:
    """Up to ten minutes ahead, or a few back, and it stays so."""
    by = soak.dice.choice((600.0, 90.0, -45.0, -200.0))
    soak.shift_clock(soak.shifts[-1] + by)
    soak.note(f"  by {by:+.0f} s")


def spoil_network(soak: Soak) -> None:
    """Half of all requests are late, cut off, sent twice or refused."""
    soak.crowd.proxy.rage(soak.dice, 0.5)
    time.sleep(soak.dice.uniform(4.0, 10.0))
    soak.crowd.proxy.calm()


def stand_still(soak: Soak) -> None:
    """The server, as if its machine were asleep."""
    soak.house.server.pause()
    time.sleep(soak.dice.uniform(2.0, 6.0))
    soak.house.server.resume()


def fill_disk(soak: Soak) -> None:
    """To the last byte, for some seconds."""
    assert soak.disk is not None
    ballast = soak.disk / "ballast"
    with suppress(OSError), ballast.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(2**20))
    with suppress(OSError), ballast.open("ab", buffering=0) as file:
        while True:
            file.write(bytes(512))
    time.sleep(soak.dice.uniform(2.0, 6.0))
    ballast.unlink()
    if soak.recover is not None:
        soak.recover()  # it ends itself where it cannot write its log


def kill_node(soak: Soak) -> None:
    """One of two, with the blocks that it works on; then there is another."""
    _wait_for_block(soak)
    soak.cluster.kill_node()
    soak.cluster.add_node()


def kill_command(soak: Soak) -> None:
    """Whoever gives blocks to the cluster, and keeps what comes of them."""
    _wait_for_block(soak).kill()


def _wait_for_block(soak: Soak) -> subprocess.Popen[str]:
    """The command whose work is under way: a part of it is done, and a part is not."""
    deadline = time.monotonic() + PATIENCE_S
    with open_store(soak.db) as store:
        while time.monotonic() < deadline:
            with store._database.read() as connection:  # noqa: SLF001
                ((blocks,),) = QuickStatements(connection).read("SELECT COUNT(*) FROM work_blocks")
            if blocks and soak.bulk is not None and soak.bulk.poll() is None:
                return soak.bulk
            time.sleep(0.05)
    raise AssertionError(f"for {PATIENCE_S:.0f} s, the cluster has done nothing")


STORMS = (
    Storm("the server is killed", _kill("server")),
    Storm("a worker is killed", _kill("worker")),
    Storm("the database is killed", _kill("database"), _has_database),
    Storm("server and worker are killed", _kill("server", "worker")),
    Storm("all are killed", _kill("server", "worker", "database"), _has_database),
    Storm("the clock jumps", jump),
    Storm("the network fails", spoil_network),
    Storm("the server stands still", stand_still),
    Storm("the disk is full", fill_disk, lambda soak: soak.disk is not None),
    Storm("a node of the cluster is killed", kill_node),
    Storm("a command with work on the cluster is killed", kill_command),
)


def rage(soak: Soak) -> None:
    """Storms until the time is over: each that can be once, then by chance."""
    possible = [each for each in STORMS if each.can(soak)]
    ahead = soak.dice.sample(possible, len(possible))
    ends = soak.began + soak.size.minutes * 60
    edited = False
    while ahead or time.monotonic() < ends:
        time.sleep(soak.dice.uniform(*soak.size.pause_s))
        _wait_for_progress(soak)
        storm = ahead.pop() if ahead else soak.dice.choice(possible)
        soak.note(storm.name)
        storm.rage(soak)
        soak.raged[storm.name] += 1
        for each in soak.house.mend():
            soak.note(f"  the {each} had ended by itself, and was started again")
            soak.raged[f"the {each} ended by itself"] += 1
        if not edited and time.monotonic() - soak.began > soak.size.minutes * 30:
            edited = True
            prove_rules.edit_rule(soak.house.server.url)
            prove_rules.go_back(soak.house.server.url)
            soak.note("a rule is edited, and another begins with what is kept")


def _wait_for_progress(soak: Soak) -> None:
    """Something is acknowledged again: a house that stays down is not one that survives."""
    before, deadline = len(soak.acknowledged), time.monotonic() + 90
    while len(soak.acknowledged) == before:
        if time.monotonic() > deadline:
            raise AssertionError("for 90 s after a storm, nothing was acknowledged")
        time.sleep(0.1)


def _wait_for_bulk_work(soak: Soak) -> None:
    """What the cluster was given is done in the end, once at least."""
    deadline = time.monotonic() + PATIENCE_S
    while not (soak.rescored and soak.scored):
        if time.monotonic() > deadline:
            raise AssertionError(f"for {PATIENCE_S:.0f} s after all is calm, no bulk work was done")
        time.sleep(0.1)


# When all is calm again


def wait_until_calm(house: House, db: str) -> None:
    """Until nothing is left to be scored, told or worked on."""
    left = (
        "SELECT (SELECT COUNT(*) FROM attempts WHERE state = 'submitted'),"
        " (SELECT COUNT(*) FROM jobs WHERE state IN ('queued', 'running')),"
        " (SELECT COUNT(*) FROM webhook_deliveries WHERE state = 'waiting')"
    )
    with open_store(db) as store:
        prove_rules.wait_until_quiet(house, store)
        deadline, found = time.monotonic() + _CALM_S, None
        while time.monotonic() < deadline:
            with store._database.read() as connection:  # noqa: SLF001
                found = QuickStatements(connection).read(left)[0]
            if not any(found):
                return
            time.sleep(0.5)
    raise AssertionError(f"attempts, jobs and deliveries are left: {found}")


def _count_reports(soak: Soak, store: Store) -> Iterator[str]:
    with store._database.read() as connection:  # noqa: SLF001
        read = QuickStatements(connection).read
        rows = read(
            "SELECT a.key, a.agent, a.state, c.name FROM attempts a"
            " JOIN challenges c ON c.id = a.challenge_id WHERE c.name NOT IN ('large', ?)",
            CHALLENGE,
        )
        keys = {
            name: read("SELECT key, attempt FROM idempotency WHERE key LIKE ?", f"{start}-%")
            for name, start in (("bench", "soak"), ("speed", "report"))
        }
    states = {row[0]: row[2] for row in rows}
    reported = {key: made for key, made in soak.acknowledged.items() if key.startswith("soak-")}
    lost = [key for key, made in reported.items() if states.get(attempt_key(made)) != "scored"]
    if lost:
        yield f"acknowledged, and not there: {len(lost)}: {lost[:3]}"
    stored = dict(keys["bench"])
    other = [key for key, made in reported.items() if stored.get(key) != attempt_key(made)]
    if other:
        yield f"a key has another attempt than was told: {other[:3]}"
    for name, found in keys.items():
        there = {row[0] for row in rows if row[3] == name}
        if {attempt for _, attempt in found} != there or len(found) != len(there):
            yield f"{name}: {len(found)} keys of reports, and {len(there)} attempts"
    judged = Counter(row[1] for row in rows if row[3] == "sums" and row[2] == "scored")
    for handle in soak.crowd.agents:
        told = f"won {handle}" in soak.acknowledged
        if judged[handle] > 1 or (told and not judged[handle]):
            yield f"{handle}, which {'was' if told else 'was not'} told so, won {judged[handle]}"


def _count_runs(soak: Soak) -> Iterator[str]:
    told = {"storm": soak.acknowledged, "here": soak.crowd.kept_runs}
    for suite, kept in told.items():
        found = Counter(each.model for each in soak.admin.runs.list(suite=suite))
        wanted = [each for each in kept if each.startswith("echo/")]
        yield from (f"run {each} of {suite} is not there" for each in wanted if not found[each])
        yield from (
            f"run {each} of {suite} is there {n} times" for each, n in found.items() if n > 1
        )


def _count_deliveries(soak: Soak) -> Iterator[str]:
    """A message can come twice, never not at all; and nothing is told of twice."""
    deliveries = [
        each
        for hook in soak.admin.webhooks.list()
        for each in soak.admin.webhooks.deliveries(hook.id)
    ]
    for each in deliveries:
        if each.state != "delivered":
            yield f"delivery {each.id} is {each.state}: {each.error}"
        elif not soak.receiver.taken[each.id]:
            yield f"delivery {each.id} is said to be made, and nobody had it"
    told = Counter((each.event, each.body) for each in deliveries)
    yield from (
        f"{event} is told {n} times: {body[:80]}" for (event, body), n in told.items() if n > 1
    )


def _count_bulk_work(soak: Soak, store: Store) -> Iterator[str]:
    """All attempts are scored by the rule that was acknowledged last, or a later one."""
    rule = store.challenges.get(CHALLENGE).scoring
    if rule.config.get("more", 0) < soak.rescored:
        yield f"{CHALLENGE} was rescored {soak.rescored}, and has {rule.config}"
    by = (
        "SELECT s.scoring, COUNT(*) FROM attempt_scores s JOIN challenges c"
        f" ON c.id = s.challenge_id WHERE c.name = '{CHALLENGE}' GROUP BY s.scoring"
    )
    with store._database.read() as connection:  # noqa: SLF001
        found = QuickStatements(connection).read(by)
    if [count for _, count in found] != [soak.size.bulk]:
        yield f"attempts at {CHALLENGE} by their rescoring: {found}"
    if len(soak.scored) > 1:
        yield f"a file of traces has several scores: {soak.scored}"


# All of it


@contextmanager
def mount_disk(folder: Path, megabytes: int) -> Iterator[Path | None]:
    """A small disk, where we may make one."""
    if os.geteuid():
        yield None
        return
    disk = folder / "disk"
    disk.mkdir()
    how = ["-t", "tmpfs", "-o", f"size={megabytes}m", "tally"]
    subprocess.run(["mount", *how, str(disk)], check=True)
    try:
        yield disk
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


def find_port() -> int:
    """One that is free: the server keeps it however often it is started."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def prepare(db: str) -> str:
    """A challenge that takes reports, and a session of who looks at pages."""
    with open_store(db) as store:
        set_up(store)
        return AccountService(store).sign_in(ADMIN_KEY).token or ""


def load(db: str, admin: Client, count: int) -> None:
    """Attempts that are there beforehand, and rescored."""
    admin.challenges.add("large", scoring_formula="tokens_total")
    with open_store(db) as store:
        given = (msgspec.structs.replace(each, challenge="large") for each in make_attempts(count))
        store.attempts.load("large", given, at=0.0, rated=False)


def add_agents(crowd: Crowd, admin: Client, count: int) -> None:
    """Keys for so many agents a door, each for one attempt."""
    for door in load_clients.DOORS:
        for number in range(1, count + 1):
            handle = f"{door}-{number}"
            made = admin.keys.add(handle, "agent", agent=handle, owner=handle)
            assert made.secret is not None
            crowd.agents[handle] = made.secret


def open_soak(place: ExitStack, size: Size, database: str, seed: int) -> Soak:
    """A house on a small disk, by a clock of its own, with all that is asked for in it."""
    folder = Path(place.enter_context(tempfile.TemporaryDirectory(prefix="tally-soak-")))
    disk = place.enter_context(mount_disk(folder, size.disk_mb))
    recover: Callable[[], None] | None = None
    db = str((disk or folder) / "tally.db")
    if database == "postgres":
        where = None if disk is None else str(disk)
        db, recover = place.enter_context(open_crashing_postgres(where))
    clock = folder / "clock.txt"
    # It begins at noon: a day, on which caps of rules are counted, does not end meanwhile.
    first = _NOON - time.clock_gettime(time.CLOCK_REALTIME) % 86_400
    clock.write_text(f"{first}", encoding="ascii")
    os.environ["TALLY_CLOCK_FILE"] = str(clock)
    ShiftedClock(clock).install()
    session = prepare(db)
    house = House(db, recover, port=find_port(), tally=TALLY_BY_CLOCK)
    place.callback(house.close)
    proxy = place.enter_context(FaultyProxy(house.server.url))
    admin = place.enter_context(Client(house.server.url, ADMIN_KEY))
    load_clients.write_files(folder)
    load_clients.publish(admin, folder)
    crowd = Crowd(house.server.url, proxy, folder)
    load(db, admin, size.attempts)
    write_attempts(folder, db, size.bulk, _ROUNDS)
    write_traces(folder, size.bulk, _LOOKS)
    add_agents(crowd, admin, int(20 * size.minutes))
    judge, receiver = prove_rules.Judge(), Receiver()
    place.callback(judge.shutdown)
    place.callback(receiver.shutdown)
    prove_rules.make_rules(house.server.url, judge.address)
    admin.webhooks.add(receiver.url)
    dice = random.Random(seed)
    parts: dict[str, Any] = {
        "db": db,
        "session": session,
        "house": house,
        "crowd": crowd,
        "clock": clock,
        "disk": disk,
        "admin": admin,
        "cluster": place.enter_context(open_cluster(1, 1)),
    }
    soak = Soak(
        size, dice, **parts, recover=recover, judge=judge, receiver=receiver, shifts=[first]
    )
    place.callback(_end_bulk_work, soak)
    return soak


def _end_bulk_work(soak: Soak) -> None:
    if soak.bulk is not None:
        soak.bulk.kill()


def play(soak: Soak) -> Iterator[str]:
    """Load and storms, until all is calm again; what is wrong by then."""
    doors = [
        threading.Thread(target=pass_again_and_again, args=(soak, name), daemon=True)
        for name in DOORS
    ]
    sender = prove_rules.Sender(lambda: soak.crowd.proxy.url)
    try:
        for each in doors:
            each.start()
        rage(soak)
        soak.note("all is calm")
        soak.crowd.proxy.calm()
        soak.shift_clock(max(soak.shifts))
        _wait_for_progress(soak)
        _wait_for_bulk_work(soak)
    except (AssertionError, RuntimeError, OSError, TallymarkError) as error:
        yield f"{type(error).__name__}: {error}"
    finally:
        soak.ended.set()
        sender.stopped = True
        deadline = time.monotonic() + PATIENCE_S
        for thread in (*doors, sender.thread):
            thread.join(max(0.0, deadline - time.monotonic()))
        soak.spans = sender.sent
    waiting = [name for name, thread in zip(DOORS, doors, strict=True) if thread.is_alive()]
    if waiting:
        yield f"somebody still waits {PATIENCE_S:.0f} s after all is calm: {', '.join(waiting)}"


def look_back(soak: Soak) -> Iterator[str]:
    """What should not be so, now that all is calm."""
    try:
        wait_until_calm(soak.house, soak.db)
        yield from _count_runs(soak)
        yield from _count_deliveries(soak)
    except (AssertionError, RuntimeError, OSError, TallymarkError) as error:
        yield f"{type(error).__name__}: {error}"
    code = soak.house.server.stop()
    if code:
        yield f"asked to end, the server ended with {code}"
    soak.house.close()
    yield from soak.crowd.wrong
    for said in soak.house.words:
        if "Traceback" in said:
            yield f"somebody said: {said[max(0, said.index('Traceback') - 300) :][:3000]}"
    with open_store(soak.db) as store:
        yield from _count_reports(soak, store)
        yield from _count_bulk_work(soak, store)
        try:
            prove_rules.audit(store, soak.spans, soak.judge.asked)
        except AssertionError as error:
            yield f"rules: {error}"
    words = [TALLY, "admin", "check", "--plugins", "--db", soak.db]
    checked = subprocess.run(words, capture_output=True, text=True, check=False)
    soak.checked = " ".join((checked.stdout + checked.stderr).split())
    if checked.returncode:
        yield f"tally admin check: {soak.checked[:800]} ... {soak.checked[-300:]}"


def judge_soak(
    size: Size = SHORT, databases: Sequence[str] = DATABASES, seed: int = 1
) -> tuple[bool, str]:
    """On these databases; whether it holds, and what was found in Markdown."""
    body, held = f"{__doc__.partition('[')[0].splitlines()[0]}\n", True
    for database in databases:
        began = time.monotonic()
        with ExitStack() as place:
            soak = open_soak(place, size, database, seed)
            wrong = [*play(soak), *look_back(soak)]
            soak.note(f"{database} has ended: {'; '.join(wrong) or 'nothing is wrong'}")
        held = held and not wrong
        raged = ", ".join(f"{name} ({n})" for name, n in sorted(soak.raged.items()))
        soak.done["webhook messages"] = sum(soak.receiver.taken.values())
        soak.done["spans"] = len(soak.spans)
        done = ", ".join(f"{name} {n:,}" for name, n in sorted(soak.done.items()))
        body += (
            f"\n{database}, seed {seed}, {time.monotonic() - began:.0f} s, with"
            f" {size.attempts:,} attempts beforehand: {raged}. {len(soak.acknowledged):,}"
            f" acknowledged attempts are there, each once. Through doors: {done}. In the end"
            f" `tally admin check` says: {' '.join(soak.checked.split())[:600]}\n"
        )
        body += "".join(f"\n- {each}" for each in wrong) + ("\n" if wrong else "")
    return held, body


def main() -> int:
    """0 when it holds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=AT_LENGTH.minutes)
    parser.add_argument("--database", choices=DATABASES)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--attempts", type=int, help="that are there beforehand, and rescored")
    given = parser.parse_args()
    logging.disable()  # what clients say of broken connections
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # disks are unmounted all the same
    size = SHORT if given.minutes <= _SHORT_MINUTES else AT_LENGTH
    size = replace(size, minutes=given.minutes, attempts=given.attempts or size.attempts)
    databases = (given.database,) if given.database else DATABASES
    held, body = judge_soak(size, databases, given.seed)
    sys.stdout.write(f"\n{body}")
    return int(not held)


if __name__ == "__main__":
    sys.exit(main())
