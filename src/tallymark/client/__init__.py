"""The client of a server: `Client`, and `AsyncClient` for event loops."""

from tallymark.client.client import AsyncClient, AsyncOpenAttempt, Client, OpenAttempt
from tallymark.service.operations import Event

__all__ = ["AsyncClient", "AsyncOpenAttempt", "Client", "Event", "OpenAttempt"]
