"""The client of a server: `Client`, and `AsyncClient` for event loops."""

from tallymark.client.aio.client import AsyncClient, AsyncOpenAttempt
from tallymark.client.exchange import Event
from tallymark.client.sync.client import Client, OpenAttempt

__all__ = ["AsyncClient", "AsyncOpenAttempt", "Client", "Event", "OpenAttempt"]
