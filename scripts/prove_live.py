"""Many event listeners on a leaderboard: what each receives, how late, and in how much memory.

    python -m scripts.prove_live [--listeners 1000] [--rate 100] [--seconds 10]

In one process, with the store in a new SQLite file. With `--url` and `--key` the same is asked of a
server that runs already, at the challenge that `--challenge` names, which must take reports.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp

from tallymark.challenges.attempt import Evaluation, Metrics, Outcome, Payload
from tallymark.challenges.challenge import Challenge, Evaluator, ScoringRule
from tallymark.service.live import LiveHub
from tallymark.store import Store, open_store

LATEST_S = 2.0
Report = Callable[[str, int], Awaitable[None]]
Open = Callable[[], Awaitable[AsyncIterator[bytes]]]


def read_memory_mb() -> float:
    """What this process takes."""
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * 4096 / 2**20


class Trial:
    """One storm: who was reported when, and who heard of it when."""

    def __init__(self, listeners: int, rate: int, seconds: float) -> None:
        self.count = int(rate * seconds)
        self.rate = rate
        self.listeners = listeners
        self.reported: dict[str, float] = {}
        self.latest = 0.0
        self.messages = 0
        self._read: dict[bytes, set[str]] = {}

    async def run(self, open_stream: Open, report: Report) -> None:
        """Ends when everybody has heard of everything."""
        ready = asyncio.Semaphore(0)
        async with asyncio.TaskGroup() as group:
            for _ in range(self.listeners):
                group.create_task(self._listen(await open_stream(), ready))
            for _ in range(self.listeners):
                await ready.acquire()
            begun = time.monotonic()
            for number in range(self.count):
                await asyncio.sleep(max(0.0, begun + number / self.rate - time.monotonic()))
                agent = f"racer-{number}"
                await report(agent, number)
                self.reported[agent] = time.monotonic()

    async def _listen(self, stream: AsyncIterator[bytes], ready: asyncio.Semaphore) -> None:
        heard: set[str] = set()
        async for data in stream:
            if b"event: ready" in data:
                ready.release()
            if b"event: board" not in data:
                continue
            self.messages += 1
            now = time.monotonic()
            for agent in self._find_racers(data) - heard:
                heard.add(agent)
                self.latest = max(self.latest, now - self.reported.get(agent, now))
            if len(heard) == self.count:
                return

    def _find_racers(self, data: bytes) -> set[str]:
        """Whom a message names. All listeners get the same ones, so each is read once."""
        found = self._read.get(data)
        if found is None:
            told = json.loads(data.partition(b"data: ")[2].partition(b"\n")[0])
            named = (each["agent"] for each in told.get("changed", ()))
            found = self._read[data] = {each for each in named if each.startswith("racer-")}
        return found


def _report_to_store(store: Store, hub: LiveHub) -> Report:
    challenge_id = store.challenges.find("sums").id

    def work(agent: str, number: int) -> None:
        at, metrics = time.time(), Metrics(succeeded=True, tokens_total=number)
        attempt = store.attempts.report("sums", agent, Payload(), metrics, at=at)
        outcome = Outcome(score=float(number), result="win", ranks=True, metrics=metrics)
        known = Evaluation(metrics=metrics)
        store.attempts.finish(attempt.id, known, outcome, at=at, verified=False)
        hub.notify(challenge_id)

    async def report(agent: str, number: int) -> None:
        await asyncio.to_thread(work, agent, number)

    return report


async def prove_in_process(trial: Trial, folder: str) -> None:
    """The hub and a store, without HTTP."""
    with open_store(f"{folder}/tally.db") as store:
        rule = ScoringRule(formula="tokens_total")
        names: dict[str, Any] = {
            "name": "sums",
            "title": "Sums",
            "goal": "Add up.",
            "version": "v1",
        }
        challenge = Challenge(**names, evaluator=Evaluator(type="reported"), scoring=rule)
        store.challenges.publish(challenge, b"", at=0.0)
        hub = LiveHub()
        await trial.run(lambda: hub.listen(store, "sums", "public"), _report_to_store(store, hub))
        await hub.close()


async def prove_server(trial: Trial, url: str, key: str, name: str) -> None:
    """The same through HTTP."""
    base = f"{url.rstrip('/')}/api/v1/challenges/{name}"
    headers = {"Authorization": f"Bearer {key}"}
    limits: dict[str, Any] = {"connector": aiohttp.TCPConnector(limit=0)}
    limits["timeout"] = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(headers=headers, **limits) as session:

        async def read_events() -> AsyncIterator[bytes]:
            async with session.get(f"{base}/events", read_bufsize=2**20) as answer:
                answer.raise_for_status()
                while event := await answer.content.readuntil(b"\n\n"):
                    yield event

        async def open_stream() -> AsyncIterator[bytes]:
            return read_events()

        async def report(agent: str, number: int) -> None:
            metrics = {"succeeded": True, "tokens_total": number}
            body = {"agent": agent, "metrics": metrics}
            async with session.post(f"{base}/reports", json=body) as answer:
                answer.raise_for_status()

        await trial.run(open_stream, report)


def main() -> int:
    """Tells what was found; 1 when it does not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--listeners", type=int, default=1000)
    parser.add_argument("--rate", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--url")
    parser.add_argument("--key", default="")
    parser.add_argument("--challenge", default="sums")
    given = parser.parse_args()
    size = (given.listeners, given.rate, given.seconds)
    trial = Trial(*size)
    before = read_memory_mb()
    with tempfile.TemporaryDirectory() as folder:
        if given.url is None:
            asyncio.run(prove_in_process(trial, folder))
        else:
            asyncio.run(prove_server(trial, given.url, given.key, given.challenge))
    sys.stdout.write(
        f"{given.listeners:,} listeners heard of all {trial.count:,} attempts, the last"
        f" {trial.latest:.2f} s after it was answered, in {trial.messages / given.listeners:.0f}"
        f" messages each; this process took {before:.0f} MB before and"
        f" {read_memory_mb():.0f} MB after\n"
    )
    return int(trial.latest > LATEST_S)


if __name__ == "__main__":
    sys.exit(main())
