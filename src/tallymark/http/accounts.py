"""`/keys`, `/invitations`, `/tenants` and registering agents: who may use the server."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from fastapi import Query, Request, Response

from tallymark.http.access import (
    ADMINS,
    MEMBERS,
    ORGANISERS,
    PUBLIC,
    Who,
    find_service,
    may,
)
from tallymark.http.answers import ValidateOnly, answer, answer_once
from tallymark.http.api_route import make_router
from tallymark.service.accounts import AccountService
from tallymark.service.callers import Caller
from tallymark.store.accounts.invitations import Invitation
from tallymark.store.accounts.keys import KeyRecord
from tallymark.wire import accounts as wire

router = make_router("accounts")


def _find_accounts(request: Request, caller: Caller) -> AccountService:
    return find_service(request).accounts.for_tenant(caller.tenant)


def _describe(record: KeyRecord | Invitation) -> dict[str, Any]:
    """All that is known: neither has its secret in it."""
    return msgspec.structs.asdict(record)


def _find_end(request: Request, seconds: float | None) -> float | None:
    return None if seconds is None else find_service(request).clock() + seconds


@router.get("/keys", response_model=wire.KeyPage, dependencies=[may(MEMBERS)])
def list_keys(
    request: Request,
    caller: Who,
    owner: Annotated[str | None, Query(max_length=100)] = None,
    agent: Annotated[str | None, Query(max_length=40)] = None,
) -> Response:
    """The keys that yours may manage, oldest first; the keys themselves are shown to nobody."""
    found = _find_accounts(request, caller).list_keys(caller, owner=owner, agent=agent)
    return answer({"items": [_describe(each) for each in found], "next": None})


@router.post(
    "/keys",
    response_model=wire.MadeKey,
    status_code=201,
    dependencies=[may(ORGANISERS, "write")],
)
def create_key(
    body: wire.NewKey, request: Request, caller: Who, validate_only: ValidateOnly = False
) -> Response:
    """Make a key. It is shown this once."""
    made = _find_accounts(request, caller).create_key(
        caller,
        role=body.role,
        name=body.name,
        owner=body.owner,
        agent=body.agent,
        expires_at=_find_end(request, body.expires_in_s),
    )
    return answer_once({"key": _describe(made.key), "secret": made.text}, "secret")


@router.post(
    "/keys/{key}/rotate",
    response_model=wire.MadeKey,
    status_code=201,
    dependencies=[may(MEMBERS, "write")],
)
def rotate_key(
    key: str,
    body: wire.RotateKey,
    request: Request,
    caller: Who,
    validate_only: ValidateOnly = False,
) -> Response:
    """A new key for an old one, which works for a while longer."""
    accounts = _find_accounts(request, caller)
    until = _find_end(request, body.expires_in_s)
    made = accounts.rotate_key(caller, key, overlap_s=float(body.overlap_s), expires_at=until)
    return answer_once({"key": _describe(made.key), "secret": made.text}, "secret")


@router.post("/keys/{key}/revoke", response_model=wire.OneKey, dependencies=[may(MEMBERS, "write")])
def revoke_key(
    key: str, request: Request, caller: Who, validate_only: ValidateOnly = False
) -> Response:
    """End a key, on every server within seconds."""
    accounts = _find_accounts(request, caller)
    return answer({"key": _describe(accounts.revoke_key(caller, key))})


@router.get("/me", response_model=wire.OneCaller, dependencies=[may(PUBLIC)])
def get_me(caller: Who) -> Response:
    """Who you are to the server."""
    names = ("tenant", "role", "name", "owner", "agent", "key_id")
    return answer({"caller": {name: getattr(caller, name) for name in names}})


@router.get("/invitations", response_model=wire.InvitationPage, dependencies=[may(ORGANISERS)])
def list_invitations(request: Request, caller: Who) -> Response:
    """Invitations that yours could have made, oldest first."""
    found = _find_accounts(request, caller).list_invitations(caller)
    return answer({"items": [_describe(each) for each in found], "next": None})


@router.post(
    "/invitations",
    response_model=wire.MadeInvitation,
    status_code=201,
    dependencies=[may(ORGANISERS, "write")],
)
def invite(
    body: wire.NewInvitation, request: Request, caller: Who, validate_only: ValidateOnly = False
) -> Response:
    """Invite others to a key of their own. The code is shown this once."""
    made = _find_accounts(request, caller).invite(
        caller,
        role=body.role,
        owner=body.owner,
        uses=body.uses,
        expires_at=_find_end(request, body.expires_in_s),
    )
    told = {"invitation": _describe(made.invitation)}
    return answer_once({**told, "code": made.text}, "code")


@router.post("/invitations/{invitation}/revoke", dependencies=[may(ORGANISERS, "write")])
def revoke_invitation(
    invitation: str, request: Request, caller: Who, validate_only: ValidateOnly = False
) -> Response:
    """Nobody can accept it any more."""
    _find_accounts(request, caller).revoke_invitation(caller, invitation)
    return answer({"invitation": {"id": invitation, "revoked": True}})


@router.post(
    "/invitations/accept",
    response_model=wire.MadeKey,
    status_code=201,
    dependencies=[may(PUBLIC, "sign-in")],
)
def accept_invitation(
    body: wire.Accept, request: Request, validate_only: ValidateOnly = False
) -> Response:
    """Take an invitation up: a key of your own, and your agent registered. Shown this once."""
    made = find_service(request).accounts.accept_invitation(
        body.code, owner=body.owner, agent=body.agent, secret=body.secret
    )
    return answer_once({"key": _describe(made.key), "secret": made.text}, "secret")


@router.post(
    "/agents",
    response_model=wire.MadeKey,
    status_code=201,
    dependencies=[may(PUBLIC, "sign-in")],
)
def register_agent(
    body: wire.NewAgent, request: Request, caller: Who, validate_only: ValidateOnly = False
) -> Response:
    """Register an agent where the tenant is open to that; its key is shown this once."""
    made = _find_accounts(request, caller).register(caller, agent=body.agent, owner=body.owner)
    return answer_once({"key": _describe(made.key), "secret": made.text}, "secret")


@router.get("/tenants", response_model=wire.TenantPage, dependencies=[may(ADMINS)])
def list_tenants(request: Request, caller: Who) -> Response:
    """For operators, the admins of the tenant `default`: the tenants."""
    found = _find_accounts(request, caller).list_tenants(caller)
    return answer({"items": msgspec.to_builtins(found), "next": None})
