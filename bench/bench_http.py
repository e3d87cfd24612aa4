"""Models over HTTP against a server that takes 50 ms or 20, on many connections.

At 50 ms, a connection could give 20 answers a second. The server runs in a process of its own and
does as little as it can.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import aiohttp
from bench.measurement import OURS, Bench, MakeSides, Promise, Side, Sides

from tallymark.models import Message, Model, Pace, Request, answer_with_retries, open_model
from tallymark.service.app import App
from tallymark.service.suite_runs import RunOptions
from tallymark.suites.suite_file import load_suite

LATENCY = 0.05
SHORT_LATENCY = 0.02
CONNECTIONS = 100
PROVIDER = "openai-chat/gpt-5-mini"
FEW = 100

BODY = (
    b'{"id":"1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,'
    b'"message":{"role":"assistant","content":"four"},"finish_reason":"stop"}],'
    b'"usage":{"prompt_tokens":9,"completion_tokens":1,"total_tokens":10}}'
)
RESPONSE = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (
    len(BODY),
    BODY,
)


class Server(asyncio.Protocol):
    """Answers every request with the same completion, so long after its last byte."""

    def __init__(self, latency: float) -> None:
        self._latency = latency

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._read = b""

    def data_received(self, data: bytes) -> None:
        self._read += data
        head, end, body = self._read.partition(b"\r\n\r\n")
        if not end:
            return
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
        if len(body) >= length:
            self._read = b""
            asyncio.get_running_loop().call_later(self._latency, self._transport.write, RESPONSE)


async def serve(latency: float) -> None:
    server = await asyncio.get_running_loop().create_server(
        lambda: Server(latency), "127.0.0.1", 0, backlog=1024
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)  # until the bench ends


@contextmanager
def serving(latency: float = LATENCY) -> Iterator[str]:
    command = [sys.executable, "-m", "bench.bench_http", str(latency)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        address = f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
        os.environ |= {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": address}
        yield address


async def ask_all(model: Model, requests: int, connections: int = CONNECTIONS) -> None:
    pace, numbers = Pace(connections, start=connections), iter(range(requests))

    async def work() -> None:
        for number in numbers:
            asked = Request(messages=(Message("user", f"What is {number} + 2?"),))
            await answer_with_retries(model, asked, pace, timeout=60)

    await asyncio.gather(*(work() for _ in range(connections)))


async def ask_and_wait(model: Model, connections: int) -> float:
    """Seconds on the wall of 20 answers of each connection, which are all open before."""
    await ask_all(model, connections, connections)
    began = time.perf_counter()
    await ask_all(model, 20 * connections, connections)
    took = time.perf_counter() - began
    await model.close()
    return took


async def loop_plainly(address: str, requests: int) -> None:
    """What anybody would write who only wants the answers."""
    numbers = iter(range(requests))

    async def work(session: aiohttp.ClientSession) -> None:
        for number in numbers:
            message = {"role": "user", "content": f"What is {number} + 2?"}
            body = {"model": "m", "messages": [message]}
            async with session.post(f"{address}/chat/completions", json=body) as response:
                said = await response.json()
            assert "four" in said["choices"][0]["message"]["content"]

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        await asyncio.gather(*(work(session) for _ in range(CONNECTIONS)))


class Silent:
    def started(self, record: object, tally: object, formula: object) -> None: ...
    def moved(self, result: object, tally: object) -> None: ...
    def ended(self, record: object) -> None: ...


def run_suite(address: str, cases: int) -> None:
    """A run as `tally run` makes it: every answer checked, counted and stored."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "rows.csv").write_text("n\n" + "\n".join(map(str, range(cases))) + "\n")
        (folder / "suite.yaml").write_text(
            f"metadata: {{name: bench, model: '{address}#m', threads: {CONNECTIONS}}}\n"
            "evals:\n  - name: row\n    prompt: \"What is {{var('n')}} + 2?\"\n"
            "    cases_from: rows.csv\n    checks: [{match: '*four*'}]\n"
        )
        definition, app = load_suite(folder / "suite.yaml"), App(str(folder / "tally.db"))
        (run,) = app.runs.run(definition, [], RunOptions(), Silent())
        assert run.counts["passed"] == cases


async def ask_once(model: Model, requests: int) -> None:
    await ask_all(model, requests)
    await model.close()


