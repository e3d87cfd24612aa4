"""One challenge for its organisers: who may see it, whether it takes entries, its public board."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

import msgspec

from tallymark.challenges.challenge import Visibility
from tallymark.challenges.rescore_plan import describe_rule
from tallymark.errors import InvalidInput
from tallymark.service.audit import LogEntry
from tallymark.store.contests.challenges import Challenges
from tallymark.store.contests.pauses import PluginPause
from tallymark.web.organising import (
    address_challenge,
    begin,
    lead_back,
    list_pauses,
    resume,
)
from tallymark.web.page import Act, Outcome, Page
from tallymark.web.pages.challenges import count_agents, find_state
from tallymark.web.view import View
from tallymark.web.visit import Visit


class OrganisedView(View, frozen=True, kw_only=True):
    """A challenge as its organisers see it."""

    name: str
    challenge_title: str
    kind: str
    state: str
    visibility: Visibility
    version: str
    rule: str
    difficulty: str
    closed_at: float | None
    by_hand: bool
    """Whether an organiser closed it, or its file's date."""
    frozen_at: float | None
    freezes_at: float | None
    attempts: int
    agents: int
    waiting: int
    pauses: list[PluginPause]
    drift: list[str]
    """What counts otherwise than its files say."""
    log: list[LogEntry]

    def list_rows(self) -> Iterable[Mapping[str, Any]]:
        """A row for each act in its log."""
        return (msgspec.structs.asdict(each) for each in self.log)


def gather(visit: Visit) -> OrganisedView:
    """Of a challenge of the visitor's tenant."""
    begin(visit)
    kept = visit.find_challenge(visit.params["name"])
    challenge, store = kept.challenge, visit.app.store
    state = kept.describe_state(visit.now)
    waits = [
        each.count for each in store.figures.count_waiting() if each.challenge == challenge.name
    ]
    return OrganisedView(
        title=f"Organise {challenge.title}",
        name=challenge.name,
        challenge_title=challenge.title,
        kind=challenge.kind,
        state=find_state(kept, visit.now),
        visibility=challenge.visibility,
        version=challenge.version,
        rule=describe_rule(challenge.scoring),
        difficulty=challenge.difficulty,
        closed_at=state.get("closed"),
        by_hand=kept.closed_at is not None,
        frozen_at=state.get("frozen"),
        freezes_at=kept.freezes_at,
        attempts=store.figures.count_attempts(challenge.name),
        agents=count_agents(visit, challenge, public=False),
        waiting=sum(waits),
        pauses=list_pauses(visit, challenge.name),
        drift=visit.services.publishing.find_drift(challenge),
        log=visit.tally.audit.list(challenge=challenge.name, limit=12).items,
    )


def _make_act(done: str, act: Callable[..., None]) -> Act:
    """An action that needs no more than a reason."""

    def work(visit: Visit) -> Outcome:
        begin(visit)
        name = visit.find_challenge(visit.params["name"]).challenge.name
        act(visit.app.store.challenges, name, at=visit.now, reason=visit.form.get("reason"))
        return lead_back(address_challenge(name), done)

    return work


def show_to(visit: Visit) -> Outcome:
    """Says who may see it."""
    begin(visit)
    name = visit.find_challenge(visit.params["name"]).challenge.name
    wanted = visit.form.get("visibility")
    if wanted not in ("public", "private"):
        raise InvalidInput("it is not said who may see it", hint="choose one of the two")
    reason = visit.form.get("reason")
    visit.services.publishing.show_to(name, cast("Visibility", wanted), reason)
    return lead_back(address_challenge(name), wanted)


def end_pause(visit: Visit) -> Outcome:
    """Has an agent's attempts at it scored again."""
    resume(visit)
    return lead_back(visit.path, "resumed")


PAGE = Page(
    "/organiser/challenges/{name}",
    "organiser/challenge.html",
    gather,
    actions={
        "close": _make_act("closed", Challenges.close),
        "reopen": _make_act("reopened", Challenges.reopen),
        "freeze": _make_act("frozen", Challenges.freeze),
        "unfreeze": _make_act("unfrozen", Challenges.unfreeze),
        "show": show_to,
        "resume": end_pause,
    },
)
