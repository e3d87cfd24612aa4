"""`Visitor`: who looks at a page, and what they may see."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tallymark.errors import NotAllowed, NotSignedIn
from tallymark.service.callers import SESSION_COOKIE, Caller, make_guest
from tallymark.service.visibility import sees_live

if TYPE_CHECKING:
    from starlette.requests import Request

    from tallymark.service.service import Service


@dataclass(frozen=True, slots=True)
class Visitor:
    """Found once for each request."""

    caller: Caller
    csrf: str = ""
    """What forms of this session must carry; nothing where there is no session to be misused."""
    is_owner: bool = False
    """Of the store itself, on their own machine."""
    is_guest: bool = False
    """Somebody of whom nothing is known, who may look at all of an example."""
    was_known: bool = False
    """Whether their browser brought a session that is over."""

    @property
    def agent(self) -> str | None:
        """The agent that the visitor plays."""
        return self.caller.agent

    @property
    def is_known(self) -> bool:
        """Whether somebody vouches for them, or all that there is may be seen."""
        return self.caller.role != "anonymous"

    @property
    def may_read_runs(self) -> bool:
        """Runs, cases and comparisons: what a team measures of its own."""
        return self.caller.role not in ("agent", "anonymous")

    @property
    def may_see_live(self) -> bool:
        """Past a freeze, and what evaluators said of others' answers."""
        return sees_live(self.caller)

    @property
    def may_organise(self) -> bool:
        """Challenges, agents, keys and the log."""
        return sees_live(self.caller)

    def require_runs(self) -> None:
        """Refuses who may not see runs."""
        if self.may_read_runs:
            return
        self.require_known("runs are shown to those who are signed in")
        raise NotAllowed("this key does not show runs", hint="ask an organiser for one that does")

    def require_known(self, words: str) -> None:
        """Refuses who is not signed in."""
        if not self.is_known:
            over = "your session is over; " if self.was_known else ""
            raise NotSignedIn(f"{over}{words}", hint="sign in with a key or an invitation")

    def require_signed_in(self) -> None:
        """Refuses who only looks."""
        self.require_known("this needs somebody who is signed in")
        if self.is_guest:
            raise NotSignedIn(
                "an example is there to be looked at, and this would change it for others",
                hint="whoever started it was shown keys to sign in with",
            )

    def require_organiser(self) -> None:
        """Refuses who does not run challenges."""
        self.require_known("this page is for organisers")
        if not self.may_organise:
            raise NotAllowed("this page is for organisers", hint="ask one of them for a key")


def find_visitor(service: Service, request: Request) -> Visitor:
    """Who looks: the owner of the store, whose session or proxy is known, or a stranger."""
    address = request.client.host if request.client else None
    if service.own:
        return make_owner(service.app.tenant)
    token = request.cookies.get(SESSION_COOKIE)
    if token is not None:
        with suppress(NotSignedIn):
            known = service.accounts.resume(token, address)
            return Visitor(known.caller, known.csrf)
    if service.proxy is not None and "tally.through_proxy" in request.scope:
        vouched = service.proxy.find_caller(request.headers, address)
        if vouched is not None:
            return Visitor(vouched)
    if service.is_example:
        return Visitor(make_guest(address), is_guest=True)
    return make_stranger(address=address, was_known=token is not None)


def make_owner(tenant: str = "default") -> Visitor:
    """Who opens their own store on their own machine: `tally view`."""
    return Visitor(Caller(tenant=tenant, role="admin", name="owner"), is_owner=True)


def make_stranger(
    tenant: str = "default", address: str | None = None, *, was_known: bool = False
) -> Visitor:
    """Somebody of whom nothing is known, who sees nothing that is not public."""
    nobody = Caller(tenant=tenant, role="anonymous", name="anonymous", address=address)
    return Visitor(nobody, was_known=was_known)
