"""The server: API, pages and tools as one ASGI application, and the process that serves it."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from copy import deepcopy
from importlib.metadata import version
from types import FrameType
from typing import Any

import uvicorn
from anyio import to_thread
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import iter_route_contexts
from starlette.applications import Starlette
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from tallymark.connections import ConnectionLimits, make_limits
from tallymark.errors import WorkFailed
from tallymark.http import (
    agents,
    attempts,
    boards,
    challenges,
    events,
    exports,
    health,
    otlp,
    problems,
    reports,
    versus,
)
from tallymark.http.api_route import ApiRoute
from tallymark.http.envelope import Envelope, find_bound
from tallymark.http.openapi import describe_operations
from tallymark.http.operation_routes import make_routes
from tallymark.http.plain_routes import describe_plain
from tallymark.http.quick_routes import QuickRoutes
from tallymark.mcp import endpoint as mcp
from tallymark.service.proxy import BehindProxy
from tallymark.service.resources import RESOURCES
from tallymark.service.runs import Runs
from tallymark.service.service import Service
from tallymark.web.site import make_site
from tallymark.wire.attempts import Report
from tallymark.wire.challenges import NewChallenge, Rescore
from tallymark.wire.parts import Ok

PREFIX = "/api/v1"
SHUTDOWN_S = 8
"""Requests that are being served have so long to end after SIGTERM."""
_ROUTERS = (
    challenges,
    boards,
    attempts,
    versus,
    reports,
    agents,
    exports,
)
_PLAIN_ROUTES = [*events.ROUTES, otlp.ROUTE]
_API_PATHS = ("/api/", "/v1/", "/healthz", "/readyz", "/metrics", "/openapi.json")
_READ_BY_HAND = (Report, NewChallenge, Rescore, Ok)
"""What handlers read or answer by themselves: FastAPI does not know of them."""


class _Doors:
    """API, pages and tools by the address; what goes on while the server lives is the API's."""

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
    """The application. `hosts` are the Host headers that it answers to; None for any."""
    api = make_api(service)
    quick = QuickRoutes(api, api, PREFIX, [reports.QUICK, boards.QUICK])
    tools = mcp.Endpoint(service, find_bound(mcp.PATH))
    wrapped: ASGIApp = _Doors(quick, Starlette(routes=make_site(service)), tools)
    if service.settings.cors:
        wrapped = CORSMiddleware(
            wrapped,
            allow_origins=service.settings.cors,
            allow_methods=["*"],
            allow_headers=[
                *("authorization", "content-type", "idempotency-key"),
                *("if-none-match", "last-event-id", "prefer"),
            ],
            expose_headers=["etag", "location", "retry-after", "x-request-id"],
        )
    server: ASGIApp = Envelope(
        wrapped, memory=service.memory, note=service.note_request, hosts=hosts
    )
    return server if service.proxy is None else BehindProxy(server, service.proxy)


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
    # The document of formulas has runs at /api/runs.
    for prefix, resources in ((PREFIX, RESOURCES.values()), ("/api", [Runs])):
        app.router.routes[:0] = make_routes(service, resources, prefix)
    app.router.routes += [*health.ROUTES, *(each.make_route() for each in _PLAIN_ROUTES)]
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
            _describe_answers(operation, schemas)
    document["paths"] |= health.PATHS | describe_plain(_PLAIN_ROUTES)
    paths, components = describe_operations(RESOURCES.values())
    for path, entries in paths.items():
        document["paths"].setdefault(path, {}).update(entries)
    schemas |= components
    for route in iter_route_contexts(app.routes):
        original = route.original_route
        if isinstance(original, ApiRoute) and original.include_in_schema:
            for method in route.methods or ():
                entry = document["paths"].get(route.path, {}).get(method.lower())
                if entry is not None:
                    entry["x-roles"] = sorted(original.allow.roles)
    app.openapi_schema = document
    return document


def _describe_answers(operation: dict[str, Any], schemas: dict[str, Any]) -> None:
    """What FastAPI does not know: problems, `fields`, and what `validate_only` answers."""
    told = operation["responses"]
    for status, answer in told.items():
        content = answer.get("content", {})
        if status >= "400" and "application/json" in content:
            content[problems.MEDIA_TYPE] = content.pop("application/json")
    names = {each["name"] for each in operation.get("parameters", ())}
    if "fields" in names:
        content = told["200"]["content"]["application/json"]
        content["schema"] = _allow_parts(content["schema"], schemas)
    if "validate_only" in names:
        done = told.get("201") or told.get("200") or told["202"]
        content = done["content"]["application/json"]
        tried = {"anyOf": [content["schema"], {"$ref": "#/components/schemas/Ok"}]}
        known = told.get("200", {"description": "With `validate_only`: it would be done."})
        others = {} if "200" not in told else known.get("content", {})
        told["200"] = {**known, "content": {**others, "application/json": {"schema": tried}}}


def _allow_parts(schema: dict[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    """The schema of an answer whose nouns may have fewer fields than they need."""
    whole: dict[str, Any] = deepcopy(schemas[schema["$ref"].rpartition("/")[2]])
    part = {"type": "object", "description": "With `fields`: those alone."}
    for name, each in whole["properties"].items():
        if name == "items":
            each["items"] = {"anyOf": [each["items"], part]}
        elif "items" not in whole["properties"]:
            whole["properties"][name] = {"anyOf": [each, part]}
    return whole


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

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 (uvicorn calls it so)
        self._service.live.end()
        self._service.workers.stop_taking()
        self._service.app.store.end_soon()
        # As uvicorn does, but for raising the signal again at the end: who was told to stop, and
        # did, has not failed.
        if self.should_exit and sig == signal.SIGINT:
            self.force_exit = True
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # No worker takes a job any more: who waits for one is answered by what there is.
        self._service.app.store.jobs.bell.stop()
        await super().shutdown(sockets)


def serve(
    service: Service,
    *,
    host: str,
    port: int,
    started: Callable[[int], None] | None = None,
    limits: ConnectionLimits | None = None,
) -> None:
    """Serves until SIGINT or SIGTERM. `started` is told the port, once it listens."""
    proxy = service.proxy
    limits = limits or make_limits(proxy.trusts if proxy is not None else lambda _: False)
    with _listen(host, port) as listener:
        port = listener.getsockname()[1]
        app = make_server(service, hosts=name_hosts(port) if service.own else None)
        config = _configure(app, http=limits, ws="none")
        server = _Server(config, service)
        if started is not None:
            _tell_when_started(server, lambda: started(port))
        server.run(sockets=[listener])


@contextmanager
def serve_beside(service: Service) -> Iterator[str]:
    """The address at which one's own store is served on loopback, beside what else goes on here."""
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
                    raise WorkFailed(f"{service.app.store.shown} cannot be served")
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
    """The Host headers of one's own store: this machine's names and this port, and no others.

    Otherwise any page of the web could have its own name lead here, and read through the browser
    of whoever looks at it (DNS rebinding).
    """
    names = ("localhost", "127.0.0.1", "[::1]")
    found = {f"{name}:{port}" for name in names}
    return frozenset(found | set(names) if port == 80 else found)


def _listen(host: str, port: int) -> socket.socket:
    """Before anything is opened: uvicorn would say in its own words that an address is taken."""
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
