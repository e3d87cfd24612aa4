"""The HTTP client that is given to providers' libraries, where they take one.

It is their own client with two additions: it measures a request from the start of its writing until
its answer is read, without the libraries' own work; and under an egress policy it only connects to
public addresses.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from time import perf_counter
from typing import TYPE_CHECKING, Any

import httpx2

from tallymark.models.egress_policy import PinnedAddresses

if TYPE_CHECKING:
    from collections.abc import Iterator
    from ssl import SSLContext

    from tallymark.models.egress_policy import EgressPolicy

_TIMEOUT = httpx2.Timeout(600, connect=10)
_LIMITS = httpx2.Limits(max_connections=None, max_keepalive_connections=None)
"""No limit here: the run limits concurrent calls."""
_exchanges: ContextVar[list[float] | None] = ContextVar("tallymark_exchanges", default=None)


def make_http_client(egress: EgressPolicy | None = None) -> httpx2.AsyncClient:
    """A client for the event loop that runs."""
    confined = egress is not None and not egress.is_private
    return httpx2.AsyncClient(
        timeout=_TIMEOUT,
        limits=_LIMITS,
        verify=_load_certificates(),
        # A proxy resolves names itself, so none is used where addresses must be public.
        transport=_PinnedTransport() if confined else None,
        event_hooks={"request": [_time_exchange]},
    )


@contextmanager
def time_exchanges() -> Iterator[list[float]]:
    """Gather the seconds of each exchange that is made inside, through clients made here."""
    seconds: list[float] = []
    token = _exchanges.set(seconds)
    try:
        yield seconds
    finally:
        _exchanges.reset(token)


async def _time_exchange(request: httpx2.Request) -> None:
    seconds = _exchanges.get()
    if seconds is None:
        return
    began = 0.0

    async def note(event: str, _: Any) -> None:
        nonlocal began
        # Before it is written: the server has it before we hear that it was.
        if event.endswith("send_request_headers.started"):
            began = perf_counter()
        elif event.endswith("receive_response_body.complete"):
            seconds.append(perf_counter() - began)

    request.extensions["trace"] = note


@cache
def _load_certificates() -> SSLContext:
    """The certificates that httpx2 trusts; reading them takes a while."""
    return httpx2.create_ssl_context()


class _PinnedTransport(httpx2.AsyncBaseTransport):
    """Connects to the addresses that a name had at first, all of them public."""

    def __init__(self) -> None:
        self._addresses = PinnedAddresses()
        self._transport = httpx2.AsyncHTTPTransport(
            verify=_load_certificates(), limits=_LIMITS, trust_env=False
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        name, port = request.url.host, request.url.port or 0
        try:
            found = await self._addresses.find(name, port)
        except OSError as error:
            raise httpx2.ConnectError(str(error), request=request) from error
        # The header `Host` and the name in the certificate stay those that were asked for.
        request.extensions["sni_hostname"] = name
        failure: httpx2.TransportError | None = None
        for _, address in found:
            request.url = request.url.copy_with(host=address)
            try:
                return await self._transport.handle_async_request(request)
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                failure = error
        raise failure or httpx2.ConnectError(f"{name} has no address", request=request)

    async def aclose(self) -> None:
        await self._transport.aclose()
