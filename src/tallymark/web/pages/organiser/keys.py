"""Page of keys, invitations and registration settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, get_args

import msgspec

from tallymark.errors import InvalidInput
from tallymark.service.keys import (
    MAY_MAKE,
    Invitation,
    Key,
    Registration,
    Tenant,
    TenantSettings,
    is_operator,
)
from tallymark.text import format_number
from tallymark.web.organising import confirm_at, require_organiser
from tallymark.web.page import Outcome, Page, Pager, View
from tallymark.web.page_request import PageRequest

_STATES = ("valid", "all")
_DAY, _HOUR = 86_400.0, 3600.0


class KeysView(View, frozen=True, kw_only=True):
    """Keys, invitations and settings of a tenant."""

    keys: list[Key]
    pager: Pager
    valid: int
    state: str
    text: str
    invitations: list[Invitation]
    """Usable invitations."""
    roles: list[str]
    """Roles for which the visitor may make keys."""
    settings: TenantSettings | None
    """Only for admins."""
    registrations: list[str]
    tenants: list[Tenant]
    """Only for operators."""

    def list_rows(self) -> Iterable[Mapping[str, Any]]:
        """A row for each key."""
        return (msgspec.structs.asdict(each) for each in self.keys)


class MadeView(View, frozen=True, kw_only=True):
    """A new key or invitation, shown once."""

    kind: str
    secret: str | None
    made: Key | Invitation


def gather(request: PageRequest) -> KeysView:
    """Gather the keys that the visitor may manage, newest first."""
    require_organiser(request)
    caller = request.caller
    found = list(request.tally.keys.list())
    state, text = request.choose("state", _STATES), request.get("q").casefold()
    valid = sum(each.is_valid(request.now) for each in found)
    shown = [
        each
        for each in reversed(found)
        if (state == "all" or each.is_valid(request.now))
        and text in f"{each.name} {each.owner} {each.agent or ''} {each.role}".casefold()
    ]
    pager = request.read_pager(len(shown))
    exists = request.services.exists
    mine = request.tally.tenants.get(caller.tenant) if caller.role == "admin" and exists else None
    return KeysView(
        title=f"{valid} {'key opens' if valid == 1 else 'keys open'} this server",
        keys=shown[pager.offset : pager.offset + pager.limit],
        pager=pager,
        valid=valid,
        state=state,
        text=request.get("q"),
        invitations=_list_usable(request),
        roles=list(reversed(MAY_MAKE.get(caller.role, ()))),
        settings=None if mine is None else mine.settings,
        registrations=list(get_args(Registration)),
        tenants=_list_tenants(request) if exists else [],
    )


def _list_usable(request: PageRequest) -> list[Invitation]:
    return [
        each
        for each in request.tally.invitations.list()
        if each.revoked_at is None and each.uses_left and each.expires_at > request.now
    ]


def _list_tenants(request: PageRequest) -> list[Tenant]:
    """List tenants, if there are several."""
    found = list(request.tally.tenants.list()) if is_operator(request.caller) else []
    return found if len(found) > 1 else []


def _read_number(request: PageRequest, name: str, words: str, most: float) -> float | None:
    text = request.form.get(name)
    if not text:
        return None
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 < number <= most:
        raise InvalidInput(f"{words} is no number from 0 to {format_number(most)}: {text[:40]!r}")
    return number


def _read_seconds(request: PageRequest) -> float | None:
    days = _read_number(request, "days", "how many days it lasts", 36_500)
    return None if days is None else days * _DAY


def _show_once(kind: str, secret: str | None, made: Key | Invitation) -> Outcome:
    view = MadeView(title=f"A new {kind}", kind=kind, secret=secret, made=made)
    return Outcome(view=view, template="organiser/made.html")


def make(request: PageRequest) -> Outcome:
    require_organiser(request)
    form = request.form
    role: Any = form.get("role")
    agent = form.get("agent") or None
    made = request.tally.keys.add(
        form.get("name") or agent or role,
        role,
        agent=agent,
        owner=form.get("owner") or None,
        expires_in_s=_read_seconds(request),
    )
    return _show_once("key", made.secret, made.key)


def rotate(request: PageRequest) -> Outcome:
    """Replace a key by a new one; the old one works for a while longer."""
    require_organiser(request)
    hours = _read_number(request, "hours", "how many hours the old key works on", 720)
    overlap = 0.0 if hours is None else hours * _HOUR
    made = request.tally.keys.rotate(request.form.get("key"), overlap_s=overlap)
    return _show_once("key", made.secret, made.key)


def revoke(request: PageRequest) -> Outcome:
    require_organiser(request)
    request.tally.keys.revoke(request.form.get("key"))
    return confirm_at(request.path, "revoked")


def invite(request: PageRequest) -> Outcome:
    require_organiser(request)
    form = request.form
    uses = form.get("uses") or "1"
    if not (uses.isascii() and uses.isdigit() and 0 < int(uses[:6]) <= 10_000):
        raise InvalidInput(f"how often it can be used is no number to 10,000: {uses[:40]!r}")
    role: Any = form.get("role")
    made = request.tally.invitations.add(
        role,
        owner=form.get("owner") or None,
        uses=int(uses),
        expires_in_s=_read_seconds(request),
    )
    return _show_once("invitation", made.code, made.invitation)


def withdraw(request: PageRequest) -> Outcome:
    require_organiser(request)
    request.tally.invitations.revoke(request.form.get("invitation"))
    return confirm_at(request.path, "withdrawn")


def settle(request: PageRequest) -> Outcome:
    """Change who may register agents, and how many."""
    require_organiser(request)
    changes: dict[str, Any] = {"registration": request.form.get("registration")}
    for name in ("agents_per_owner", "registrations_per_address"):
        if text := request.form.get(name):
            if not (text.isascii() and text.isdigit() and len(text) < 10):
                raise InvalidInput(f"{name.replace('_', ' ')} is no number: {text[:40]!r}")
            changes[name] = int(text)
    request.tally.tenants.change(request.caller.tenant, changes)
    return confirm_at(request.path, "settled")


PAGE = Page(
    "/organiser/keys",
    "organiser/keys.html",
    gather,
    actions={
        "make": make,
        "rotate": rotate,
        "revoke": revoke,
        "invite": invite,
        "withdraw": withdraw,
        "settle": settle,
    },
)
