"""An agent for organisers: disqualifying and reinstating it, its pauses, its keys and its owner."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from tallymark.errors import InvalidInput
from tallymark.service.audit import LogEntry
from tallymark.service.keys import Key
from tallymark.store.contests.agents import AgentRecord
from tallymark.store.contests.pauses import PluginPause
from tallymark.web.organising import (
    begin,
    lead_back,
    list_pauses,
    resume,
)
from tallymark.web.page import Outcome, Page
from tallymark.web.view import View
from tallymark.web.visit import Visit


class OrganisedAgent(View, frozen=True, kw_only=True):
    """One agent."""

    handle: str
    name: str
    owner: str | None
    created_at: float
    disqualified_at: float | None
    places: int
    pauses: list[PluginPause]
    keys: list[Key]
    log: list[LogEntry]
    may_sign_out: bool

    def list_rows(self) -> Iterable[Mapping[str, Any]]:
        """A row for each act on it."""
        return (msgspec.structs.asdict(each) for each in self.log)


def gather(visit: Visit) -> OrganisedAgent:
    """Of the visitor's tenant."""
    begin(visit)
    found, store, caller = _find(visit), visit.app.store, visit.caller
    return OrganisedAgent(
        title=f"Organise {found.name}",
        handle=found.handle,
        name=found.name,
        owner=found.owner,
        created_at=found.created_at,
        disqualified_at=found.disqualified_at,
        places=len(store.boards.places(found.handle, public=False)),
        pauses=[each for each in list_pauses(visit) if each.agent == found.handle],
        keys=visit.tally.keys.list(agent=found.handle).items,
        log=visit.tally.audit.list(agent=found.handle, limit=12).items,
        may_sign_out=caller.role == "admin" and found.owner is not None,
    )


def _find(visit: Visit) -> AgentRecord:
    if not visit.app.store.exists:
        raise InvalidInput("there are no agents yet")
    return visit.app.store.agents.get(visit.params["agent"])


def disqualify(visit: Visit) -> Outcome:
    """It may not compete, and stands on no board."""
    begin(visit)
    agent, reason = _find(visit).handle, visit.form.get("reason")
    visit.app.store.disqualifications.disqualify(agent, at=visit.now, reason=reason)
    return lead_back(visit.path, "disqualified")


def reinstate(visit: Visit) -> Outcome:
    """All is as if it had never been disqualified."""
    begin(visit)
    agent, reason = _find(visit).handle, visit.form.get("reason")
    visit.app.store.disqualifications.reinstate(agent, at=visit.now, reason=reason)
    return lead_back(visit.path, "reinstated")


def sign_out(visit: Visit) -> Outcome:
    """Ends every session of the agent's owner; their keys stay as they are."""
    begin(visit)
    owner = _find(visit).owner
    if owner is None:
        raise InvalidInput("this agent has no owner, so nobody is signed in as one")
    visit.service.accounts.end_sessions(visit.caller, owner)
    return lead_back(visit.path, "signed-out")


def end_pause(visit: Visit) -> Outcome:
    """Has its attempts scored again."""
    resume(visit)
    return lead_back(visit.path, "resumed")


PAGE = Page(
    "/organiser/agents/{agent}",
    "organiser/agent.html",
    gather,
    actions={
        "disqualify": disqualify,
        "reinstate": reinstate,
        "sign-out": sign_out,
        "resume": end_pause,
    },
)
