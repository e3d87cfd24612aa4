"""`Client` and `AsyncClient`: the operations of a server as typed methods."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, Unpack

from tallymark.client.addresses import find_address
from tallymark.client.connection import (
    AsyncConnection,
    AsyncSender,
    AwaitableTransport,
    BlockingTransport,
    Connection,
    Sender,
    run,
)
from tallymark.client.exchange import write_spans
from tallymark.service.resources import RESOURCES, Resources, load_resource

if TYPE_CHECKING:
    import httpx2

    from tallymark.challenges.challenge import PublicChallenge
    from tallymark.client.async_resources import (
        AsyncAccounts,
        AsyncAgents,
        AsyncAttempts,
        AsyncAudit,
        AsyncBoards,
        AsyncChallenges,
        AsyncExports,
        AsyncFormulas,
        AsyncInvitations,
        AsyncJobs,
        AsyncKeys,
        AsyncLimits,
        AsyncRatings,
        AsyncReports,
        AsyncRules,
        AsyncRuns,
        AsyncScores,
        AsyncSettings,
        AsyncTenants,
        AsyncTraces,
        AsyncTracks,
        AsyncVersus,
        AsyncWebhooks,
    )
    from tallymark.client.exchange import CallOptions
    from tallymark.service.attempts import CheckedAnswer, EnteredAttempt, SubmittedAttempt
    from tallymark.traces import Span

TIMEOUT_S = 60.0
"""For one request; a submission waits half of it for its score."""


class Client(Resources):
    """A server by its address and a key; else by TALLY_SERVER and TALLY_KEY, or `tally login`.

    with Client("https://tally.example", key="tly_...") as client:
        for rule in client.rules.list():
            print(rule.name, rule.counts.scored)
    """

    def __init__(
        self,
        server: str | None = None,
        key: str | None = None,
        *,
        timeout: float = TIMEOUT_S,
        http: httpx2.Client | None = None,
    ) -> None:
        address = find_address(server, key)
        self.connection = Connection(address, BlockingTransport(address, timeout, http))
        super().__init__(Sender(self.connection))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        run(self.connection.awaitable.transport.close())

    def with_options(self, **options: Unpack[CallOptions]) -> Self:
        """Make a client on the same connection whose calls have other options."""
        other = copy(self)
        for name in RESOURCES:
            other.__dict__.pop(name, None)
        Resources.__init__(other, Sender(self.connection, options))
        return other

    def send_spans(self, token: str, spans: Iterable[Span]) -> None:
        """Send steps of an open attempt that have just ended, so that the server witnesses them."""
        self.connection.send(write_spans(spans, token))

    @contextmanager
    def attempt(
        self,
        challenge: str,
        *,
        agent: str | None = None,
        memoryless: bool = False,
        idempotency_key: str | None = None,
    ) -> Iterator[OpenAttempt]:
        """Enter a challenge, for the time of a `with`.

        An attempt that was not submitted stays open.
        """
        yield OpenAttempt(
            self.attempts.enter(
                challenge, agent=agent, memoryless=memoryless, idempotency_key=idempotency_key
            ),
            self,
        )


class AsyncClient:
    """The client for an event loop: its methods are awaited."""

    accounts: AsyncAccounts
    agents: AsyncAgents
    attempts: AsyncAttempts
    audit: AsyncAudit
    boards: AsyncBoards
    exports: AsyncExports
    formulas: AsyncFormulas
    invitations: AsyncInvitations
    jobs: AsyncJobs
    challenges: AsyncChallenges
    keys: AsyncKeys
    limits: AsyncLimits
    ratings: AsyncRatings
    reports: AsyncReports
    rules: AsyncRules
    runs: AsyncRuns
    scores: AsyncScores
    settings: AsyncSettings
    tenants: AsyncTenants
    traces: AsyncTraces
    tracks: AsyncTracks
    versus: AsyncVersus
    webhooks: AsyncWebhooks

    def __init__(
        self,
        server: str | None = None,
        key: str | None = None,
        *,
        timeout: float = TIMEOUT_S,
        http: httpx2.AsyncClient | None = None,
    ) -> None:
        address = find_address(server, key)
        self.connection = AsyncConnection(address, AwaitableTransport(address, timeout, http))
        _attach(self, AsyncSender(self.connection))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections."""
        await self.connection.transport.close()

    def with_options(self, **options: Unpack[CallOptions]) -> Self:
        """Make a client on the same connection whose calls have other options."""
        other = copy(self)
        _attach(other, AsyncSender(self.connection, options))
        return other

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
        """Enter a challenge, for the time of an `async with`.

        An attempt that was not submitted stays open.
        """
        entered = await self.attempts.enter(
            challenge, agent=agent, memoryless=memoryless, idempotency_key=idempotency_key
        )
        yield AsyncOpenAttempt(entered, self)


def _attach(client: AsyncClient, sender: AsyncSender) -> None:
    for name in RESOURCES:
        setattr(client, name, load_resource(name)(sender))


@dataclass
class _Entered:
    entered: EnteredAttempt

    @property
    def id(self) -> str:
        """The attempt's id."""
        return self.entered.attempt.id

    @property
    def goal(self) -> str:
        """The task."""
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
        """Time until which an answer is accepted, by the server's clock."""
        return self.entered.attempt.expires_at


@dataclass
class OpenAttempt(_Entered):
    """An attempt that goes on: its task, its files, and submitting the answer."""

    _client: Client
    outcome: SubmittedAttempt | None = None

    def send_spans(self, spans: Iterable[Span]) -> None:
        """Send steps that have just ended, so that the server witnesses them."""
        self._client.send_spans(self.token, spans)

    def check(self, answer: Any, **more: Any) -> CheckedAnswer:
        """Check an answer without submitting it."""
        return self._client.attempts.check(self.id, answer, **more)

    def submit(self, answer: Any, **more: Any) -> SubmittedAttempt:
        """Submit the answer, once."""
        self.outcome = self._client.attempts.submit(self.id, answer, **more)
        return self.outcome


@dataclass
class AsyncOpenAttempt(_Entered):
    """An open attempt of an `AsyncClient`."""

    _client: AsyncClient
    outcome: SubmittedAttempt | None = None

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
