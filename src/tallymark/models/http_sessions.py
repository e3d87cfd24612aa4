"""One aiohttp session for each event loop that asks, with connections kept for the next request."""

from __future__ import annotations

from functools import cache
from io import BytesIO
from typing import TYPE_CHECKING, Any
from urllib.request import getproxies, proxy_bypass

from tallymark.event_loops import LoopLocal

if TYPE_CHECKING:
    from ssl import SSLContext

    from aiohttp import ClientSession

    from tallymark.models.reach import Reach

_CONNECT_SECONDS = 30.0
_LARGE = 2**20


def make_sendable(body: bytes) -> bytes | BytesIO:
    """A body as aiohttp wants it: a large one in pieces, so that others get their turn."""
    return BytesIO(body) if len(body) >= _LARGE else body


def find_proxy(scheme: str, host: str, reach: Reach | None = None) -> str | None:
    """The proxy that the environment names for a host.

    A proxy would look names up by itself, so it is not used where they must be public. aiohttp's
    own `trust_env` asks in a thread for every request, which halves the rate.
    """
    return _find_proxy(scheme, host) if reach is None or reach.is_private else None


@cache
def _find_proxy(scheme: str, host: str) -> str | None:
    return None if proxy_bypass(host) else getproxies().get(scheme)


def load_http() -> None:
    """Load the client now, and what Python itself loads when it first looks up a name."""
    import concurrent.futures.thread  # noqa: F401, PLC0415 (names are looked up in threads)

    import aiohttp  # noqa: F401, PLC0415 (heavy)

    "".encode("idna")


class HttpSessions:
    """Makes a session when first asked, since connections belong to the loop that opened them."""

    def __init__(
        self,
        *,
        connections: int = 0,
        trust: SSLContext | None = None,
        reach: Reach | None = None,
        **options: Any,
    ) -> None:
        """`connections` is how many may be open at once; 0 leaves that to whoever asks."""
        self._connections = connections
        self._trust = trust
        self._reach = reach
        self._options = options
        self._sessions: LoopLocal[ClientSession] = LoopLocal(self._make_session)

    def get(self) -> ClientSession:
        """The session of the running loop."""
        return self._sessions.get()

    async def close(self) -> None:
        """Closes the running loop's connections; a later request opens new ones."""
        session = self._sessions.pop()
        if session is not None:
            await session.close()

    def _make_session(self) -> ClientSession:
        import aiohttp  # noqa: PLC0415 (heavy)

        connect = aiohttp.TCPConnector if self._reach is None else self._reach.make_connector
        return aiohttp.ClientSession(
            connector=connect(limit=self._connections, ssl=self._trust or True),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS),
            cookie_jar=aiohttp.DummyCookieJar(),  # one answer must not change the next
            **self._options,
        )
