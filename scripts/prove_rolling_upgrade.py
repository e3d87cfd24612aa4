"""Replace two servers on one PostgreSQL one after the other, without losing a request."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Sequence
from typing import Any

import aiohttp
from scripts.server_process import (
    ADMIN_KEY,
    ServerProcess,
    require_as_logged,
    set_up,
    start_server,
)
from sqlalchemy import func, select

from tallymark.store import open_store
from tallymark.store.contests.tables import attempts

_GONE = (aiohttp.ClientError, ConnectionError, TimeoutError)
_CLIENTS = 16
_METRICS = {"succeeded": True, "tokens_total": 700, "elapsed_ms": 9000}


class Balancer:
    """Sends each report to one server, and where that one ends, again to the other."""

    def __init__(self, session: aiohttp.ClientSession, urls: Sequence[str]) -> None:
        self._session, self._urls = session, list(urls)
        self.answers = Counter[int]()
        self.stored: set[str] = set()
        self._numbers = itertools.count()

    async def send_until(self, ended: asyncio.Event) -> None:
        while not ended.is_set():
            await self._send(next(self._numbers))

    async def _send(self, number: int) -> None:
        report: dict[str, Any] = {"agent": f"agent-{number % 100}", "metrics": _METRICS}
        headers = {"Authorization": f"Bearer {ADMIN_KEY}", "Idempotency-Key": f"r{number}"}
        for nth in range(number, number + 100):
            url = f"{self._urls[nth % 2]}/api/v1/challenges/bench/reports"
            told: Any = None
            try:
                async with self._session.post(url, json=report, headers=headers) as answer:
                    status, told = answer.status, await answer.json()
            except _GONE:
                status = 0
            self.answers[status] += 1
            if status == 201:
                self.stored.add(told["attempt"]["id"])
                return
            if status not in (0, 503):
                raise AssertionError(f"{status}: {told}")
            await asyncio.sleep(0.05)
        raise AssertionError(f"nobody took report {number}")


async def _replace(db: str, servers: list[ServerProcess], rounds: int) -> Balancer:
    """Each in turn ends, and another begins at its port; work goes on meanwhile."""
    timeout = aiohttp.ClientTimeout(total=30)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        balancer = Balancer(session, [each.url for each in servers])
        ended = asyncio.Event()
        clients = [asyncio.create_task(balancer.send_until(ended)) for _ in range(_CLIENTS)]
        try:
            for nth in range(2 * rounds):
                least = len(balancer.stored) + 100
                while len(balancer.stored) < least and not any(  # noqa: ASYNC110
                    each.done() for each in clients
                ):
                    await asyncio.sleep(0.02)
                old = servers[nth % 2]
                port = int(old.url.rpartition(":")[2])
                if code := await asyncio.to_thread(old.stop, 30.0):
                    raise AssertionError(f"it ended with {code}: {old.last_words}")
                servers[nth % 2] = await asyncio.to_thread(start_server, db, port=port)
        finally:
            ended.set()
        await asyncio.gather(*clients)
    return balancer


def prove_rolling(db: str, rounds: int) -> str:
    """Raise where a report is lost or doubled, or refused with anything but 503."""
    with open_store(db) as store:
        set_up(store)
    servers = [start_server(db) for _ in range(2)]
    try:
        found = asyncio.run(_replace(db, servers, rounds))
    finally:
        for each in servers:
            each.kill()
    with open_store(db) as store:
        with store._database.read() as connection:  # noqa: SLF001
            count = connection.scalar(select(func.count()).select_from(attempts))
        if count != len(found.stored):
            raise AssertionError(f"{count} attempts of {len(found.stored)} acknowledged reports")
        require_as_logged(store, "scores", "boards")
    return (
        f"{2 * rounds} servers replaced, {len(found.stored):,} reports each stored once;"
        f" {found.answers[503]} answers 503 and {found.answers[0]} cut connections were sent again"
    )
