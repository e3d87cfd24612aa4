"""Routes written by hand, where a typed call does not fit: event streams, OTLP, exports, health."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tallymark.http.admission import admit, find_service
from tallymark.http.envelope import restore_slashes
from tallymark.http.problems import answer_error
from tallymark.service.callers import Role, acting
from tallymark.service.limits import RouteClass
from tallymark.service.tenant import TenantServices

Handle: TypeAlias = Callable[[Request, TenantServices], Awaitable[Response]]
AnswerError: TypeAlias = Callable[[Request, Exception], Awaitable[Response]]


@dataclass(frozen=True, kw_only=True)
class PlainRoute:
    """A handler with the roles that may use it, and its entry in the OpenAPI document."""

    method: str
    path: str
    handle: Handle
    may: frozenset[Role]
    rate: RouteClass = "read"
    parameters: type[msgspec.Struct] | None = None
    """Path and query."""
    entry: Mapping[str, Any] = field(default_factory=dict)
    answer_error: AnswerError = answer_error

    def make_route(self) -> Route:
        """Build the route: the handler is called once the caller is known and admitted."""

        async def answer(request: Request) -> Response:
            try:
                restore_slashes(request.scope)
                caller = await admit(request, self.may, self.rate)
                services = find_service(request).tenant(caller.tenant)
                with acting(caller):
                    return await self.handle(request, services)
            except Exception as error:  # noqa: BLE001 (every error has an answer)
                return await self.answer_error(request, error)

        return Route(self.path, answer, methods=[self.method])
