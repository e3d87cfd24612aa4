"""Page to enter a challenge: its terms before the clock starts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from tallymark.errors import WorkFailed
from tallymark.service.callers import COMPETITORS
from tallymark.web.challenge_files import DataFile, list_files
from tallymark.web.challenge_terms import (
    ChallengeTerms,
    describe_terms,
    is_reported,
    write_command,
)
from tallymark.web.page import Outcome, Page, View
from tallymark.web.page_request import PageRequest

if TYPE_CHECKING:
    from tallymark.service.attempts import AttemptRecord
    from tallymark.service.challenges import Challenge

_MOST_ATTEMPTS = 50


class OwnAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt of the agent that enters."""

    id: str
    number: int
    state: str
    void: bool
    open: bool
    at: float
    score: float | None
    result: str | None


class EnterView(View, frozen=True, kw_only=True):
    """A challenge for a competitor who has not entered."""

    challenge: Challenge
    command: str
    """By which an attempt is made."""
    terms: ChallengeTerms
    sample: list[DataFile]
    """Sample data, generated from a seed that no attempt uses."""
    sample_problem: str
    agent: str | None
    """Agent that enters; None if the visitor names one."""
    obstacle: str
    """Reason why the visitor cannot enter; empty if they can."""
    attempts: list[OwnAttempt]

    @property
    def open_attempt(self) -> OwnAttempt | None:
        """The open attempt, which entering again returns."""
        return next((each for each in self.attempts if each.open), None)

    def list_rows(self) -> Iterable[Mapping[str, Any]]:
        """A row for each of one's own attempts."""
        return (msgspec.structs.asdict(each) for each in self.attempts)


def gather(request: PageRequest) -> EnterView:
    """Gather the challenge in the URL."""
    challenge = request.tally.challenges.get(request.params["challenge"])
    name = challenge.name
    obstacle = _find_obstacle(request, challenge)
    agent = request.visitor.agent or (
        request.get("agent") if request.visitor.may_organise else None
    )
    sample, problem = _make_sample(request, challenge)
    own = request.tally.attempts.list(name, agent, limit=_MOST_ATTEMPTS).items if agent else []
    return EnterView(
        title=f"Enter {challenge.title}",
        challenge=challenge,
        command=write_command(challenge, request.visitor.agent or "NAME"),
        terms=describe_terms(challenge),
        sample=sample,
        sample_problem=problem,
        agent=request.visitor.agent,
        obstacle=obstacle,
        attempts=[_describe(each, request.now) for each in own],
    )


def _find_obstacle(request: PageRequest, challenge: Challenge) -> str:
    if challenge.kind == "versus":
        return "It is red against blue: submit to a side by the command or the API."
    if is_reported(challenge):
        return "Its attempts are reported by a trusted system; they cannot be entered by hand."
    signed_in = request.visitor.is_known and not request.visitor.is_guest
    if signed_in and request.caller.role not in COMPETITORS:
        return (
            f"A key of the role {request.caller.role} cannot compete. Sign in with an agent's key."
        )
    return ""


def _make_sample(request: PageRequest, challenge: Challenge) -> tuple[list[DataFile], str]:
    """Generate a sample for visitors who could enter; it takes a sandbox."""
    if not challenge.generated or request.caller.role not in COMPETITORS:
        return [], ""
    try:
        return list_files(request.services.competition.show_sample(challenge.name)), ""
    except WorkFailed as error:
        return [], error.problems[0].message


def _describe(attempt: AttemptRecord, now: float) -> OwnAttempt:
    return OwnAttempt(
        id=attempt.id,
        number=attempt.number,
        state=attempt.state,
        void=attempt.voided_at is not None,
        open=attempt.state == "entered" and now < attempt.expires_at,
        at=attempt.submitted_at or attempt.entered_at,
        score=attempt.score,
        result=attempt.result,
    )


def enter(request: PageRequest) -> Outcome:
    """Enter, which starts the clock, and redirect to the form for the answer."""
    name = request.tally.challenges.get(request.params["challenge"]).name
    memoryless = request.form.get("memoryless") == "yes"
    entry = request.tally.attempts.enter(name, request.form.get("agent") or None, memoryless)
    return Outcome(address=f"/attempts/{entry.attempt.id}/answer")


PAGE = Page(
    "/challenges/{challenge}/enter",
    "enter.html",
    gather,
    actions={"enter": enter},
    own_transactions=True,
)
