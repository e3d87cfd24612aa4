"""The server: API, pages and tools as one ASGI application, and the process that serves it."""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import cache
from types import FrameType
from typing import Any

import msgspec
import uvicorn
from anyio import to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from tallymark.connections import ConnectionLimits, make_limits
from tallymark.errors import TallymarkError, WorkFailed
from tallymark.http import health, otlp, streams
from tallymark.http.middleware import RequestMiddleware, find_bound
from tallymark.http.openapi import describe_api
from tallymark.http.operation_routes import PREFIX, make_routes
from tallymark.http.problems import answer_error
from tallymark.mcp import endpoint as mcp
from tallymark.service.proxy import BehindProxy
from tallymark.service.resources import load_resources
from tallymark.service.runs import Runs
from tallymark.service.service import Service
from tallymark.web.site import make_site

SHUTDOWN_S = 5
"""Time for running requests after SIGTERM; then they are answered 503."""
LATEST_END_S = 7.5
"""The process ends at most this long after SIGTERM, even if threads still wait."""
_log = logging.getLogger(__name__)
_PLAIN_ROUTES = (*streams.ROUTES, otlp.ROUTE)
_API_PATHS = ("/api/", "/v1/", "/healthz", "/readyz", "/metrics", "/openapi.json")


class _Doors:
    """Dispatch requests to API, pages or tools by path; the lifespan is the API's."""

    def __init__(self, api: ASGIApp, pages: ASGIApp, tools: ASGIApp) -> None:
        self._api = api
        self._pages = pages
        self._tools = tools

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] == mcp.PATH:
            await self._tools(scope, receive, send)
            return
        is_page = scope["type"] == "http" and not scope["path"].startswith(_API_PATHS)
        await (self._pages if is_page else self._api)(scope, receive, send)


def make_server(service: Service, *, hosts: frozenset[str] | None = None) -> ASGIApp:
    """Make the application. `hosts` are the Host headers that it answers to; None for any."""
    api = make_api(service)
    tools = mcp.Endpoint(service, find_bound(mcp.PATH))
    wrapped: ASGIApp = _Doors(api, Starlette(routes=make_site(service)), tools)
    if service.settings.cors:
        wrapped = CORSMiddleware(
            wrapped,
            allow_origins=service.settings.cors,
            allow_methods=["*"],
            allow_headers=[
                *("authorization", "content-type", "idempotency-key"),
                *("if-none-match", "last-event-id"),
            ],
            expose_headers=["etag", "location", "retry-after", "x-request-id"],
        )
    server: ASGIApp = RequestMiddleware(
        wrapped,
        memory=service.memory,
        note=service.note_request,
        hosts=hosts,
        is_ending=lambda: service.is_ending,
    )
    return server if service.proxy is None else BehindProxy(server, service.proxy)


def make_api(service: Service) -> Starlette:
    """Make the API without pages and tools."""
    app = Starlette(
        routes=[
            *make_routes(service, load_resources(), PREFIX),
            # The document of formulas has runs at /api/runs.
            *make_routes(service, [Runs], "/api"),
            *(each.make_route() for each in _PLAIN_ROUTES),
            *health.ROUTES,
            Route("/openapi.json", _answer_openapi),
        ],
        lifespan=_make_lifespan(service),
        exception_handlers=dict.fromkeys(
            (HTTPException, TallymarkError, ClientDisconnect, Exception), answer_error
        ),
    )
    app.state.service = service
    return app


@cache
def describe_server() -> dict[str, Any]:
    """Make the OpenAPI document."""
    return describe_api(load_resources(), _PLAIN_ROUTES)


def _answer_openapi(_: Request) -> Response:
    return Response(msgspec.json.encode(describe_server()), media_type="application/json")


def _make_lifespan(service: Service) -> Callable[[Starlette], Any]:
    @asynccontextmanager
    async def live(_: Starlette) -> AsyncIterator[None]:
        await to_thread.run_sync(service.open)
        try:
            yield
        finally:
            await service.live.close()
            await to_thread.run_sync(service.close)

    return live


class _Server(uvicorn.Server):
    """Ends event streams at shutdown; uvicorn alone would wait for their clients to leave."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 (uvicorn calls it so)
        self._service.stop_soon()
        # Unlike uvicorn, do not raise the signal again at the end: a requested stop is a success.
        if self.should_exit and sig == signal.SIGINT:
            self.force_exit = True
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        threading.Thread(target=_end_at_last, name="tally-end", daemon=True).start()
        self._service.stop_waiting()
        await super().shutdown(sockets)


def _end_at_last() -> None:
    """End the process even if a thread hangs: acknowledged writes are committed."""
    threading.Event().wait(LATEST_END_S)
    _log.warning("some threads did not end in time; the process ends without them")
    logging.shutdown()
    os._exit(0)


def serve(
    service: Service,
    *,
    host: str,
    port: int,
    bound: Callable[[], None] | None = None,
    started: Callable[[int], None] | None = None,
    limits: ConnectionLimits | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM.

    `bound` is called when the address is taken, before anything is served; `started` is called with
    the port once requests are answered.
    """
    proxy = service.proxy
    limits = limits or make_limits(proxy.trusts if proxy is not None else lambda _: False)
    with _listen(host, port) as listener:
        port = listener.getsockname()[1]
        if bound is not None:
            bound()
        app = make_server(service, hosts=name_hosts(port) if service.own else None)
        config = _configure(app, http=limits, ws="none")
        server = _Server(config, service)
        if started is not None:
            _tell_when_started(server, lambda: started(port))
        server.run(sockets=[listener])


@contextmanager
def serve_beside(service: Service) -> Iterator[str]:
    """Serve a local store on loopback in a background thread, and return its address."""
    with _listen("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        server = uvicorn.Server(_configure(make_server(service, hosts=name_hosts(port))))
        started = threading.Event()
        _tell_when_started(server, started.set)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            while not started.wait(0.1):
                if not thread.is_alive():
                    raise WorkFailed(f"{service.app.database} cannot be served")
            yield f"http://127.0.0.1:{port}"
        finally:
            server.should_exit = True
            thread.join()


def _configure(app: ASGIApp, **more: Any) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        log_level="warning",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=SHUTDOWN_S,
        **more,
    )


def name_hosts(port: int) -> frozenset[str]:
    """List the Host headers of a local store: names of this machine with this port.

    Any other name could be a web page that resolves to this address and reads the store through
    the browser of its visitor (DNS rebinding).
    """
    names = ("localhost", "127.0.0.1", "[::1]")
    found = {f"{name}:{port}" for name in names}
    return frozenset(found | set(names) if port == 80 else found)


def _listen(host: str, port: int) -> socket.socket:
    """Listen before anything is opened, so that a taken address is one plain sentence."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise WorkFailed(
            f"nothing can listen at {host}:{port}: {error.strerror or error}",
            hint="name another with --port, or any that is free with --port 0",
        ) from None


def _tell_when_started(server: uvicorn.Server, started: Callable[[], None]) -> None:
    startup = server.startup

    async def start(sockets: Any = None) -> None:
        await startup(sockets=sockets)
        if server.started:
            started()

    server.startup = start  # type: ignore[method-assign]
