"""Organiser page of an agent: disqualification, pauses, keys and sessions."""

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
    confirm_at,
    list_pauses,
    require_organiser,
    resume,
)
from tallymark.web.page import Outcome, Page, View
from tallymark.web.page_request import PageRequest


class OrganisedAgent(View, frozen=True, kw_only=True):
    """An agent for organisers."""

    agent: Agent
    places: int
    pauses: list[PluginPause]
    keys: list[Key]
    log: list[LogEntry]
    may_sign_out: bool

    def list_rows(self) -> Iterable[Mapping[str, Any]]:
        """A row for each act on it."""
        return (msgspec.structs.asdict(each) for each in self.log)


def gather(request: PageRequest) -> OrganisedAgent:
    """Gather the agent in the URL."""
    require_organiser(request)
    found = _find(request)
    return OrganisedAgent(
        title=f"Organise {found.name}",
        agent=msgspec.structs.replace(found, places=msgspec.UNSET, sides=msgspec.UNSET),
        places=len(found.places or ()),
        pauses=[each for each in list_pauses(request) if each.agent == found.handle],
        keys=list(request.tally.keys.list(agent=found.handle)),
        log=request.tally.audit.list(agent=found.handle, limit=12).items,
        may_sign_out=request.caller.role == "admin" and found.owner is not None,
    )


def _find(request: PageRequest) -> Agent:
    return request.tally.agents.get(request.params["agent"])


def disqualify(request: PageRequest) -> Outcome:
    """Take the agent off all boards."""
    require_organiser(request)
    request.tally.agents.disqualify(request.params["agent"], reason=request.form.get("reason"))
    return confirm_at(request.path, "disqualified")


def reinstate(request: PageRequest) -> Outcome:
    """Let the agent compete again."""
    require_organiser(request)
    request.tally.agents.reinstate(request.params["agent"], reason=request.form.get("reason"))
    return confirm_at(request.path, "reinstated")


def sign_out(request: PageRequest) -> Outcome:
    """End every session of the agent's owner; their keys still work."""
    require_organiser(request)
    owner = _find(request).owner
    if owner is None:
        raise InvalidInput("this agent has no owner who could be signed in")
    request.service.accounts.end_sessions(request.caller, owner)
    return confirm_at(request.path, "signed-out")


def end_pause(request: PageRequest) -> Outcome:
    """Resume scoring of the agent's attempts."""
    resume(request)
    return confirm_at(request.path, "resumed")


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
