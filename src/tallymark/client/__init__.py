"""The client of a server: `Client`, and `AsyncClient` for event loops."""

from tallymark.client.aio.attempts import AsyncOpenAttempt
from tallymark.client.aio.client import AsyncClient
from tallymark.client.exchange import Event
from tallymark.client.sync.attempts import OpenAttempt
from tallymark.client.sync.client import Client

__all__ = ["AsyncClient", "AsyncOpenAttempt", "Client", "Event", "OpenAttempt"]
