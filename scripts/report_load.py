"""Many clients that report attempts, each sending the next one after the response.

    python -m scripts.report_load URL [URL ...] --key KEY [--clients 64] [--count 3000]

Reports that are answered with 2xx are written to standard output, one JSON a line: which it was,
and which attempt. It ends when all are answered, or nobody answers any more.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import random
import sys
from collections.abc import Iterator
from typing import Any

import aiohttp
import msgspec
from scripts.server_process import ADMIN_KEY

AGENTS = 5_000
_GONE = (aiohttp.ClientError, ConnectionError, TimeoutError)


def make_reports(seed: int, agents: int) -> Iterator[dict[str, Any]]:
    """Attempts of agents drawn at random, each under a key of its own."""
    dice = random.Random(seed)
    for number in itertools.count():
        metrics = {
            "succeeded": dice.random() < 0.9,
            "tokens_total": dice.randrange(20_000),
            "elapsed_ms": dice.randrange(600_000),
        }
        agent = f"agent-{dice.randrange(agents):05}"
        yield {"agent": agent, "metrics": metrics, "key": f"{seed}-{number}"}


class Load:
    """What is sent, and what was answered."""

    def __init__(self, urls: list[str], given: argparse.Namespace) -> None:
        self._urls = [f"{url}/api/v1/challenges/{given.challenge}/reports" for url in urls]
        self._reports = itertools.islice(make_reports(given.seed, given.agents), given.count)
        self._clients = given.clients
        self._headers = {"Authorization": f"Bearer {given.key}"}

    async def run(self) -> None:
        """Ends with the reports, or with the servers."""
        kinds = {"Content-Type": "application/json"}
        connector = aiohttp.TCPConnector(limit=0)
        headers = self._headers | kinds
        async with aiohttp.ClientSession(headers=headers, connector=connector) as session:
            urls = itertools.cycle(self._urls)
            async with asyncio.TaskGroup() as group:
                for _ in range(self._clients):
                    group.create_task(self._report_some(session, next(urls)))

    async def _report_some(self, session: aiohttp.ClientSession, url: str) -> None:
        for report in self._reports:
            try:
                async with session.post(url, data=msgspec.json.encode(report)) as answer:
                    body = await answer.read()
            except _GONE:
                return
            if answer.status not in (201, 202):
                raise RuntimeError(f"{answer.status}: {body.decode()}")
            attempt = msgspec.json.decode(body)["attempt"]
            told = {"key": report["key"], "attempt": attempt["id"], "score": attempt["score"]}
            sys.stdout.buffer.write(msgspec.json.encode(told) + b"\n")
            sys.stdout.buffer.flush()


def main() -> None:
    """Sends what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("urls", nargs="+")
    parser.add_argument("--key", default=ADMIN_KEY)
    parser.add_argument("--challenge", default="bench")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--count", type=int, default=3000)
    parser.add_argument("--agents", type=int, default=AGENTS)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    asyncio.run(Load(given.urls, given).run())


if __name__ == "__main__":
    main()
