"""Bounds on connections: silent and slow clients are disconnected, and no address may hold many.

uvicorn ends idle keep-alive connections and nothing else, so this adds time limits for headers and
bodies, and counts connections. An answer may run for hours (event streams do).
"""

from __future__ import annotations

import asyncio
import logging
import math
import resource
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from tallymark.service.limits import group_address

_log = logging.getLogger(__name__)
_TOLD_EVERY_S = 60.0
_MOST_DESCRIPTORS = 2**20
"""Some systems have no limit at all, and programs that close every possible descriptor."""
_KEPT_FOR_OTHERS = 4
"""One of this many descriptors is reserved for the database, sandboxes and files."""


@dataclass(kw_only=True)
class ConnectionLimits:
    """Limits of one server, with a count of the open connections."""

    header_s: float = 10.0
    """From the first moment of a connection, or of a later request on it, to the whole header."""
    body_s: float = 30.0
    """In each such period, `body_bytes` of an unfinished body must arrive."""
    body_bytes: int = 1_000
    header_bytes: int = 65_536
    """Most bytes of address and headers; chunk framing may add eight times the body size."""
    headers: int = 200
    unread_s: float = 300.0
    """Longest time that a client may leave an answer unread."""
    per_address: int = 1_000
    total: int = 10_000
    is_proxy: Callable[[str | None], bool] = lambda _: False
    """Trusted proxies connect for many clients, and are not counted."""
    open: Counter[str] = field(default_factory=Counter)
    refused: int = 0
    """Refused connections since the last log line."""
    _told_at: float = -math.inf

    def note_refused(self, count: int) -> None:
        """Log refused connections, at most once a minute."""
        self.refused += 1
        if (now := time.monotonic()) - self._told_at >= _TOLD_EVERY_S:
            _log.warning(
                "%d connections refused: %d are open, of %d at most and %d of one address",
                *(self.refused, count, self.total, self.per_address),
            )
            self.refused, self._told_at = 0, now

    def __call__(self, **given: Any) -> HttpToolsProtocol:
        """Make the protocol of a new connection: uvicorn calls it as it would call the class."""
        return _BoundedProtocol(self, **given)


def make_limits(is_proxy: Callable[[str | None], bool]) -> ConnectionLimits:
    """Make limits for this process, and raise its descriptor limit as far as allowed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _MOST_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return ConnectionLimits(
        per_address=min(2_000, wanted // 4),
        total=wanted - wanted // _KEPT_FOR_OTHERS,
        is_proxy=is_proxy,
    )


class _BoundedProtocol(HttpToolsProtocol):
    def __init__(self, limits: ConnectionLimits, **given: Any) -> None:
        super().__init__(**given)
        self._limits = limits
        self._counted: str | None = None
        self._timer: asyncio.TimerHandle | None = None
        """Runs while a header or a body is expected."""
        self._unread: asyncio.TimerHandle | None = None
        self._in_message = False
        self._in_body = False
        self._body_bytes = 0
        """Body bytes in the current timer period."""
        self._all_body_bytes = self._message_bytes = 0
        """Body bytes of the connection, and of the current message."""
        self._other_bytes = 0
        """Bytes of an incomplete message that are not body."""
        self._running: RequestResponseCycle | None = None
        """The request that is being answered; `cycle` may be one that waits behind it."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        limits, peer = self._limits, self.client[0] if self.client else None
        too_many = len(self.connections) > limits.total
        if not limits.is_proxy(peer):
            self._counted = group_address(peer)
            limits.open[self._counted] += 1
            too_many = too_many or limits.open[self._counted] > limits.per_address
        if too_many:
            limits.note_refused(len(self.connections))
            transport.abort()
        else:
            self._start(limits.header_s)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        self.resume_writing()
        # uvicorn notifies only the newest request; earlier ones would never end.
        for cycle in (self._running, *(each for each, _ in self.pipeline)):
            if cycle is not None and not cycle.response_complete:
                cycle.disconnected = True
                cycle.message_event.set()
        self.pipeline.clear()
        if self._counted is not None:
            self._limits.open[self._counted] -= 1
            if not self._limits.open[self._counted]:
                del self._limits.open[self._counted]
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        before = self._all_body_bytes
        super().data_received(data)
        body = self._all_body_bytes - before
        if self._in_message:
            self._other_bytes += len(data) - body
            if self._other_bytes > self._limits.header_bytes + 8 * self._message_bytes:
                self.transport.abort()
                return
        # Also what begins no request, such as empty lines: uvicorn has stopped its own timer.
        waits = self.cycle is None or self.cycle.response_complete  # type: ignore[redundant-expr]
        if waits and self._timer is None and self.timeout_keep_alive_task is None:
            self._start(self._limits.header_s)

    def on_message_begin(self) -> None:
        self._in_message = True
        self._other_bytes = self._message_bytes = self._header_bytes = 0
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        # Counted here too: a whole request may come at once.
        self._header_bytes += len(name) + len(value)
        if (
            len(self.headers) < self._limits.headers
            and self._header_bytes <= self._limits.header_bytes
        ):
            super().on_header(name, value)
        else:
            self.transport.abort()

    def on_headers_complete(self) -> None:
        self._stop()
        self._in_body, self._body_bytes = True, 0
        self._start(self._limits.body_s)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        self._all_body_bytes += len(body)
        self._message_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._stop()
        self._in_message = self._in_body = False
        super().on_message_complete()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        if self.transport.get_write_buffer_size():
            # Closing waits until the client has read the rest of the last answer.
            self.loop.call_later(self._limits.unread_s, self.transport.abort)

    def pause_writing(self) -> None:
        self._unread = self.loop.call_later(self._limits.unread_s, self.transport.abort)
        super().pause_writing()

    def resume_writing(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
        super().resume_writing()

    def _start(self, seconds: float) -> None:
        self._timer = self.loop.call_later(seconds, self._look)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        """Disconnect a client that was too slow; one that waits for us has time."""
        if self._in_body and (
            self._body_bytes >= self._limits.body_bytes
            or self.flow.read_paused
            or self.cycle.waiting_for_100_continue
        ):
            self._body_bytes = 0
            self._start(self._limits.body_s)
        else:
            self.transport.abort()
