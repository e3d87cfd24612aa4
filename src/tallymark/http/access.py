"""Who may use a route: data that `ApiRoute` obeys and that a test sweeps.

A route says who may by `dependencies=[may(...)]`. `ApiRoute` finds out who asks before it reads the
body, so that nobody makes the server read what they may not send.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Request

from tallymark.service import callers
from tallymark.service.callers import Caller, Role, check_role
from tallymark.service.limits import RouteClass
from tallymark.service.service import Service
from tallymark.service.tenant import TenantServices

# By the names that routes read like a sentence with: may(ORGANISERS).
ADMINS, COMPETITORS, MEMBERS = callers.ADMINS, callers.COMPETITORS, callers.MEMBERS
ORGANISERS, PUBLIC, REPORTERS = callers.ORGANISERS, callers.PUBLIC, callers.REPORTERS
TEAM = callers.TEAM


@dataclass(frozen=True, slots=True)
class Allow:
    """Who may use a route, and as what its requests are counted."""

    roles: frozenset[Role]
    rate: RouteClass
    cost: int = 1

    async def __call__(self) -> None:
        """Nothing: `ApiRoute` looks before FastAPI does."""

    def check(self, caller: Caller) -> None:
        """Refuses who may not."""
        check_role(caller, self.roles)


def may(roles: frozenset[Role], rate: RouteClass = "read", cost: int = 1) -> Any:
    """For a route's `dependencies`."""
    return Depends(Allow(roles, rate, cost))


def find_service(request: Request) -> Service:
    """What the server process holds."""
    service: Service = request.app.state.service
    return service


async def _get_caller(request: Request) -> Caller:
    caller: Caller = request.state.caller
    return caller


async def _get_services(request: Request) -> TenantServices:
    return find_service(request).tenant(request.state.caller.tenant)


Who = Annotated[Caller, Depends(_get_caller)]
Services = Annotated[TenantServices, Depends(_get_services)]
