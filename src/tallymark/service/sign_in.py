"""The caller of an HTTP request: by key, trusted proxy, page session, or anonymous."""

from __future__ import annotations

import hmac
from base64 import b64decode
from typing import TYPE_CHECKING

from tallymark.errors import NotAllowed, NotSignedIn
from tallymark.service.callers import SESSION_COOKIE, Caller, make_guest
from tallymark.service.limits import group_address

if TYPE_CHECKING:
    from starlette.requests import Request

    from tallymark.service.service import Service

OTLP_PATH = "/v1/traces"


async def find_caller(service: Service, request: Request) -> Caller:
    """The caller by key, by trusted proxy, or anonymous."""
    found = await _find_caller(service, request)
    request.scope["tally.caller"] = found  # for the log
    return found


async def _find_caller(service: Service, request: Request) -> Caller:
    scheme, _, text = request.headers.get("authorization", "").partition(" ")
    address = request.client.host if request.client else None
    if scheme:
        text = _read_key(scheme.lower(), text.strip(), request.url.path)
        if not text:
            raise NotSignedIn("the Authorization header is no key", hint="send: Bearer tly_...")
        accounts = service.accounts
        known = accounts.recall(text, address)
        if known is None:
            try:
                share = group_address(address)  # until the key is known
                known = await service.threads.run(share, accounts.authenticate, text, address)
            except NotSignedIn:
                # Only what fails counts: many with good keys may share an address.
                nobody = Caller("default", "anonymous", "anonymous", address=address)
                service.limits.check(nobody, "sign-in")
                raise
        return known
    if service.proxy is not None and "tally.through_proxy" in request.scope:
        known = service.proxy.find_caller(request.headers, address)
        if known is not None:
            return known
    if (token := request.cookies.get(SESSION_COOKIE)) is not None and not service.own:
        return await _resume(service, request, token, address)
    if service.own:
        _refuse_other_pages(request)
        return Caller("default", "admin", "owner", address=address)
    if service.is_example and request.method in ("GET", "HEAD"):
        return make_guest(address)
    tenant = request.query_params.get("tenant", "default")
    return Caller(tenant, "anonymous", "anonymous", address=address)


def _read_key(scheme: str, text: str, path: str) -> str:
    """The key in a header: alone, or for spans as a password, as Langfuse's SDK sends it.

    Nowhere else: a browser repeats a stored password on every page of an origin.
    """
    if scheme == "basic" and path == OTLP_PATH:
        try:
            return b64decode(text, validate=True).decode().partition(":")[2]
        except ValueError:
            return ""
    return text if scheme == "bearer" else ""


async def _resume(service: Service, request: Request, token: str, address: str | None) -> Caller:
    """The user signed in on pages. Changes need a CSRF token from them."""
    share = group_address(address)
    known = await service.threads.run(share, service.accounts.resume, token, address)
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
    """CSRF check without keys: a foreign page must not act through a visitor's browser."""
    origin = request.headers.get("origin")
    own = f"{request.url.scheme}://{request.headers.get('host')}"
    if origin not in (None, own) and request.method not in ("GET", "HEAD"):
        raise NotAllowed(f"a page of {origin!r} may not act here", hint="use these pages")
