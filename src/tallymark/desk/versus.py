"""What commands ask about red against blue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from tallymark.challenges.agent_names import check_handle
from tallymark.challenges.challenge import Submission
from tallymark.challenges.kept_submission import KeptSideSubmission
from tallymark.challenges.versus.pairings import (
    BreachVerdict,
    Side,
    SideSubmission,
    require_versus,
)
from tallymark.desk.answers import read_told
from tallymark.desk.judging import JudgedHere, refuse_judged_here

if TYPE_CHECKING:
    from tallymark.client import Client
    from tallymark.service.app import App


class VersusDesk(Protocol):
    """Red against blue."""

    def find_form(self, challenge: str) -> Submission:
        """In which form attacks and defences are taken."""

    def submit(
        self, challenge: str, agent: str, side: Side, content: Any, how: JudgedHere
    ) -> tuple[SideSubmission, Sequence[BreachVerdict]]:
        """An attack or a defence, and what became of it against all others."""

    def list(
        self, challenge: str, *, agent: str | None, side: Side | None, limit: int
    ) -> list[SideSubmission]:
        """One's own, or for organisers all, the newest first."""

    def read_submission(self, challenge: str, submission: int) -> KeptSideSubmission:
        """What was submitted, for who sent it and for organisers."""

    def settle(
        self, challenge: str, *, again: bool, how: JudgedHere
    ) -> tuple[int, Sequence[BreachVerdict]]:
        """Judges what was left: how many, and some that could not be."""


@dataclass(frozen=True)
class LocalVersus:
    """Red against blue in a database."""

    app: App

    def find_form(self, challenge: str) -> Submission:
        """In which form attacks and defences are taken."""
        with JudgedHere().open(self.app) as competition:
            return competition.arena(challenge).challenge.submission

    def submit(
        self, challenge: str, agent: str, side: Side, content: Any, how: JudgedHere
    ) -> tuple[SideSubmission, Sequence[BreachVerdict]]:
        """An attack or a defence, judged."""
        with how.open(self.app) as competition:
            submission, verdicts = competition.arena(challenge).submit(agent, side, content)
        return submission, [each.without_words() for each in verdicts]

    def list(
        self, challenge: str, *, agent: str | None, side: Side | None, limit: int
    ) -> list[SideSubmission]:
        """The newest first."""
        require_versus(self.app.store.challenges.get(challenge))
        return self.app.store.versus.newest(challenge, player=agent, side=side, limit=limit)

    def read_submission(self, challenge: str, submission: int) -> KeptSideSubmission:
        """What was submitted, and all that was said of it."""
        from tallymark.service.side_submissions import read_side_submission  # noqa: PLC0415 (formulas)

        store = self.app.store
        require_versus(store.challenges.get(challenge))
        return read_side_submission(store, challenge, store.versus.find(challenge, submission))

    def settle(
        self, challenge: str, *, again: bool, how: JudgedHere
    ) -> tuple[int, Sequence[BreachVerdict]]:
        """Judges what was left."""
        with how.open(self.app) as competition:
            arena = competition.arena(challenge)
            return arena.settle(again=again), arena.list_failed()


@dataclass(frozen=True)
class RemoteVersus:
    """Red against blue at a server."""

    client: Client

    def find_form(self, challenge: str) -> Submission:
        """In which form attacks and defences are taken."""
        known = self.client.challenges.get(challenge)
        require_versus(known)
        return known.submission

    def submit(
        self, challenge: str, agent: str, side: Side, content: Any, how: JudgedHere
    ) -> tuple[SideSubmission, Sequence[BreachVerdict]]:
        """An attack or a defence, judged."""
        refuse_judged_here(how)
        check_handle(agent)
        done = self.client.challenges.take_side(challenge, side, content, agent=agent)
        submission = msgspec.convert(done.submission, SideSubmission)
        return submission, msgspec.convert(done.verdicts, list[BreachVerdict])

    def list(
        self, challenge: str, *, agent: str | None, side: Side | None, limit: int
    ) -> list[SideSubmission]:
        """One's own, or for organisers all."""
        found = self.client.challenges.submissions(challenge, agent=agent, side=side, limit=limit)
        return [read_told(each, SideSubmission) for each in found]

    def read_submission(self, challenge: str, submission: int) -> KeptSideSubmission:
        """What was submitted, where the key may read it."""
        found = self.client.challenges.submission(challenge, submission)
        return read_told(found, KeptSideSubmission)

    def settle(
        self, challenge: str, *, again: bool, how: JudgedHere
    ) -> tuple[int, Sequence[BreachVerdict]]:
        """Judges what was left."""
        refuse_judged_here(how)
        done = self.client.challenges.settle_sides(challenge, again=again)
        return done.judged, msgspec.convert(done.failed, list[BreachVerdict])
