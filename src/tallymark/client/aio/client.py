"""`AsyncClient`: the connection to a server, and attempts that go on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import httpx2

from tallymark.client.addresses import find_address
from tallymark.client.aio.connection import AsyncConnection
from tallymark.client.exchange import write_spans

if TYPE_CHECKING:
    from tallymark.challenges.challenge import PublicChallenge
    from tallymark.client.async_resources import AsyncAttempts
    from tallymark.service.attempts import CheckedAnswer, EnteredAttempt, SubmittedAttempt
    from tallymark.traces import Span

TIMEOUT_S = 60.0
"""For one request; a submission waits half of it for its score."""


class AsyncClient:
    """A server by its address and a key; else by TALLY_SERVER and TALLY_KEY, or `tally login`."""

    attempts: AsyncAttempts

    def __init__(
        self,
        server: str | None = None,
        key: str | None = None,
        *,
        timeout: float = TIMEOUT_S,
        http: httpx2.AsyncClient | None = None,
    ) -> None:
        self.connection = AsyncConnection(find_address(server, key), timeout, http)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections."""
        await self.connection.aclose()

    async def send_spans(self, token: str, spans: Iterable[Span]) -> None:
        """Send steps of an open attempt that have just ended, so that the server witnesses them."""
        await self.connection.send(write_spans(spans, token))

    @asynccontextmanager
    async def attempt(
        self,
        challenge: str,
        *,
        agent: str | None = None,
        memoryless: bool = False,
        idempotency_key: str | None = None,
    ) -> AsyncIterator[AsyncOpenAttempt]:
        """Enter a challenge, for the time of a `with`.

        An attempt that was not submitted stays open.
        """
        entered = await self.attempts.enter(
            challenge, agent=agent, memoryless=memoryless, idempotency_key=idempotency_key
        )
        yield AsyncOpenAttempt(self, entered)


@dataclass
class AsyncOpenAttempt:
    """An attempt that goes on: what is asked, what it is given, and submitting the answer."""

    _client: AsyncClient
    entered: EnteredAttempt
    outcome: SubmittedAttempt | None = None

    @property
    def id(self) -> str:
        """Its id."""
        return self.entered.attempt.id

    @property
    def goal(self) -> str:
        """What is asked."""
        return self.entered.goal

    @property
    def data(self) -> dict[str, Any]:
        """Names and contents of the files to work with."""
        return self.entered.data

    @property
    def rules(self) -> PublicChallenge:
        """The challenge: the form of an answer with its schema, limits, how it is scored."""
        return self.entered.challenge

    @property
    def token(self) -> str:
        """Spans that carry it as `tally.attempt` are the witnessed trajectory."""
        return self.entered.token or ""

    @property
    def expires_at(self) -> float:
        """Until when an answer is taken, by the server's clock."""
        return self.entered.attempt.expires_at

    async def send_spans(self, spans: Iterable[Span]) -> None:
        """Send steps that have just ended, so that the server witnesses them."""
        await self._client.send_spans(self.token, spans)

    async def check(self, answer: Any, **more: Any) -> CheckedAnswer:
        """Check an answer without submitting it."""
        return await self._client.attempts.check(self.id, answer, **more)

    async def submit(self, answer: Any, **more: Any) -> SubmittedAttempt:
        """Submit the answer, once."""
        self.outcome = await self._client.attempts.submit(self.id, answer, **more)
        return self.outcome
