"""`QuickRoutes`: what is asked thousands of times a second goes past FastAPI.

FastAPI's routing, middlewares and dependencies take longer than all the rest of a small request. A
quick route is also a route of FastAPI, which describes it and takes what is not of the usual form;
who may is checked by the same code. See docs/decisions/0037-quick-routes.md.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from tallymark.http.access import Allow
from tallymark.http.api_route import admit
from tallymark.http.envelope import SLASH
from tallymark.http.problems import answer_error
from tallymark.store.actors import act_as

Handle: TypeAlias = Callable[[Request, str], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class QuickRoute:
    """A handler of requests for one named thing."""

    method: str
    path: str
    """With `{name}` where the name stands."""
    allow: Allow
    handle: Handle
    fits: Callable[[Scope], bool]
    """Whether a request is of the usual form: all others are FastAPI's."""


class QuickRoutes:
    """Wraps the application that has all routes."""

    def __init__(self, app: ASGIApp, api: Any, prefix: str, routes: Sequence[QuickRoute]) -> None:
        self._app = app
        self._api = api
        self._routes = [(each, _compile(prefix + each.path)) for each in routes]
        self._paths = {id(each): _NamedPath(prefix + each.path) for each in routes}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            for route, path in self._routes:
                if (
                    route.method == scope["method"]
                    and (found := path.fullmatch(scope["path"])) is not None
                    and route.fits(scope)
                ):
                    await self._answer(route, found[1], scope, receive, send)
                    return
        await self._app(scope, receive, send)

    async def _answer(
        self, route: QuickRoute, name: str, scope: Scope, receive: Receive, send: Send
    ) -> None:
        scope["app"], scope["route"] = self._api, self._paths[id(route)]
        request = Request(scope, receive)
        try:
            caller = await admit(request, route.allow.roles, route.allow.rate, route.allow.cost)
            with act_as(caller.actor):
                response = await route.handle(request, name.replace(SLASH, "/"))
        except Exception as error:  # noqa: BLE001 (whatever it was, it is answered)
            response = await answer_error(request, error)
        await response(scope, receive, send)


@dataclass(frozen=True, slots=True)
class _NamedPath:
    """For who counts requests by their routes."""

    path: str


def _compile(path: str) -> re.Pattern[str]:
    before, _, after = path.partition("{name}")
    return re.compile(f"{re.escape(before)}([^/]+){re.escape(after)}")


def is_plain_json(scope: Scope) -> bool:
    """Whether a body is JSON and nothing is asked besides."""
    return not scope["query_string"] and any(
        name == b"content-type" and value.startswith(b"application/json")
        for name, value in scope["headers"]
    )
