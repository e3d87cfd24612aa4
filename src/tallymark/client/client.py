"""`Client` and `AsyncClient`: the operations of a server as typed methods."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Self, Unpack

from tallymark.client.aio.client import AsyncClient as AsyncBase
from tallymark.client.aio.sender import AsyncSender
from tallymark.client.sync.client import Client as Base
from tallymark.client.sync.sender import Sender
from tallymark.service.resources import RESOURCES, Resources, load_resource

if TYPE_CHECKING:
    import httpx2

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


class Client(Base, Resources):
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
        timeout: float = 60.0,
        http: httpx2.Client | None = None,
    ) -> None:
        Base.__init__(self, server, key, timeout=timeout, http=http)
        _attach_blocking(self, Sender(self.connection))

    def with_options(self, **options: Unpack[CallOptions]) -> Self:
        """Make a client on the same connection whose calls have other options."""
        other = copy(self)
        _attach_blocking(other, Sender(self.connection, options))
        return other


class AsyncClient(AsyncBase):
    """The same for an event loop: its methods are awaited."""

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
        timeout: float = 60.0,
        http: httpx2.AsyncClient | None = None,
    ) -> None:
        super().__init__(server, key, timeout=timeout, http=http)
        _attach(self, AsyncSender(self.connection))

    def with_options(self, **options: Unpack[CallOptions]) -> Self:
        """Make a client on the same connection whose calls have other options."""
        other = copy(self)
        _attach(other, AsyncSender(self.connection, options))
        return other


def _attach_blocking(client: Client, sender: Sender) -> None:
    for name in RESOURCES:  # those of a client that this one is a copy of
        client.__dict__.pop(name, None)
    Resources.__init__(client, sender)


def _attach(client: AsyncClient, sender: AsyncSender) -> None:
    for name in RESOURCES:
        setattr(client, name, load_resource(name)(sender))
