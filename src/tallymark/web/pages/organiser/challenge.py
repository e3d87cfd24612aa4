"""Organiser page of a challenge: visibility, closing, freezing and paused plugins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from tallymark.challenges.challenge import PluginPause
from tallymark.challenges.rescore_plan import describe_rule
from tallymark.service.audit import LogEntry
from tallymark.service.challenges import Challenge
from tallymark.web.organising import (
    challenge_address,
    confirm_at,
    list_pauses,
    require_organiser,
    resume,
)
from tallymark.web.page import Act, Outcome, Page, View
from tallymark.web.page_request import PageRequest


class OrganisedView(View, frozen=True, kw_only=True):
    """A challenge as its organisers see it."""

    challenge: Challenge
    rule: str
    attempts: int
    agents: int
    waiting: int
    pauses: list[PluginPause]
    drift: list[str]
    """Fields whose current value differs from the files."""
    log: list[LogEntry]

    @property
    def by_hand(self) -> bool:
        """True if an organiser closed it before the date in its file."""
        challenge = self.challenge
        return challenge.closed is not None and challenge.closed != challenge.closes_at

    def list_rows(self) -> Iterable[Mapping[str, Any]]:
        """Return a row for each act in its log."""
        return (msgspec.structs.asdict(each) for each in self.log)


def gather(request: PageRequest) -> OrganisedView:
    require_organiser(request)
    challenges = request.tally.challenges
    challenge = challenges.get(request.params["name"])
    waits = challenges.waiting(challenge.name, limit=1).counts
    return OrganisedView(
        title=f"Organise {challenge.title}",
        challenge=challenge,
        rule=describe_rule(challenge.scoring),
        attempts=challenges.count_attempts(challenge.name),
        agents=request.tally.boards.get(challenge.name, limit=1).agents,
        waiting=sum(each.count for each in waits),
        pauses=list_pauses(request, challenge.name),
        drift=request.tally.challenges.files(challenge.name).drift,
        log=request.tally.audit.list(challenge=challenge.name, limit=12).items,
    )


def _make_act(done: str, **changes: Any) -> Act:
    """Make an action that takes only a reason."""

    def work(request: PageRequest) -> Outcome:
        require_organiser(request)
        name = request.params["name"]
        request.tally.challenges.change(name, request.form.get("reason"), **changes)
        return confirm_at(challenge_address(name), done)

    return work


def show_to(request: PageRequest) -> Outcome:
    require_organiser(request)
    name = request.params["name"]
    wanted: Any = request.form.get("visibility")
    request.tally.challenges.change(name, request.form.get("reason"), visibility=wanted)
    return confirm_at(challenge_address(name), wanted)


def end_pause(request: PageRequest) -> Outcome:
    """Resume scoring of an agent's attempts."""
    resume(request)
    return confirm_at(request.path, "resumed")


PAGE = Page(
    "/organiser/challenges/{name}",
    "organiser/challenge.html",
    gather,
    actions={
        "close": _make_act("closed", closed=True),
        "reopen": _make_act("reopened", closed=False),
        "freeze": _make_act("frozen", frozen=True),
        "unfreeze": _make_act("unfrozen", frozen=False),
        "show": show_to,
        "resume": end_pause,
    },
)
