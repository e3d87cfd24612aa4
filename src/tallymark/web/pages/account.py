"""Account: who you are here, your keys, and signing out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from tallymark.service.keys import Key
from tallymark.web.page import Outcome, Page
from tallymark.web.view import View
from tallymark.web.visit import Visit


class AccountView(View, frozen=True, kw_only=True):
    """The visitor as the server knows them."""

    role: str
    owner: str | None
    agent: str | None
    tenant: str
    by_key: bool
    """Whether there is a session that can end; a proxy or one's own machine has none."""
    keys: list[Key]

    def list_rows(self) -> Iterable[Mapping[str, Any]]:
        """A row for each key."""
        return (msgspec.structs.asdict(each) for each in self.keys)


def gather(visit: Visit) -> AccountView:
    """For whoever is signed in."""
    visit.visitor.require_known("there is no account without signing in")
    caller = visit.caller
    keys: list[Key] = []
    if caller.owner is not None:
        keys = visit.tally.keys.list(owner=caller.owner).items
    return AccountView(
        title="Account",
        role=caller.role,
        owner=caller.owner,
        agent=caller.agent,
        tenant=caller.tenant,
        by_key=bool(visit.visitor.csrf),
        keys=keys,
    )


def sign_out(visit: Visit) -> Outcome:
    """Ends the session of this browser."""
    visit.service.accounts.sign_out(visit.session)
    return Outcome("/", session="")


def sign_out_everywhere(visit: Visit) -> Outcome:
    """Ends every session of the same owner."""
    visit.service.accounts.sign_out_everywhere(visit.caller)
    return Outcome("/sign-in", session="")


PAGE = Page(
    "/account",
    "account.html",
    gather,
    parts={"session": "account_session.html"},
    actions={"sign-out": sign_out, "sign-out-everywhere": sign_out_everywhere},
)
