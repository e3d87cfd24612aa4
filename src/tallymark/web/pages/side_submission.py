"""What was submitted to red or blue, for who sent it and for organisers, and how it fared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from tallymark.challenges.kept_submission import SideVerdict
from tallymark.errors import NotFound
from tallymark.service.side_submissions import find_side_submission
from tallymark.service.visibility import view_challenge
from tallymark.web.file_list import ARCHIVE, MOST_SUBMITTED, DataFile, list_files, pick_file
from tallymark.web.page import Page
from tallymark.web.view import View
from tallymark.web.visit import Visit

_MOST_DIGITS = 20
"""More would be no number that anything is counted by."""


class SideSubmissionView(View, frozen=True, kw_only=True):
    """An attack or a defence, with its content as files."""

    id: int
    challenge: str
    challenge_title: str
    player: str
    name: str
    names: dict[str, str]
    """Of opponents that are shown by others than their handles."""
    side: str
    number: int
    at: float
    active: bool
    submitted: list[DataFile]
    archive: str
    verdicts: list[SideVerdict]
    frozen: bool
    told: bool
    """Whether what the judge said is for the visitor."""

    @property
    def points(self) -> int:
        """Verdicts that it won, of those that were judged."""
        return sum(each.breached == (self.side == "red") for each in self.judged)

    @property
    def judged(self) -> list[SideVerdict]:
        """All but what waits or failed."""
        return [each for each in self.verdicts if each.breached is not None]

    def list_rows(self) -> Iterable[Mapping[str, Any]]:
        """A row for each verdict."""
        return (msgspec.structs.asdict(each) for each in self.verdicts)


def gather(visit: Visit) -> View:
    """The submission that the address names, or a file of it."""
    visit.visitor.require_known("submissions are shown to those who sent them")
    kept = visit.find_challenge(visit.params["challenge"])
    named = visit.params["submission"]
    if not (named.isascii() and named.isdecimal()) or len(named) > _MOST_DIGITS:
        raise NotFound(f"there is no submission {named[:40]!r}", hint="check its number")
    found = find_side_submission(visit.services, visit.caller, kept.challenge.name, int(named))
    files = found.list_files()
    if wanted := visit.get("file"):
        return pick_file(files, wanted)
    names = visit.app.store.agents.names(
        {found.player, *(each.opponent for each in found.verdicts)}
    )
    return SideSubmissionView(
        title=f"Submission {found.number} by {found.player} for {found.side}",
        id=found.id,
        challenge=found.challenge,
        challenge_title=kept.challenge.title,
        player=found.player,
        name=names.get(found.player, found.player),
        names=names,
        side=found.side,
        number=found.number,
        at=found.at,
        active=found.active,
        submitted=list_files(files, MOST_SUBMITTED),
        archive=ARCHIVE if len(files) > 1 else "",
        verdicts=found.verdicts,
        frozen=not visit.visitor.may_organise and kept.is_frozen(visit.now),
        told=view_challenge(visit.services, visit.caller, found.challenge).shows_words,
    )


PAGE = Page("/challenges/{challenge}/submissions/{submission}", "side_submission.html", gather)
