"""Admission of a request: who the caller is, whether they may, and how often."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallymark.http.problems import refuse
from tallymark.service.callers import Caller, Role, check_role
from tallymark.service.sign_in import find_caller

if TYPE_CHECKING:
    from starlette.requests import Request

    from tallymark.service.limits import RouteClass
    from tallymark.service.service import Service

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