async def book_latency(model: Model, requests: int) -> float:
    """The mean latency that answers say, at the pace that runs have."""
    pace, numbers, booked = Pace(CONNECTIONS), iter(range(requests)), list[float]()

    async def work() -> None:
        for number in numbers:
            asked = Request(messages=(Message("user", f"What is {number} + 2?"),))
            answer, _ = await answer_with_retries(model, asked, pace, timeout=60)
            booked.append(answer.latency or 0.0)

    await asyncio.gather(*(work() for _ in range(CONNECTIONS)))
    await model.close()
    return sum(booked) / len(booked)


INSPECT = """
import sys, tempfile, time
from inspect_ai import Task, eval
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import GenerateConfig, get_model
from inspect_ai.scorer import includes
count = int(sys.argv[1])
config = GenerateConfig(max_connections=100)
model = get_model("openai/gpt-5-mini", responses_api=False, config=config)
async def count_text_tokens(text): return len(text)
model.api.count_text_tokens = count_text_tokens
samples = [Sample(input=f"What is {n} + 2?", target="four") for n in range(count)]
task = Task(dataset=MemoryDataset(samples), scorer=includes())
before = time.process_time()
logs = eval(task, model=model, display="none", log_level="error", max_samples=100,
            log_dir=tempfile.mkdtemp())
assert logs[0].status == "success", logs[0].error
print(time.process_time() - before)
"""


def ask_by_inspect(requests: int) -> float:
    """Inspect's CPU through the same library."""
    command = [sys.executable, "-W", "ignore", "-c", INSPECT, str(requests)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return float(done.stdout.splitlines()[-1])


@contextmanager
def rates(size: int) -> Iterator[Sides]:
    """Twenty answers on each of so many connections, beside the second that they must take."""
    with serving() as address:
        yield {
            OURS: Side(
                lambda: asyncio.run(ask_and_wait(open_model(f"{address}#m"), size)), told=True
            ),
            "the ideal": Side(lambda: 20 * LATENCY, told=True),
        }


@contextmanager
def runs(size: int) -> Iterator[Sides]:
    """A run with its checks and its store, beside a loop that only asks and reads."""
    with serving() as address:
        yield {
            OURS: Side(lambda: run_suite(address, size), size),
            "a plain aiohttp loop": Side(lambda: asyncio.run(loop_plainly(address, size)), size),
        }


@contextmanager
def providers(size: int) -> Iterator[Sides]:
    """A provider by its library, beside Inspect, which gets few."""
    with serving():

        def ask(model: Model) -> None:
            asyncio.run(ask_once(model, size))

        yield {
            OURS: Side(lambda: ask(open_model(PROVIDER)), size),
            "Inspect": Side(lambda: ask_by_inspect(FEW), FEW, rounds=1, told=True),
        }


def latencies(provider: str) -> MakeSides:
    """The latency that is booked, beside that of the server."""

    @contextmanager
    def make(size: int) -> Iterator[Sides]:
        with serving(SHORT_LATENCY) as address:

            def book() -> float:
                model = open_model(provider or f"{address}#m")
                return asyncio.run(book_latency(model, size))

            yield {
                OURS: Side(book, told=True),
                "the server": Side(lambda: SHORT_LATENCY, told=True),
            }

    return make


BENCHES = (
    Bench(
        "answers",
        "Answers of an `http://` model by the clock on the wall: at least 80 % of what connections "
        "can give.",
        rates,
        (1, 10, 100),
        "connections",
        (Promise(1.25, "the ideal"),),
        rounds=5,
    ),
    *(
        Bench(
            name,
            f"What is booked for a server that takes 20 ms, {CONNECTIONS} at once, on a machine "
            f"that does nothing else: at most {most} times that.",
            latencies(provider),
            (20, 200, 2_000),
            "requests",
            (Promise(most, "the server"),),
            rounds=3,
        )
        for name, provider, most in (
            ("latency of an `http://` model", "", 1.3),
            ("latency of a provider", PROVIDER, 2.0),
        )
    ),
    Bench(
        "a run",
        f"A case asked over HTTP, checked and stored, {CONNECTIONS} at once: at most 1.25 times "
        "the CPU of a loop that only asks and reads.",
        runs,
        (100, 1_000, 10_000),
        "cases",
        (Promise(1.25, "a plain aiohttp loop"),),
        each="case",
        rounds=5,
    ),
    Bench(
        "a provider",
        "A request to a provider: a tenth of Inspect's CPU.",
        providers,
        (20, 200, 2_000),
        "requests",
        (Promise(0.1, "Inspect"),),
        each="request",
        rounds=5,
    ),
)


if __name__ == "__main__":
    asyncio.run(serve(float(sys.argv[1])))
