"""A TCP proxy that delays, cuts, duplicates or refuses requests, by a plan or a seed.

    with FaultyProxy("http://127.0.0.1:8321") as proxy:
        proxy.plan("drop after", "truncate", None)     # what happens to the next three requests
        proxy.rage(random.Random(7), 0.3)              # or to three of ten, from now on

It reads whole requests of HTTP/1.1, so that it knows what the server has done when it lets go.
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal, Self
from urllib.parse import urlsplit

Fault = Literal["drop before", "drop after", "delay", "repeat", "truncate", "busy", "gateway"]
FAULTS: tuple[Fault, ...] = (
    *("drop before", "drop after", "delay", "repeat", "truncate", "busy", "gateway"),
)
DELAY_S = 0.05
_BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 0\r\nContent-Length: 4\r\n"
    b"Connection: close\r\n\r\nbusy"
)
"""Of something between, which does not speak as the server does."""
_GATEWAY = b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


@dataclass(frozen=True)
class Request:
    """What somebody asked."""

    method: str
    path: str
    raw: bytes


class FaultyProxy:
    """Listens on loopback, for the time of a `with`, and passes on what it does not spoil."""

    def __init__(self, target: str) -> None:
        parts = urlsplit(target)
        self._target = (parts.hostname or "127.0.0.1", parts.port or 80)
        self._plan: deque[Fault | None] = deque()
        self._choose: Callable[[], Fault | None] = lambda: None
        self._spoils: Callable[[Request], bool] = lambda _: True
        self.asked: list[tuple[str, str, Fault | None]] = []
        """Method, path and fault of every request."""
        self._serving: set[asyncio.Task[None] | None] = set()
        """The loop itself holds tasks so weakly that one which waits could be collected."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)

    def __enter__(self) -> Self:
        self._thread.start()
        serving = asyncio.start_server(self._serve, "127.0.0.1", 0, limit=2**24)
        self._server = asyncio.run_coroutine_threadsafe(serving, self._loop).result()
        return self

    def __exit__(self, *_: object) -> None:
        async def stop() -> None:
            self._server.close()
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for each in others:
                each.cancel()
            await asyncio.gather(*others, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(stop(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    @property
    def faults(self) -> Counter[Fault]:
        """What has happened so far."""
        return Counter(fault for *_, fault in self.asked if fault is not None)

    def plan(self, *faults: Fault | None, only: Callable[[Request], bool] | None = None) -> None:
        """What happens to the next requests, or to the next of those that are meant."""
        self._plan = deque(faults)
        self._spoils = only or (lambda _: True)

    def rage(self, rng: random.Random, share: float) -> None:
        """From now on, such a share of requests fails in some way."""
        self._plan.clear()
        self._choose = lambda: rng.choice(FAULTS) if rng.random() < share else None

    def calm(self) -> None:
        """From now on, nothing fails."""
        self._plan.clear()
        self._choose = lambda: None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        self._serving.add(task)
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            request = await _read_request(reader)
            fault = None
            if self._spoils(request):
                fault = self._plan.popleft() if self._plan else self._choose()
            self.asked.append((request.method, request.path, fault))
            await self._answer(request, fault, writer)
        self._serving.discard(task)
        with suppress(OSError):
            writer.close()

    async def _answer(
        self, request: Request, fault: Fault | None, writer: asyncio.StreamWriter
    ) -> None:
        if fault == "drop before":
            return
        if fault in ("busy", "gateway"):
            writer.write(_BUSY if fault == "busy" else _GATEWAY)
            await writer.drain()
            return
        if fault == "delay":
            await asyncio.sleep(DELAY_S)
        if fault is None or fault == "delay":
            await self._stream(request, writer)
            return
        # What is repeated arrives twice at the same time; the answer to the second is heard.
        asked = [self._ask(request) for _ in range(2 if fault == "repeat" else 1)]
        *_, answer = await asyncio.gather(*asked)
        if fault == "drop after":
            return
        head = answer.find(b"\r\n\r\n") + 4
        cut = max(head, len(answer) - max(1, (len(answer) - head) // 2))
        writer.write(answer if fault == "repeat" else answer[:cut])
        await writer.drain()

    async def _ask(self, request: Request) -> bytes:
        reader, writer = await asyncio.open_connection(*self._target)
        try:
            writer.write(request.raw)
            await writer.drain()
            return await reader.read()
        finally:
            writer.close()

    async def _stream(self, request: Request, out: asyncio.StreamWriter) -> None:
        """Passes on what comes when it comes: it may be events without an end."""
        reader, writer = await asyncio.open_connection(*self._target)
        try:
            writer.write(request.raw)
            await writer.drain()
            while data := await reader.read(65536):
                out.write(data)
                await out.drain()
        finally:
            writer.close()


async def _read_request(reader: asyncio.StreamReader) -> Request:
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head[:-4].split(b"\r\n")
    method, path, _ = first.decode("latin-1").split(" ", 2)
    pairs = (line.split(b":", 1) for line in lines)
    headers = {name.strip().lower(): value.strip() for name, value in pairs}
    body = b""
    if b"chunked" in headers.get(b"transfer-encoding", b""):
        while not body.endswith(b"0\r\n\r\n"):
            body += await reader.readuntil(b"\r\n")
    elif length := int(headers.get(b"content-length", b"0")):
        body = await reader.readexactly(length)
    # One request a connection: then the end of an answer is the end of the connection.
    kept = [line for line in lines if not line.lower().startswith(b"connection:")]
    raw = b"\r\n".join([first, *kept, b"Connection: close", b"", b""]) + body
    return Request(method, path, raw)
