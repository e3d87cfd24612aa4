"""`Visitor`: who looks at a page, and what they may see."""

from __future__ import annotations

from dataclasses import dataclass

from tallymark.app.callers import Caller
from tallymark.errors import NotAllowed, NotSignedIn


@dataclass(frozen=True, slots=True)
class Visitor:
    """Found once for each request, by whoever serves the pages."""

    caller: Caller
    may_read_runs: bool = False
    """Runs, cases and comparisons: what a team measures of its own."""
    may_see_live: bool = False
    """Past a freeze, and what evaluators said of others' answers."""
    may_organise: bool = False
    is_owner: bool = False
    """Of the store itself, on their own machine."""

    @property
    def agent(self) -> str | None:
        """The agent that the visitor plays."""
        return self.caller.agent

    def require_runs(self) -> None:
        """Refuses who may not see runs."""
        if self.may_read_runs:
            return
        if self.caller.role == "anonymous":
            raise NotSignedIn("runs are shown to those who are signed in")
        raise NotAllowed("this key does not show runs", hint="ask an organiser for one that does")


def make_owner(tenant: str = "default") -> Visitor:
    """Who opens their own store on their own machine: `tally view`."""
    return Visitor(
        Caller(tenant=tenant, role="admin", name="owner"),
        may_read_runs=True,
        may_see_live=True,
        may_organise=True,
        is_owner=True,
    )


def make_visitor(caller: Caller) -> Visitor:
    """Somebody whose key or session was seen."""
    organises = caller.role in ("admin", "organiser")
    return Visitor(
        caller,
        may_read_runs=caller.role not in ("agent", "anonymous"),
        may_see_live=organises,
        may_organise=organises,
    )


def make_stranger(tenant: str = "default") -> Visitor:
    """Somebody of whom nothing is known, who sees nothing that is not public."""
    return Visitor(Caller(tenant=tenant, role="anonymous", name="anonymous"))
