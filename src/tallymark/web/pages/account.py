"""Page of the account: identity, keys, and signing out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from tallymark.service.keys import Key
from tallymark.web.page import Outcome, Page, View
from tallymark.web.page_request import PageRequest


class AccountView(View, frozen=True, kw_only=True):
    """The signed-in visitor and their keys."""

    role: str
    owner: str | None
    agent: str | None
    tenant: str
    by_key: bool
    """True if there is a session to end; behind a proxy or on one's own machine there is none."""
    keys: list[Key]

    def list_rows(self) -> Iterable[Mapping[str, Any]]:
        """A row for each key."""
        return (msgspec.structs.asdict(each) for each in self.keys)


def gather(request: PageRequest) -> AccountView:
    """Gather the account of a signed-in visitor."""
    request.visitor.require_known("the account page needs a signed-in visitor")
    caller = request.caller
    keys: list[Key] = []
    if caller.owner is not None:
        keys = list(request.tally.keys.list(owner=caller.owner))
    return AccountView(
        title="Account",
        role=caller.role,
        owner=caller.owner,
        agent=caller.agent,
        tenant=caller.tenant,
        by_key=bool(request.visitor.csrf),
        keys=keys,
    )


def sign_out(request: PageRequest) -> Outcome:
    """End the session of this browser."""
    request.service.accounts.sign_out(request.session)
    return Outcome("/", session="")


def sign_out_everywhere(request: PageRequest) -> Outcome:
    """End every session of the same owner."""
    request.service.accounts.sign_out_everywhere(request.caller)
    return Outcome("/sign-in", session="")


PAGE = Page(
    "/account",
    "account.html",
    gather,
    parts={"session": "account_session.html"},
    actions={"sign-out": sign_out, "sign-out-everywhere": sign_out_everywhere},
)
