"""One aiohttp session for each event loop that asks, with connections kept for the next request."""

from __future__ import annotations

import asyncio
from functools import cache
from io import BytesIO
from typing import TYPE_CHECKING, Any
from urllib.request import getproxies, proxy_bypass

if TYPE_CHECKING:
    from ssl import SSLContext

    from aiohttp import ClientSession

_CONNECT_SECONDS = 30.0
_LARGE = 2**20


def sendable(body: bytes) -> bytes | BytesIO:
    """A body as aiohttp wants it: a large one in pieces, so that others get their turn."""
    return BytesIO(body) if len(body) >= _LARGE else body


@cache
def proxy_for(scheme: str, host: str) -> str | None:
    """The proxy that the environment names for a host.

    aiohttp's own `trust_env` asks in a thread for every request, which halves the rate.
    """
    return None if proxy_bypass(host) else getproxies().get(scheme)


class Sessions:
    """Makes a session when first asked, since connections belong to the loop that opened them."""

    def __init__(
        self, *, connections: int = 0, trust: SSLContext | None = None, **options: Any
    ) -> None:
        """`connections` is how many may be open at once; 0 leaves that to whoever asks."""
        self._connections = connections
        self._trust = trust
        self._options = options
        self._session: ClientSession | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def get(self) -> ClientSession:
        """The session of the running loop."""
        loop = asyncio.get_running_loop()
        if self._session is None or self._loop is not loop:
            self._session, self._loop = self._made(), loop
        return self._session

    async def close(self) -> None:
        """Closes the connections; a later request opens new ones."""
        session, self._session = self._session, None
        if session is not None and self._loop is asyncio.get_running_loop():
            await session.close()

    def _made(self) -> ClientSession:
        import aiohttp  # noqa: PLC0415 (heavy)

        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=self._connections, ssl=self._trust or True),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS),
            **self._options,
        )
