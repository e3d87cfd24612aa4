"""Models over HTTP against a server that takes 50 ms, on 100 connections.

Ideal is 100 / 0.05 s = 2,000 answers a second. The promises: the `http://` model gives 80 % of it;
a run of 10,000 cases, checked and stored, takes at most 1.25 times the processor time of a plain
aiohttp loop that only asks and reads; a provider is ten times as quick as through Inspect, and
takes at most half the processor time of its library alone, over the same aiohttp. A broken promise
makes this exit with 1. The server runs in a process of its own and does as little as it can. Sides
that are compared take turns in one process, and the best of each counts.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import aiohttp

from tallymark.app.app import App
from tallymark.app.runs import RunOptions
from tallymark.models import Message, Model, Pace, Request, answer_with_retries, open_model
from tallymark.suites.suite_file import load_suite

LATENCY = 0.05
CONNECTIONS = 100
IDEAL = CONNECTIONS / LATENCY
PROMISE = 0.8
ROUNDS = 5
CASES = 10_000
ASKED = 2_000
TURNS = 3
MOST_OF_PLAIN = 1.25
MOST_OF_LIBRARY = 0.5

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
    """Answers every request with the same completion, LATENCY after its last byte."""

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
            asyncio.get_running_loop().call_later(LATENCY, self._transport.write, RESPONSE)


async def serve() -> None:
    server = await asyncio.get_running_loop().create_server(Server, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)  # until the bench ends


@contextmanager
def serving() -> Iterator[str]:
    command = [sys.executable, __file__, "serve"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"


async def ask_all(model: Model, requests: int) -> None:
    pace, numbers = Pace(CONNECTIONS, start=CONNECTIONS), iter(range(requests))

    async def work() -> None:
        for number in numbers:
            asked = Request(messages=(Message("user", f"What is {number} + 2?"),))
            await answer_with_retries(model, asked, pace, timeout=60)

    await asyncio.gather(*(work() for _ in range(CONNECTIONS)))


async def rate(reference: str, requests: int) -> float:
    """Answers a second, the best of some rounds; all connections are open before they begin."""
    model, best = open_model(reference), 0.0
    await ask_all(model, CONNECTIONS)
    for _ in range(ROUNDS):
        began = time.perf_counter()
        await ask_all(model, requests)
        best = max(best, requests / (time.perf_counter() - began))
    await model.close()
    return best


def processor_time(work: Callable[[], None]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def compare(first: Callable[[], None], second: Callable[[], None]) -> tuple[float, float]:
    """Processor seconds of both, the least of some turns."""
    turns = [(processor_time(first), processor_time(second)) for _ in range(TURNS)]
    return min(turn[0] for turn in turns), min(turn[1] for turn in turns)


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


def open_library(name: str) -> Model:
    """The provider's library itself, over aiohttp, as any program could use it."""
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    from tallymark.models.provider import ProviderModel
    from tallymark.models.provider_connection import ProviderConnection
    from tallymark.models.provider_transport import make_aiohttp_client

    def connect() -> ProviderConnection:
        client = make_aiohttp_client()
        return ProviderConnection(
            OpenAIChatModel(name, provider=OpenAIProvider(http_client=client)), client
        )

    return ProviderModel("library", connect)


async def ask_once(model: Model, requests: int) -> None:
    await ask_all(model, requests)
    await model.close()


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
before = time.perf_counter()
logs = eval(task, model=model, display="none", log_level="error", max_samples=100,
            log_dir=tempfile.mkdtemp())
assert logs[0].status == "success", logs[0].error
print(count / (time.perf_counter() - before))
"""


def inspect_rate(requests: int) -> float:
    """Inspect's answers a second through the same library."""
    command = [sys.executable, "-W", "ignore", "-c", INSPECT, str(requests)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    return float(done.stdout.splitlines()[-1])


def report(what: str, value: float, promise: float, *, least: bool) -> bool:
    kept = value >= promise if least else value <= promise
    word = "at least" if least else "at most"
    print(f"  {what:<52} {value:6.2f}   {word} {promise:g}   {'' if kept else 'BROKEN'}")
    return kept


def main() -> bool:
    with serving() as address:
        os.environ |= {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": address}
        ours = asyncio.run(rate(f"{address}#m", 4000))
        provider = asyncio.run(rate("openai-chat/gpt-5-mini", ASKED))
        inspect = inspect_rate(300)
        run_suite(address, 200)  # loads all that a run needs
        plain, run = compare(
            lambda: asyncio.run(loop_plainly(address, CASES)), lambda: run_suite(address, CASES)
        )
        quick, alone = open_model("openai-chat/gpt-5-mini"), open_library("gpt-5-mini")
        short, long = compare(
            lambda: asyncio.run(ask_once(quick, ASKED)), lambda: asyncio.run(ask_once(alone, ASKED))
        )
    print(f"{CONNECTIONS} connections, {LATENCY * 1000:.0f} ms: ideal is {IDEAL:,.0f} a second;")
    print(f"http:// {ours:,.0f}, provider {provider:,.0f}, Inspect {inspect:,.0f} a second;")
    print(
        f"us a request: plain loop {plain / CASES * 1e6:.0f}, run {run / CASES * 1e6:.0f}, ", end=""
    )
    print(f"provider {short / 2000 * 1e6:.0f}, its library {long / 2000 * 1e6:.0f}")
    kept = [
        report("http:// as a part of ideal", ours / IDEAL, PROMISE, least=True),
        report("a run's processor time in plain loops", run / plain, MOST_OF_PLAIN, least=False),
        report("times Inspect's rate, a provider", provider / inspect, 10, least=True),
        report(
            "a provider's in those of its library",
            short / long,
            MOST_OF_LIBRARY,
            least=False,
        ),
    ]
    return all(kept)


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        asyncio.run(serve())
    else:
        sys.exit(not main())
