"""One hostile client beside twenty honest ones: no honest request is lost, late or made a loss.

    python -m scripts.prove_flood [NAME ...]

There is an attack for each class of faults by which a client could stop a server. Each is played
twice: against the server as it is, and against one without the defence, where it must do harm.
A request waits for what it takes beyond the median of its kind before the attack began.
"""

from __future__ import annotations

import asyncio
import gzip
import itertools
import os
import re
import resource
import select
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import aiohttp
import msgspec
from scripts.large_store import load_attempts, name_agent, name_challenge
from scripts.server_process import ServerProcess, list_family, read_memory_mb

from tallymark import server
from tallymark.challenges.challenge_folder import pack
from tallymark.cli import main as run_tally
from tallymark.connections import ConnectionLimits
from tallymark.http.middleware import BoundedBody
from tallymark.sandbox.programs import bubblewrap_run
from tallymark.sandbox.programs.program_task import ProgramTask
from tallymark.scorers import schema_validator
from tallymark.service.fair_threads import TOTAL, FairTurns
from tallymark.service.resources import Resources
from tallymark.store import open_store
from tallymark.store.idempotency import IdempotentRequest
from tallymark.store.job_queue import JobQueue

WAIT_S = 0.3
MEMORY_MB = 1_000.0
RECOVERY_S = 10.0
QUIET_S, ATTACK_S, MOST_PHASE_S = 4.0, 8.0, 40.0
LEAST = 6
PAUSE_S = 0.4
_HONEST = (
    *(("page", "board") * 5),
    *(("submission",) * 4),
    *(("program", "report", "spans") * 2),
)
_KINDS = frozenset(_HONEST)
_HOSTILE = "127.0.2.1"
_GONE = (aiohttp.ClientError, OSError, TimeoutError)
_FIRST = f"/api/v1/challenges/{name_challenge(1)}"
_PAGES = (*("/", "/challenges", f"/challenges/{name_challenge(1)}") * 2, "/ratings")
_ATTEMPTS = "{total: 1000000}"
CHALLENGES = {
    "sums": {
        "challenge.yaml": f"""
name: sums
goal: Add up.
attempts: {_ATTEMPTS}
evaluator: {{type: deterministic, truth: truth.json, fields: {{sum: {{dimension: correctness}}}}}}
scoring: {{strategy: custom, dimensions: {{correctness: 0.8, speed: 0.2}}}}
""",
        "truth.json": '{"sum": 42}',
    },
    "patterns": {
        "challenge.yaml": f"""
name: patterns
goal: Fit.
attempts: {_ATTEMPTS}
submission: {{schema: {{patternProperties: {{'^(a+)+$': {{type: integer}}}}}}}}
evaluator: {{type: deterministic, truth: truth.json, fields: {{b: {{primitive: exact_match}}}}}}
""",
        "truth.json": '{"b": 1}',
    },
    "program": {
        "challenge.yaml": f"""
name: program
goal: Print.
attempts: {_ATTEMPTS}
submission: {{format: text}}
evaluator: {{type: tests, cases: cases.json, time: 20}}
""",
        "cases.json": '[{"name": "c", "args": ["1"], "stdout": "1"}]',
    },
}
_PROGRAM = "import sys\nprint(sys.argv[1])"


@dataclass(slots=True)
class Asked:
    """A request of an honest client."""

    kind: str
    began: float
    ended: float
    error: str | None


@dataclass(frozen=True)
class Attack:
    """What a hostile client does, and how the defence that it meets is switched off."""

    act: Callable[[Hostile], Awaitable[None]]
    without: Sequence[tuple[Any, str, Any]]
    """Attributes that are replaced."""
    descriptors: int = 8_192
    proxy: Mapping[str, str] = field(default_factory=dict)
    """All clients come through one proxy: the setting by which the server knows them."""


Keys: TypeAlias = "dict[str, str]"


def fill(db: str) -> Keys:
    """Challenges, a thousand rated agents, and a key for each client; limits are the usual ones."""
    keys = {}
    with open_store(db) as store, tempfile.TemporaryDirectory(prefix="tally-flood-") as folder:
        load_attempts(store, 10_000, 1_000, 10)
        tally = Resources.over(store)
        for name, files in CHALLENGES.items():
            Path(folder, name).mkdir()
            for file, text in files.items():
                Path(folder, name, file).write_text(text)
            tally.challenges.publish(pack(Path(folder, name)), force=True)
        for name in ("eve", *(f"honest-{number}" for number in range(len(_HONEST)))):
            made = tally.keys.add("flood", "agent", agent=name, owner=name)
            keys[name] = str(made.secret)
        keys["rita"] = str(tally.keys.add("flood", "reporter", owner="rita").secret)
    return keys


