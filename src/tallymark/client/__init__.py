"""The client of a server: `Client`, and `AsyncClient` for event loops."""

from tallymark.client.aio.attempts import AsyncOpenAttempt
from tallymark.client.client import AsyncClient, Client
from tallymark.client.sync.attempts import OpenAttempt
from tallymark.service.operations import Event

__all__ = ["AsyncClient", "AsyncOpenAttempt", "Client", "Event", "OpenAttempt"]
