"""An agent for organisers: disqualifying and reinstating it, its pauses, its keys and its owner."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from tallymark.challenges.challenge import PluginPause
from tallymark.errors import InvalidInput
from tallymark.service.agents import Agent
from tallymark.service.audit import LogEntry
from tallymark.service.keys import Key
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

    agent: Agent
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
    found = _find(visit)
    return OrganisedAgent(
        title=f"Organise {found.name}",
        agent=msgspec.structs.replace(found, places=msgspec.UNSET, sides=msgspec.UNSET),
        places=len(found.places or ()),
        pauses=[each for each in list_pauses(visit) if each.agent == found.handle],
        keys=list(visit.tally.keys.list(agent=found.handle)),
        log=visit.tally.audit.list(agent=found.handle, limit=12).items,
        may_sign_out=visit.caller.role == "admin" and found.owner is not None,
    )


def _find(visit: Visit) -> Agent:
    return visit.tally.agents.get(visit.params["agent"])


def disqualify(visit: Visit) -> Outcome:
    """Take the agent off all boards."""
    begin(visit)
    visit.tally.agents.disqualify(visit.params["agent"], reason=visit.form.get("reason"))
    return lead_back(visit.path, "disqualified")


def reinstate(visit: Visit) -> Outcome:
    """Let the agent compete again."""
    begin(visit)
    visit.tally.agents.reinstate(visit.params["agent"], reason=visit.form.get("reason"))
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
