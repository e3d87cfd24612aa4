"""`AsyncClient`: everything that a server does, a method each."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal, Self, Unpack

import httpx2

from tallymark.client.addresses import find_address
from tallymark.client.aio.agents import AsyncAgents
from tallymark.client.aio.attempts import AsyncAttempts, AsyncOpenAttempt
from tallymark.client.aio.challenges import AsyncChallenges
from tallymark.client.aio.connection import AsyncConnection
from tallymark.client.aio.resource import AsyncResource
from tallymark.client.exchange import Call, CallOptions, write_path
from tallymark.wire import attempts

TIMEOUT_S = 60.0
"""For one request; a submission waits half of it for its score."""


class AsyncClient(AsyncResource):
    """A server by its address and a key; else by TALLY_SERVER and TALLY_KEY, or `tally login`.

    async with AsyncClient("https://tally.example", key="tly_...") as client:
        async for run in client.runs.list(suite="support-desk"):
            print(run.id, run.score)

    Every method takes `timeout` (seconds, for one request) and `idempotency_key` besides its own.
    """

    def __init__(
        self,
        server: str | None = None,
        key: str | None = None,
        *,
        timeout: float = TIMEOUT_S,
        http: httpx2.AsyncClient | None = None,
    ) -> None:
        self.connection = AsyncConnection(find_address(server, key), timeout, http)
        super().__init__(self.connection)
        self.challenges = AsyncChallenges(self.connection)
        self.attempts = AsyncAttempts(self.connection)
        self.agents = AsyncAgents(self.connection)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Lets go of connections."""
        await self.connection.aclose()

    async def ratings(
        self, *, k: int | None = None, live: bool | None = None, **options: Unpack[CallOptions]
    ) -> attempts.Ratings:
        """Strengths of agents and difficulties of challenges; `k` is for pass@k."""
        params = {"k": k, "live": live}
        return await self._ask(attempts.Ratings, "GET", "ratings", params=params, **options)

    def export(
        self,
        kind: Literal["runs", "cases", "attempts", "board", "audit", "traces", "scores"],
        *,
        run: str | None = None,
        challenge: str | None = None,
        filter: str | None = None,  # noqa: A002 (its name)
        live: bool | None = None,
        **options: Unpack[CallOptions],
    ) -> AsyncIterator[dict[str, Any]]:
        """Everything of a kind, row by row: of a run its cases, of a challenge its attempts or its
        board, the traces that fit a filter and their scores.
        """
        call = Call(
            method="GET",
            path=write_path("export", kind),
            params={"run": run, "challenge": challenge, "filter": filter, "live": live},
            **options,
        )
        return self.connection.read_rows(call)

    @asynccontextmanager
    async def attempt(
        self,
        challenge: str,
        *,
        agent: str | None = None,
        memoryless: bool = False,
        **options: Unpack[CallOptions],
    ) -> AsyncIterator[AsyncOpenAttempt]:
        """Enters a challenge, for the time of a `with`.

        Whoever leaves without submitting has not given up: the attempt stays open.
        """
        entered = await self.challenges.enter(
            challenge, agent=agent, memoryless=memoryless, **options
        )
        yield AsyncOpenAttempt(self.attempts, entered)
