"""A real HTTP server on this machine that gives the answers it was told to give."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
from aiohttp import web


@dataclass
class Reply:
    """One answer: a body as bytes or as JSON, or none at all."""

    body: Any = b""
    status: int = 200
    hangs: bool = False
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class LocalServer:
    """Answers with its replies in turn, the last one again and again, and keeps what was asked."""

    replies: list[Reply] = field(default_factory=list)
    bodies: list[Any] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    url: str = ""

    def will(self, *replies: Reply) -> None:
        self.replies[:] = replies

    async def answer(self, request: web.Request) -> web.Response:
        self.bodies.append(await request.json())
        self.headers.append(dict(request.headers))
        self.paths.append(request.path)
        reply = self.replies[min(len(self.bodies), len(self.replies)) - 1]
        if reply.hangs:
            await asyncio.Event().wait()
        body = reply.body if isinstance(reply.body, bytes) else msgspec.json.encode(reply.body)
        kind = "application/json"
        return web.Response(
            body=body, status=reply.status, content_type=kind, headers=reply.headers
        )


@contextmanager
def serving() -> Iterator[LocalServer]:
    """A server in a thread of its own, so that tests may run event loops as they like."""
    server = LocalServer()
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()
    ready = threading.Event()

    async def serve() -> None:
        app = web.Application()
        app.router.add_post("/{path:.*}", server.answer)
        runner = web.AppRunner(app, shutdown_timeout=0.05)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        ready.set()
        await stop.wait()
        await runner.cleanup()

    def run() -> None:
        # A runner also ends the handlers that hang: a task that the collector finds pending logs
        # an error in whatever test comes later.
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(serve())

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert ready.wait(10)
        yield server
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
