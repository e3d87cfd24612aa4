"""The client of a server: `Client`, and `AsyncClient` for event loops."""

from tallymark.client.aio.client import AsyncOpenAttempt
from tallymark.client.client import AsyncClient, Client
from tallymark.client.sync.client import OpenAttempt
from tallymark.service.operations import Event

__all__ = ["AsyncClient", "AsyncOpenAttempt", "Client", "Event", "OpenAttempt"]
