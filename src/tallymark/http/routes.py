"""Admission of requests, and routes written by hand where a typed call does not fit."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tallymark.http.middleware import restore_slashes
from tallymark.http.problems import answer_error, refuse
from tallymark.service.callers import Caller, Role, acting, check_role
from tallymark.service.limits import RouteClass
from tallymark.service.service import Service
from tallymark.service.sign_in import find_caller
from tallymark.service.tenant import TenantServices

Handle: TypeAlias = Callable[[Request, TenantServices], Awaitable[Response]]
AnswerError: TypeAlias = Callable[[Request, Exception], Awaitable[Response]]


_LONGEST_KEY = 255


def find_service(request: Request) -> Service:
    """Return the services of the server process."""
    service: Service = request.app.state.service
    return service


async def admit(
    request: Request, roles: frozenset[Role], rate: RouteClass, cost: int = 1
) -> Caller:
    """Find the caller of a request, and refuse one who may not or asks too often."""
    if "\0" in request.scope["path"] or b"%00" in request.scope["query_string"]:
        raise refuse(400, "the address holds a NUL character", "leave it out")
    service = find_service(request)
    caller = await find_caller(service, request)
    request.state.caller = caller
    check_role(caller, roles)
    service.limits.check(caller, rate, cost)
    return caller


def check_key(key: str | None) -> str | None:
    """Return an idempotency key as it was sent; refuse one that cannot be stored."""
    if key is not None and not (0 < len(key) <= _LONGEST_KEY and key.isprintable()):
        hint = f"give 1 to {_LONGEST_KEY} characters"
        raise refuse(400, "Idempotency-Key: it cannot be used", hint)
    return key


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
