"""The server: API and pages as one ASGI application, and the process that serves it."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.metadata import version
from types import FrameType
from typing import Any

import uvicorn
from anyio import to_thread
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

from tallymark.api import (
    accounts,
    agents,
    attempts,
    boards,
    challenges,
    exports,
    formulas,
    health,
    jobs,
    problems,
    reports,
    runs,
    settings,
)
from tallymark.api.envelope import Envelope
from tallymark.api.quick_routes import QuickRoutes
from tallymark.app.service import Service
from tallymark.wire.attempts import Report
from tallymark.wire.challenges import NewChallenge

PREFIX = "/api/v1"
SHUTDOWN_S = 8
"""Requests that are being served have so long to end after SIGTERM."""
_ROUTERS = (
    runs,
    challenges,
    boards,
    attempts,
    reports,
    agents,
    formulas,
    jobs,
    accounts,
    settings,
    exports,
)
_READ_BY_HAND = (Report, NewChallenge)
"""Bodies that handlers decode themselves: FastAPI does not know of them."""


def make_server(service: Service, *, hosts: frozenset[str] | None = None) -> ASGIApp:
    """The application. `hosts` are the Host headers that it answers to; None for any."""
    app = make_api(service)
    wrapped: ASGIApp = QuickRoutes(app, app, PREFIX, [reports.QUICK, boards.QUICK])
    if service.settings.cors:
        wrapped = CORSMiddleware(
            wrapped,
            allow_origins=service.settings.cors,
            allow_methods=["*"],
            allow_headers=["authorization", "content-type", "idempotency-key", "if-none-match"],
            expose_headers=["etag", "location", "retry-after", "x-request-id"],
        )
    return Envelope(wrapped, note=service.metrics.note_request, hosts=hosts)


def make_api(service: Service) -> FastAPI:
    """The API alone, as FastAPI knows it."""
    app = FastAPI(
        title="Tallymark",
        version=version("tallymark"),
        summary="Scores AI agents by your own idea of good.",
        openapi_url="/openapi.json",
        docs_url=None,
        redoc_url=None,
        lifespan=_make_lifespan(service),
    )
    app.state.service = service
    for each in _ROUTERS:
        app.include_router(each.router, prefix=PREFIX)
    # Where the document of formulas has runs.
    app.include_router(runs.router, prefix="/api", include_in_schema=False)
    app.include_router(health.router)
    problems.install(app)
    app.openapi = lambda: _describe_api(app)  # type: ignore[method-assign]
    return app


def _describe_api(app: FastAPI) -> dict[str, Any]:
    if app.openapi_schema is not None:
        return app.openapi_schema
    document = get_openapi(
        title=app.title, version=app.version, summary=app.summary, routes=app.routes
    )
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    for model in _READ_BY_HAND:
        described = model.model_json_schema(ref_template="#/components/schemas/{model}")
        schemas |= described.pop("$defs", {})
        schemas[model.__name__] = described
    document["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    document["security"] = [{"key": []}, {}]
    for path in document["paths"].values():
        for operation in path.values():
            for status, told in operation.get("responses", {}).items():
                if status >= "400" and (content := told.get("content")):
                    # FastAPI calls every model's answer JSON; these are problems.
                    told["content"] = {problems.MEDIA_TYPE: next(iter(content.values()))}
    app.openapi_schema = document
    return document


def _make_lifespan(service: Service) -> Callable[[FastAPI], Any]:
    @asynccontextmanager
    async def live(_: FastAPI) -> AsyncIterator[None]:
        await to_thread.run_sync(service.open)
        try:
            yield
        finally:
            await service.live.close()
            await to_thread.run_sync(service.close)

    return live


class _Server(uvicorn.Server):
    """Tells who listens that it ends, or it would wait for them to go."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._service.live.end()
        self._service.workers.stop_taking()
        super().handle_exit(sig, frame)
        if sig == signal.SIGTERM and sig in self._captured_signals:
            # It would be raised again at the end, as if nobody had heard it.
            self._captured_signals.remove(sig)


def serve(
    service: Service,
    *,
    host: str,
    port: int,
    hosts: frozenset[str] | None = None,
    started: Callable[[int], None] | None = None,
) -> None:
    """Serves until SIGINT or SIGTERM. `started` is told the port, once it listens."""
    config = uvicorn.Config(
        make_server(service, hosts=hosts),
        host=host,
        port=port,
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=SHUTDOWN_S,
    )
    server = _Server(config, service)
    if started is not None:
        _tell_when_started(server, started)
    server.run()


def _tell_when_started(server: uvicorn.Server, started: Callable[[int], None]) -> None:
    startup = server.startup

    async def start(sockets: Any = None) -> None:
        await startup(sockets=sockets)
        if server.started:
            listening = server.servers[0].sockets[0].getsockname()
            started(int(listening[1]))

    server.startup = start  # type: ignore[method-assign]