class Client:
    """Sends requests from an address of its own, or through a proxy that all share."""

    def __init__(self, url: str, address: str, key: str | None, *, proxied: bool) -> None:
        self._url = url
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        headers |= {"X-Forwarded-For": address} if proxied else {}
        source = "127.0.0.1" if proxied else address
        self.session = aiohttp.ClientSession(
            # A connection for each request: one that is kept may be closed as it is used again.
            connector=aiohttp.TCPConnector(limit=0, local_addr=(source, 0), force_close=True),
            timeout=aiohttp.ClientTimeout(total=60),
            headers=headers,
        )

    async def ask(self, method: str, path: str, **more: Any) -> tuple[int, bytes]:
        async with self.session.request(method, self._url + path, **more) as answer:
            return answer.status, await answer.read()

    async def enter(self, challenge: str, **headers: str) -> str:
        path = f"/api/v1/challenges/{challenge}/attempts"
        status, body = await self.ask("POST", path, json={}, headers=headers)
        _require(status == 201, status, body)
        return str(msgspec.json.decode(body)["attempt"]["id"])


class Honest:
    """Twenty clients that ask for one thing after another, and note how each went."""

    def __init__(self, url: str, keys: Keys, *, proxied: bool) -> None:
        self.asked: list[Asked] = []
        self._numbers, self._reports = itertools.count(), itertools.count()
        self._clients = []
        for number, kind in enumerate(_HONEST):
            reads = kind in ("page", "board")
            who = "rita" if kind in ("report", "spans") else f"honest-{number}"
            key = None if reads else keys[who]
            client = Client(url, f"127.0.1.{number + 1}", key, proxied=proxied)
            self._clients.append((kind, client))

    async def play(self, ended: asyncio.Event) -> None:
        await asyncio.gather(*(self._repeat(*each, ended) for each in self._clients))
        for _, each in self._clients:
            await each.session.close()

    async def wait(self, seconds: float) -> None:
        """Wait so long, and until each kind was asked a few times: the machine may be busy."""
        began = time.monotonic()
        while time.monotonic() - began < MOST_PHASE_S:
            done = Counter(each.kind for each in self.asked if each.began > began)
            if time.monotonic() - began > seconds and min(done[each] for each in _KINDS) >= LEAST:
                return
            await asyncio.sleep(0.1)

    async def _repeat(self, kind: str, client: Client, ended: asyncio.Event) -> None:
        act = getattr(self, f"_ask_{kind}")
        while not ended.is_set():
            began, error = time.monotonic(), None
            try:
                began = await act(client) or began
            except (AssertionError, *_GONE) as problem:
                error = f"{type(problem).__name__}: {problem}"
            self.asked.append(Asked(kind, began, time.monotonic(), error))
            await asyncio.sleep(PAUSE_S)

    async def _ask_page(self, client: Client) -> None:
        number = next(self._numbers)
        status, body = await client.ask("GET", _PAGES[number % len(_PAGES)])
        _require(status == 200, status, body)

    async def _ask_board(self, client: Client) -> None:
        status, body = await client.ask("GET", f"{_FIRST}/leaderboard")
        _require(status == 200, status, body)

    async def _ask_report(self, client: Client) -> None:
        headers = {"Idempotency-Key": f"nightly-{next(self._reports)}"}
        report = {"agent": "eve", "metrics": {"succeeded": True, "tokens_total": 7}}
        status, body = await client.ask("POST", f"{_FIRST}/reports", json=report, headers=headers)
        _require(status == 201, status, body)

    async def _ask_spans(self, client: Client) -> None:
        now = time.time_ns()
        spans = [
            {
                "traceId": os.urandom(16).hex(),
                "spanId": os.urandom(8).hex(),
                "name": "chat",
                "startTimeUnixNano": str(now),
                "endTimeUnixNano": str(now + 10**9),
            }
            for _ in range(20)
        ]
        body = {"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}
        status, told = await client.ask("POST", "/v1/traces", json=body)
        _require(status == 200 and b"rejected" not in told, status, told)

    async def _ask_submission(self, client: Client) -> float:
        return await self._submit(client, "sums", {"sum": 42})

    async def _ask_program(self, client: Client) -> float:
        return await self._submit(client, "program", _PROGRAM)

    async def _submit(self, client: Client, challenge: str, answer: Any) -> float:
        """The time of the submission alone is what is waited for."""
        attempt = await client.enter(challenge)
        began = time.monotonic()
        path = f"/api/v1/attempts/{attempt}/submission"
        status, body = await client.ask("POST", path, json={"answer": answer})
        _require(status == 200, status, body)
        told = msgspec.json.decode(body)["attempt"]
        _require(told["state"] == "scored" and told["result"] == "win", body)
        return began


class Hostile:
    """The attacker, in a process of its own: one address and the key of one agent."""

    def __init__(self, url: str, key: str, *, proxied: bool) -> None:
        self.url = url
        self.stranger = Client(url, _HOSTILE, None, proxied=proxied)
        self.agent = Client(url, _HOSTILE, key, proxied=proxied)

    async def repeat(self, count: int, act: Callable[[], Awaitable[Any]]) -> None:
        """Do it again and again on so many connections, however it is answered."""

        async def go_on() -> None:
            while True:
                try:
                    await act()
                except (AssertionError, *_GONE):
                    await asyncio.sleep(0.05)

        await asyncio.gather(*(go_on() for _ in range(count)))

    async def hold_connections(self, count: int, sent: bytes) -> None:
        """Hold so many connections that send this and no more."""
        host, port = self.url.removeprefix("http://").split(":")
        loop = asyncio.get_running_loop()

        async def hold() -> None:
            with socket.socket() as held:
                held.setblocking(False)
                held.bind((_HOSTILE, 0))
                await asyncio.wait_for(loop.sock_connect(held, (host, int(port))), 30)
                await loop.sock_sendall(held, sent)
                await loop.sock_recv(held, 1)

        await self.repeat(count, hold)


async def be_silent(hostile: Hostile) -> None:
    await hostile.hold_connections(1_500, b"")


async def send_half_headers(hostile: Hostile) -> None:
    await hostile.hold_connections(3_000, b"GET / HTTP/1.1\r\nHost: x\r\n")


async def send_many_values(hostile: Hostile) -> None:
    """Kilobytes of packed protobuf that are millions of empty messages."""
    packed = gzip.compress(b"\x0a\x00" * 4_000_000)
    headers = {"Content-Type": "application/x-protobuf", "Content-Encoding": "gzip"}
    ask = hostile.agent.ask
    await hostile.repeat(2, lambda: ask("POST", "/v1/traces", data=packed, headers=headers))


async def read_without_end(hostile: Hostile) -> None:
    paths = itertools.cycle(f"/api/v1/agents/{name_agent(number)}" for number in range(1_000))
    await hostile.repeat(60, lambda: hostile.agent.ask("GET", next(paths)))


async def send_dear_patterns(hostile: Hostile) -> None:
    """A name that a backtracking engine tries in 2^25 ways."""
    attempt = await hostile.agent.enter("patterns")
    path = f"/api/v1/attempts/{attempt}/check"
    body = {"answer": {"a" * 25 + "!": 1}}
    await hostile.repeat(4, lambda: hostile.agent.ask("POST", path, json=body))


async def ask_through_proxy(hostile: Hostile) -> None:
    await hostile.repeat(20, lambda: hostile.stranger.ask("GET", "/api/v1/challenges?limit=1"))


async def submit_without_end(hostile: Hostile, program: str) -> None:
    async def submit() -> None:
        attempt = await hostile.agent.enter("program")
        path = f"/api/v1/attempts/{attempt}/submission?wait=false"
        await hostile.agent.ask("POST", path, json={"answer": program})

    await hostile.repeat(1, submit)


async def take_workers(hostile: Hostile) -> None:
    await submit_without_end(hostile, "import time\ntime.sleep(19)")


async def take_memory(hostile: Hostile) -> None:
    await submit_without_end(hostile, "import time\nx = b'x' * 1_300_000_000\ntime.sleep(5)")


async def take_keys(hostile: Hostile) -> None:
    """Use the keys that a reporter is going to use, for the agent that it reports about."""
    numbers = itertools.count()

    async def enter() -> None:
        number = f"nightly-{next(numbers)}"
        await hostile.agent.enter("sums", **{"Idempotency-Key": number})

    await hostile.repeat(4, enter)


async def check_nothing(*_: Any) -> None:
    """Count no values."""


def can_select(descriptor: int, seconds: float) -> bool:
    return bool(select.select([descriptor], [], [], seconds)[0])


def search_backtracking(pattern: str, text: str) -> bool:
    return re.search(pattern, text) is not None


def make_no_limits(_: object) -> ConnectionLimits:
    return ConnectionLimits(header_s=1e9, per_address=10**9, total=10**9)


def take_one_turn(
    self: FairTurns, _: str, *, patient: bool = False, take: Any = FairTurns.take
) -> Any:
    """Take a turn in the one queue of all clients."""
    return take(self, "all", patient=patient)


def make_one_queue(
    self: FairTurns, total: int = TOTAL, *_: int, make: Any = FairTurns.__init__, **__: Any
) -> None:
    make(self, total, total, most_waiting=10**9, longest_wait_s=60.0)


def claim_all(
    self: JobQueue, kinds: Any, most: int, *_: Any, claim: Any = JobQueue.claim, **__: Any
) -> Any:
    """Claim without a share for others."""
    return claim(self, kinds, most)


ATTACKS = {
    "our fault is no loss": Attack(be_silent, [(bubblewrap_run, "_can_read", can_select)]),
    "values": Attack(
        send_many_values,
        [
            (BoundedBody, "_check_values", check_nothing),
            (BoundedBody, "narrow", lambda *_: None),
        ],
    ),
    "threads": Attack(
        read_without_end,
        [(FairTurns, "take", take_one_turn), (FairTurns, "__init__", make_one_queue)],
    ),
    "workers": Attack(take_workers, [(JobQueue, "claim", claim_all)]),
    "patterns": Attack(send_dear_patterns, [(schema_validator, "_search", search_backtracking)]),
    "connections": Attack(
        send_half_headers, [(server, "make_limits", make_no_limits)], descriptors=1_024
    ),
    "proxy": Attack(ask_through_proxy, [], proxy={"TALLY_PROXY_FROM": "127.0.0.1"}),
    "sandbox": Attack(take_memory, [(ProgramTask, "memory_bytes", property(lambda _: 2**33))]),
    "keys": Attack(
        take_keys, [(IdempotentRequest, "id", property(lambda x: (x.tenant, x.agent, x.key)))]
    ),
}
"""By the class of the fault. Other classes are no floods: what is visible, stored or documented."""


ByKind: TypeAlias = "dict[str, float]"


@dataclass
class Played:
    """How honest clients fared."""

    waited: ByKind
    """The 95th percentile."""
    waited_before: ByKind
    usual: ByKind
    """The median time of a request before the attack."""
    memory_mb: float
    recovered_s: float | None
    errors: list[str]

    def find_harm(self) -> list[str]:
        found = []
        if self.errors:
            found.append(f"{len(self.errors)} requests failed ({self.errors[0][:120]})")
        found += list_late(self.waited, self.waited_before, self.usual)
        if self.memory_mb > MEMORY_MB:
            found.append(f"{self.memory_mb:.0f} MB")
        if self.recovered_s is None:
            found.append("no recovery")
        return found

    def __str__(self) -> str:
        after = "not" if self.recovered_s is None else f"after {self.recovered_s:.0f} s"
        return (
            f"{_describe_worst(self.waited)} ({_describe_worst(self.waited_before)} before),"
            f" {self.memory_mb:.0f} MB, recovered {after}"
        )


def _describe_worst(waited: ByKind) -> str:
    worst = max(waited, key=lambda kind: waited[kind])
    return f"{worst} {waited[worst] * 1000:.0f} ms"


def list_late(waited: ByKind, before: ByKind, usual: ByKind) -> list[str]:
    """Kinds that wait too long. On a busy machine that is more than twice what they take."""
    return [
        f"{kind} waited {seconds * 1000:.0f} ms"
        for kind, seconds in waited.items()
        if seconds > max(WAIT_S, 2 * usual[kind]) + before[kind]
    ]


def find_waited(asked: list[Asked], usual: ByKind) -> ByKind:
    """The 95th percentile of what each kind of request took beyond its usual time."""
    waited = defaultdict(list)
    for each in asked:
        waited[each.kind].append(each.ended - each.began - usual[each.kind])
    return {kind: sorted(some)[int(0.95 * (len(some) - 1))] for kind, some in waited.items()}


async def play(name: str, served: ServerProcess, keys: Keys) -> Played:
    """A quiet time, the attack, and the time until everything is as it was."""
    honest = Honest(served.url, keys, proxied=bool(ATTACKS[name].proxy))
    ended = asyncio.Event()
    with watch_memory(served.process.pid) as memory:
        clients = asyncio.create_task(honest.play(ended))
        await honest.wait(QUIET_S)
        warm = len(honest.asked)
        await honest.wait(QUIET_S)
        with attacker(name, served.url, keys["eve"]):
            began = time.monotonic()
            await honest.wait(ATTACK_S)
        stopped = time.monotonic()
        before = [each for each in honest.asked[warm:] if each.ended < began]
        kinds = {each.kind for each in before}
        usual = {
            kind: statistics.median(each.ended - each.began for each in before if each.kind == kind)
            for kind in kinds
        }
        waited_before = find_waited(before, usual)
        recovered = None
        while recovered is None and time.monotonic() - stopped < RECOVERY_S:
            since = time.monotonic()
            await asyncio.sleep(1.5)
            recent = [each for each in honest.asked if each.began >= since]
            late = list_late(find_waited(recent, usual), waited_before, usual)
            if len(recent) >= len(_HONEST) and not late and not any(x.error for x in recent):
                recovered = since - stopped
        ended.set()
        await clients
    meanwhile = [each for each in honest.asked if each.ended > began and each.began < stopped]
    errors = [f"{each.kind}: {each.error}" for each in honest.asked if each.error is not None]
    waited = find_waited(meanwhile, usual)
    return Played(waited, waited_before, usual, max(memory), recovered, errors)


@contextmanager
def watch_memory(pid: int) -> Iterator[list[float]]:
    """Megabytes of a process and all that it started, five times a second."""
    found, ended = [0.0], threading.Event()

    def watch() -> None:
        while not ended.wait(0.2):
            found.append(sum(map(read_memory_mb, list_family(pid))))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield found
    finally:
        ended.set()
        thread.join()


@contextmanager
def attacker(name: str, url: str, key: str) -> Iterator[None]:
    """The hostile client, from when it has loaded until the end of the block."""
    command = [sys.executable, "-m", "scripts.prove_flood", "--attack", name, url, key]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield
        finally:
            process.kill()


async def attack(name: str, url: str, key: str) -> None:
    sys.stdout.write("begun\n")
    sys.stdout.flush()
    await ATTACKS[name].act(Hostile(url, key, proxied=bool(ATTACKS[name].proxy)))


def prove_flood(name: str, *, protected: bool) -> Played:
    """Play an attack on a server and a store of its own."""
    found = ATTACKS[name]
    command = [sys.executable, "-m", "scripts.prove_flood", "--serve", name]
    command += ["protected" if protected else "", "serve", "--port", "0"]
    with tempfile.TemporaryDirectory(prefix="tally-flood-") as folder:
        keys = fill(f"{folder}/tally.db")
        served = ServerProcess(
            [*command, "--db", f"{folder}/tally.db"], dict(found.proxy) if protected else {}
        )
        try:
            return asyncio.run(play(name, served, keys))
        finally:
            served.kill()


def serve(name: str, protected: str, words: list[str]) -> None:
    """Run `tally`, without a defence if that is wanted."""
    most = ATTACKS[name].descriptors
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 1_024), most))
    for owner, attribute, replacement in () if protected else ATTACKS[name].without:
        setattr(owner, attribute, replacement)
    sys.argv = ["tally", *words]
    run_tally()


