"""The providers' libraries over aiohttp, whose pool does not slow down with every connection.

They speak through httpx2, which lets its transport be replaced. At 100 connections this halves the
time that a request takes of the processor.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

import aiohttp
import httpx2
import msgspec

from tallymark.models.http_sessions import HttpSessions, find_proxy, make_sendable
from tallymark.models.model_answers import drop_odd_usage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from ssl import SSLContext

    from tallymark.models.reach import Reach

_COUNTING = re.compile(rb'"type": ?"message_(start|delta)"')
_SECONDS = httpx2.Timeout(600, connect=10)
Script: TypeAlias = Callable[[httpx2.Request], httpx2.Response]
"""Gives the answer to a request, or raises what sending it would."""
_script: ContextVar[Script | None] = ContextVar("tallymark_http_script", default=None)


@contextmanager
def play(script: Script) -> Iterator[None]:
    """Let a script answer what is sent here meanwhile: nothing goes over the network."""
    token = _script.set(script)
    try:
        yield
    finally:
        _script.reset(token)


def find_script() -> Script | None:
    """The script that answers now."""
    return _script.get()


def make_aiohttp_client(reach: Reach | None = None) -> httpx2.AsyncClient:
    """An httpx2 client that sends its requests through aiohttp."""
    return httpx2.AsyncClient(transport=_AiohttpTransport(reach), timeout=_SECONDS)


class _AiohttpTransport(httpx2.AsyncBaseTransport):
    def __init__(self, reach: Reach | None) -> None:
        self._reach = reach
        trust = load_certificates()
        self._sessions = HttpSessions(trust=trust, reach=reach, auto_decompress=False)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        script = find_script()
        if script is not None:
            return script(request)
        headers = [(key, value) for key, value in request.headers.items() if key != "host"]
        try:
            response = await self._sessions.get().request(
                request.method,
                str(request.url),
                headers=headers,
                data=make_sendable(await request.aread()),
                allow_redirects=False,
                proxy=find_proxy(request.url.scheme, request.url.host, self._reach),
                timeout=make_timeout(request),
            )
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise translate_error(error, request) from error
        return httpx2.Response(
            response.status,
            headers=list(response.raw_headers),
            stream=_ResponseBody(response, request),
        )

    async def aclose(self) -> None:
        await self._sessions.close()


@cache
def load_certificates() -> SSLContext:
    """The certificates that httpx2 trusts; reading them takes a while."""
    return httpx2.create_ssl_context()


class _ResponseBody(httpx2.AsyncByteStream):
    """The response's body, read when asked for."""

    def __init__(self, response: aiohttp.ClientResponse, request: httpx2.Request) -> None:
        self._response = response
        self._request = request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            if self._response.content_type == "text/event-stream":
                # The libraries gather its events before they give an answer.
                yield _mend_usages(await self._response.read())
                return
            async for chunk in self._response.content.iter_any():
                yield chunk
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise translate_error(error, self._request) from error

    async def aclose(self) -> None:
        """Gives the connection back, or drops it when there is more to come."""
        self._response.release()


def _mend_usages(events: bytes) -> bytes:
    """Anthropic's events without counts that cannot be believed: its library would fail."""
    lines = events.split(b"\n")
    for number, line in enumerate(lines):
        if line.startswith(b"data:") and _COUNTING.search(line):
            with suppress(msgspec.DecodeError, UnicodeDecodeError):
                lines[number] = b"data: " + msgspec.json.encode(_mend_usage(line[5:]))
    return b"\n".join(lines)


def _mend_usage(line: bytes) -> dict[str, Any]:
    event = msgspec.json.decode(line, type=dict[str, Any])
    place = event["message"] if isinstance(event.get("message"), dict) else event
    usage = place.get("usage")
    kept = drop_odd_usage({"usage": usage})["usage"].keys()
    may_lack_input = place is event and isinstance(usage, dict) and not usage.get("input_tokens")
    if "output_tokens" not in kept or not ("input_tokens" in kept or may_lack_input):
        place["usage"] = {"input_tokens": 0, "output_tokens": 0}  # which nobody believes
    return event


def make_timeout(request: httpx2.Request) -> aiohttp.ClientTimeout:
    """The request's own time limits, in aiohttp's terms."""
    seconds = request.extensions.get("timeout", {})
    return aiohttp.ClientTimeout(
        total=None, sock_connect=seconds.get("connect"), sock_read=seconds.get("read")
    )


def translate_error(error: Exception, request: httpx2.Request) -> httpx2.TransportError:
    """The same failure in httpx2's terms, which the libraries understand."""
    said = str(error) or type(error).__name__
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return httpx2.ConnectTimeout(said, request=request)
    if isinstance(error, TimeoutError):
        return httpx2.ReadTimeout(said, request=request)
    if isinstance(error, aiohttp.ClientConnectorError):
        return httpx2.ConnectError(said, request=request)
    return httpx2.RemoteProtocolError(said, request=request)
