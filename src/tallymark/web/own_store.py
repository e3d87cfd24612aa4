"""The pages of one's own store, without keys: for `tally view`, on this machine alone.

The Host header must name this machine. Otherwise any page of the web could have its own name lead
here, and read through the browser of whoever looks at it (DNS rebinding).
"""

from __future__ import annotations

import time
from collections.abc import Callable

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from tallymark.app.app import App
from tallymark.web.site import make_site
from tallymark.web.visitor import Visitor, make_owner

_NAMES = ("localhost", "127.0.0.1", "[::1]")


class HostGuard:
    """Lets requests through that name this machine and this port."""

    def __init__(self, app: ASGIApp, port: int) -> None:
        self._app = app
        self._allowed = {f"{name}:{port}" for name in _NAMES}
        if port == 80:
            self._allowed |= set(_NAMES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            hosts = [value for name, value in scope["headers"] if name == b"host"]
            said = hosts[0].decode("latin-1").lower() if len(hosts) == 1 else ""
            if said not in self._allowed:
                words = f"These pages are at http://{min(self._allowed)}/ alone.\n"
                await PlainTextResponse(words, status_code=421)(scope, receive, send)
                return
        await self._app(scope, receive, send)


def make_own_site(app: App, port: int, *, clock: Callable[[], float] = time.time) -> ASGIApp:
    """All pages for the owner of a store."""
    owner = make_owner(app.tenant)

    def find_visitor(_: Request) -> Visitor:
        return owner

    site = Starlette(routes=make_site(app, find_visitor=find_visitor, clock=clock))
    return HostGuard(site, port)
