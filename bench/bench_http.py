"""The `http://` model against a server that takes 50 ms, on 100 connections.

Ideal is 100 / 0.05 s = 2,000 answers a second. The promise is 80 % of it, and ten times Inspect's
rate through the provider's library, both against this server; a broken one makes this exit with 1.
The server runs in a process of its own and does as little as it can.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tallymark.models import Message, Pace, Request, answer_with_retries, open_model

LATENCY = 0.05
CONNECTIONS = 100
IDEAL = CONNECTIONS / LATENCY
PROMISE = 0.8
ROUNDS = 5

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


async def rate(reference: str, requests: int) -> float:
    """Answers a second, the best of some rounds; slow start is over before they begin."""
    model, pace, best = open_model(reference), Pace(CONNECTIONS, start=CONNECTIONS), 0.0
    for round_ in range(ROUNDS + 1):
        numbers = iter(range(requests if round_ else CONNECTIONS))

        async def work() -> None:
            for number in numbers:  # noqa: B023 (the workers of a round share its numbers)
                asked = Request(messages=(Message("user", f"What is {number} + 2?"),))
                await answer_with_retries(model, asked, pace, timeout=60)

        began = time.perf_counter()
        await asyncio.gather(*(work() for _ in range(CONNECTIONS)))
        if round_:
            best = max(best, requests / (time.perf_counter() - began))
    await model.close()
    return best


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


def main() -> bool:
    with serving() as address:
        os.environ |= {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": address}
        print(f"{CONNECTIONS} connections, {LATENCY * 1000:.0f} ms: ideal is {IDEAL:,.0f} a second")
        ours = asyncio.run(rate(f"{address}#m", 4000))
        library = asyncio.run(rate("openai-chat/gpt-5-mini", 500))
        inspect = inspect_rate(300)
    kept = ours >= PROMISE * IDEAL and library >= 10 * inspect
    print(f"  http://           {ours:6,.0f} a second   {ours / IDEAL:.2f} of ideal   ", end="")
    print(f"at least {PROMISE:.2f}")
    print(f"  provider library  {library:6,.0f} a second   {library / IDEAL:.2f} of ideal")
    print(
        f"  Inspect           {inspect:6,.0f} a second   {library / inspect:.1f} times, at least 10"
    )
    print("" if kept else "  a promise is BROKEN")
    return kept


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        asyncio.run(serve())
    else:
        sys.exit(not main())
