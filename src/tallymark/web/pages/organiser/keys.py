"""Keys and invitations: made and shown once, rotated, revoked; and who may register agents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, get_args

import msgspec

from tallymark.errors import InvalidInput, NotAllowed
from tallymark.service.accounts import MAY_MAKE, AccountService
from tallymark.store.accounts.invitations import Invitation
from tallymark.store.accounts.keys import KeyRecord
from tallymark.store.accounts.tenants import DEFAULT, Registration, Tenant, TenantSettings
from tallymark.text import format_number
from tallymark.web.organising import begin, lead_back
from tallymark.web.page import Outcome, Page
from tallymark.web.view import Pager, View
from tallymark.web.visit import Visit

_STATES = ("valid", "all")
_DAY, _HOUR = 86_400.0, 3600.0


class KeysView(View, frozen=True, kw_only=True):
    """Who may use the server, and as what."""

    keys: list[KeyRecord]
    pager: Pager
    valid: int
    state: str
    text: str
    invitations: list[Invitation]
    """Those that can be used."""
    roles: list[str]
    """Whose keys the visitor makes."""
    settings: TenantSettings | None
    """For admins alone."""
    registrations: list[str]
    tenants: list[Tenant]
    """For operators alone."""

    def list_rows(self) -> Iterable[Mapping[str, Any]]:
        """A row for each key."""
        return (msgspec.structs.asdict(each) for each in self.keys)


class MadeView(View, frozen=True, kw_only=True):
    """A key or an invitation that was just made: shown this once."""

    kind: str
    secret: str
    role: str
    owner: str | None
    agent: str | None
    expires_at: float | None


def gather(visit: Visit) -> KeysView:
    """The keys that the visitor may manage, newest first."""
    begin(visit)
    caller, accounts = visit.caller, _find_accounts(visit)
    exists = visit.app.store.exists
    found = accounts.list_keys(caller) if exists else []
    state, text = visit.choose("state", _STATES), visit.get("q").casefold()
    valid = sum(each.is_valid(visit.now) for each in found)
    shown = [
        each
        for each in reversed(found)
        if (state == "all" or each.is_valid(visit.now))
        and text in f"{each.name} {each.owner} {each.agent or ''} {each.role}".casefold()
    ]
    pager = visit.read_pager(len(shown))
    admin = caller.role == "admin"
    return KeysView(
        title=f"{valid} {'key opens' if valid == 1 else 'keys open'} this server",
        keys=shown[pager.offset : pager.offset + pager.limit],
        pager=pager,
        valid=valid,
        state=state,
        text=visit.get("q"),
        invitations=_list_usable(visit, accounts) if exists else [],
        roles=list(reversed(MAY_MAKE.get(caller.role, ()))),
        settings=accounts.find_settings() if admin and exists else None,
        registrations=list(get_args(Registration)),
        tenants=_list_tenants(visit) if exists else [],
    )


def _find_accounts(visit: Visit) -> AccountService:
    return visit.service.accounts.for_tenant(visit.caller.tenant)


def _list_usable(visit: Visit, accounts: AccountService) -> list[Invitation]:
    return [
        each
        for each in accounts.list_invitations(visit.caller)
        if each.revoked_at is None and each.uses_left and each.expires_at > visit.now
    ]


def _list_tenants(visit: Visit) -> list[Tenant]:
    """Where there is more than the one that is always there."""
    if (visit.caller.tenant, visit.caller.role) != (DEFAULT, "admin"):
        return []
    found = visit.service.accounts.list_tenants(visit.caller)
    return found if len(found) > 1 else []


def _read_number(visit: Visit, name: str, words: str, most: float) -> float | None:
    text = visit.form.get(name)
    if not text:
        return None
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 < number <= most:
        raise InvalidInput(f"{words} is no number from 0 to {format_number(most)}: {text[:40]!r}")
    return number


def _find_end(visit: Visit) -> float | None:
    days = _read_number(visit, "days", "how many days it lasts", 36_500)
    return None if days is None else visit.now + days * _DAY


def _show_once(kind: str, text: str, record: KeyRecord | Invitation) -> Outcome:
    view = MadeView(
        title=f"A new {kind}",
        kind=kind,
        secret=text,
        role=record.role,
        owner=record.owner,
        agent=record.agent if isinstance(record, KeyRecord) else None,
        expires_at=record.expires_at,
    )
    return Outcome(view=view, template="organiser/made.html")


def make(visit: Visit) -> Outcome:
    """Makes a key."""
    begin(visit)
    form = visit.form
    made = _find_accounts(visit).create_key(
        visit.caller,
        role=form.get("role"),
        name=form.get("name"),
        owner=form.get("owner") or None,
        agent=form.get("agent") or None,
        expires_at=_find_end(visit),
    )
    return _show_once("key", made.text, made.key)


def rotate(visit: Visit) -> Outcome:
    """A new key for an old one, which works for a while longer."""
    begin(visit)
    hours = _read_number(visit, "hours", "how many hours the old key works on", 720)
    overlap = 0.0 if hours is None else hours * _HOUR
    made = _find_accounts(visit).rotate_key(visit.caller, visit.form.get("key"), overlap_s=overlap)
    return _show_once("key", made.text, made.key)


def revoke(visit: Visit) -> Outcome:
    """Ends a key."""
    begin(visit)
    _find_accounts(visit).revoke_key(visit.caller, visit.form.get("key"))
    return lead_back(visit.path, "revoked")


def invite(visit: Visit) -> Outcome:
    """Invites others to a key of their own."""
    begin(visit)
    form = visit.form
    uses = form.get("uses") or "1"
    if not (uses.isascii() and uses.isdigit() and 0 < int(uses[:6]) <= 10_000):
        raise InvalidInput(f"how often it can be used is no number to 10,000: {uses[:40]!r}")
    made = _find_accounts(visit).invite(
        visit.caller,
        role=form.get("role"),
        owner=form.get("owner") or None,
        uses=int(uses),
        expires_at=_find_end(visit),
    )
    return _show_once("invitation", made.text, made.invitation)


def withdraw(visit: Visit) -> Outcome:
    """Nobody can accept an invitation any more."""
    begin(visit)
    _find_accounts(visit).revoke_invitation(visit.caller, visit.form.get("invitation"))
    return lead_back(visit.path, "withdrawn")


def settle(visit: Visit) -> Outcome:
    """Says who may register agents, and how many."""
    begin(visit)
    if visit.caller.role != "admin":
        raise NotAllowed("settings are an admin's", hint="ask one")
    changes: dict[str, Any] = {"registration": visit.form.get("registration")}
    for name in ("agents_per_owner", "registrations_per_address"):
        if text := visit.form.get(name):
            if not (text.isascii() and text.isdigit() and len(text) < 10):
                raise InvalidInput(f"{name.replace('_', ' ')} is no number: {text[:40]!r}")
            changes[name] = int(text)
    _find_accounts(visit).change_settings(visit.caller, **changes)
    return lead_back(visit.path, "settled")


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
