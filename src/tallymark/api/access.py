"""Who may use a route: data that `ApiRoute` obeys and that a test sweeps.

A route says who may by `dependencies=[may(...)]`. `ApiRoute` finds out who asks before it reads the
body, so that nobody makes the server read what they may not send.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from typing import Annotated, Any

from anyio import to_thread
from fastapi import Depends, Request

from tallymark.app import callers
from tallymark.app.callers import SESSION_COOKIE, Caller, Role
from tallymark.app.limits import RouteClass
from tallymark.app.service import Service, TenantServices
from tallymark.errors import NotAllowed, NotSignedIn

ORGANISERS: frozenset[Role] = callers.ORGANISERS
REPORTERS: frozenset[Role] = ORGANISERS | {"reporter"}
COMPETITORS: frozenset[Role] = ORGANISERS | {"agent"}
TEAM: frozenset[Role] = REPORTERS | {"viewer"}
"""Everybody but competitors and the public: runs are theirs."""
MEMBERS: frozenset[Role] = TEAM | {"agent"}
PUBLIC: frozenset[Role] = MEMBERS | {"anonymous"}
"""Also who has no key: handlers show them only what is public."""
ADMINS: frozenset[Role] = frozenset({"admin"})


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
        if caller.role in self.roles:
            return
        if caller.role == "anonymous":
            raise NotSignedIn("this needs a key", hint="send it: Authorization: Bearer tly_...")
        raise NotAllowed(
            f"a key of the role {caller.role!r} may not do this",
            hint=f"it takes one of: {', '.join(sorted(self.roles))}",
        )


def may(roles: frozenset[Role], rate: RouteClass = "read", cost: int = 1) -> Any:
    """For a route's `dependencies`."""
    return Depends(Allow(roles, rate, cost))


async def find_caller(request: Request) -> Caller:
    """Who asks: by a key, by a trusted proxy, or nobody in particular."""
    service = find_service(request)
    scheme, _, text = request.headers.get("authorization", "").partition(" ")
    address = request.client.host if request.client else None
    if scheme:
        text = text.strip()
        if scheme.lower() != "bearer" or not text:
            raise NotSignedIn("the Authorization header is no key", hint="send: Bearer tly_...")
        accounts = service.accounts
        known = accounts.recall(text, address)
        if known is None:
            try:
                known = await to_thread.run_sync(accounts.authenticate, text, address)
            except NotSignedIn:
                # Only what fails counts: many with good keys may share an address.
                nobody = Caller("default", "anonymous", "anonymous", address=address)
                service.limits.check(nobody, "sign-in")
                raise
        return known
    if service.proxy is not None:
        known = service.proxy.find_caller(request.headers, address)
        if known is not None:
            return known
    if (token := request.cookies.get(SESSION_COOKIE)) is not None and not service.own:
        return await _resume(service, request, token, address)
    if service.own:
        _refuse_other_pages(request)
        return Caller("default", "admin", "owner", address=address)
    if service.is_example and request.method in ("GET", "HEAD"):
        return callers.make_guest(address)
    tenant = request.query_params.get("tenant", "default")
    return Caller(tenant, "anonymous", "anonymous", address=address)


async def _resume(service: Service, request: Request, token: str, address: str | None) -> Caller:
    """Who is signed in on pages. What changes something must come from them, and say so."""
    known = await to_thread.run_sync(service.accounts.resume, token, address)
    if request.method not in ("GET", "HEAD"):
        _refuse_other_pages(request)
        sent = request.headers.get("x-csrf-token", "")
        if not hmac.compare_digest(sent.encode(), known.csrf.encode()):
            raise NotAllowed(
                "a session may read here; to change something it must send its token",
                hint="send X-CSRF-Token, or a key: Authorization: Bearer tly_...",
            )
    return known.caller


def _refuse_other_pages(request: Request) -> None:
    """Without keys, a page of the web must not act here through the browser of whoever sees it."""
    origin = request.headers.get("origin")
    own = f"{request.url.scheme}://{request.headers.get('host')}"
    if origin not in (None, own) and request.method not in ("GET", "HEAD"):
        raise NotAllowed(f"a page of {origin!r} may not act here", hint="use these pages")


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