def judge_flood(names: list[str] | None = None) -> tuple[bool, str]:
    """Whether all defences hold and are needed, and a table of what was found."""
    holds, table = (
        True,
        "| attack | p95 of waiting, memory | without the defence |\n|---|---|---|\n",
    )
    for name in names or ATTACKS:
        good, bad = (prove_flood(name, protected=protected) for protected in (True, False))
        harm, done = good.find_harm(), bad.find_harm()
        told = f"{good}" + (f"; DOES NOT HOLD: {'; '.join(harm)}" if harm else "")
        holds = holds and not harm and bool(done)
        table += f"| {name} | {told} | {'; '.join(done) or 'NO HARM'} |\n"
        sys.stdout.write(f"{name}: {told}\n  without: {bad}: {'; '.join(done) or 'NO HARM'}\n")
        sys.stdout.flush()
    return holds, table


def _require(holds: bool, *facts: Any) -> None:
    if not holds:
        raise AssertionError(*facts)


def main(words: list[str]) -> int:
    if words[:1] == ["--attack"]:
        with suppress(KeyboardInterrupt):
            asyncio.run(attack(*words[1:]))
        return 0
    if words[:1] == ["--serve"]:
        serve(words[1], words[2], words[3:])
        return 0
    return int(not judge_flood(words)[0])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
