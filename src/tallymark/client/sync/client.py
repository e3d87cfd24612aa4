"""`Client`: everything that a server does, a method each."""

# Written by `make client` from client/aio/client.py: change that one.

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal, Self, Unpack

import httpx2

from tallymark.client.addresses import find_address
from tallymark.client.exchange import Call, CallOptions, write_path
from tallymark.client.sync.agents import Agents
from tallymark.client.sync.attempts import Attempts, OpenAttempt
from tallymark.client.sync.challenges import Challenges
from tallymark.client.sync.connection import Connection
from tallymark.client.sync.resource import Resource
from tallymark.wire import attempts

TIMEOUT_S = 60.0
"""For one request; a submission waits half of it for its score."""


class Client(Resource):
    """A server by its address and a key; else by TALLY_SERVER and TALLY_KEY, or `tally login`.

    with Client("https://tally.example", key="tly_...") as client:
        for run in client.runs.list(suite="support-desk"):
            print(run.id, run.score)

    Every method takes `timeout` (seconds, for one request) and `idempotency_key` besides its own.
    """

    def __init__(
        self,
        server: str | None = None,
        key: str | None = None,
        *,
        timeout: float = TIMEOUT_S,
        http: httpx2.Client | None = None,
    ) -> None:
        self.connection = Connection(find_address(server, key), timeout, http)
        super().__init__(self.connection)
        self.challenges = Challenges(self.connection)
        self.attempts = Attempts(self.connection)
        self.agents = Agents(self.connection)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Lets go of connections."""
        self.connection.close()

    def ratings(
        self, *, k: int | None = None, live: bool | None = None, **options: Unpack[CallOptions]
    ) -> attempts.Ratings:
        """Strengths of agents and difficulties of challenges; `k` is for pass@k."""
        params = {"k": k, "live": live}
        return self._ask(attempts.Ratings, "GET", "ratings", params=params, **options)

    def export(
        self,
        kind: Literal["runs", "cases", "attempts", "board", "audit", "traces", "scores"],
        *,
        run: str | None = None,
        challenge: str | None = None,
        filter: str | None = None,  # noqa: A002 (its name)
        live: bool | None = None,
        **options: Unpack[CallOptions],
    ) -> Iterator[dict[str, Any]]:
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

    @contextmanager
    def attempt(
        self,
        challenge: str,
        *,
        agent: str | None = None,
        memoryless: bool = False,
        **options: Unpack[CallOptions],
    ) -> Iterator[OpenAttempt]:
        """Enters a challenge, for the time of a `with`.

        Whoever leaves without submitting has not given up: the attempt stays open.
        """
        entered = self.challenges.enter(challenge, agent=agent, memoryless=memoryless, **options)
        yield OpenAttempt(self.attempts, entered)
