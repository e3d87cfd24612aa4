"""What was submitted to red or blue, for who sent it and for organisers, and how it fared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from tallymark.challenges.kept_submission import KeptSideSubmission, SideVerdict
from tallymark.errors import NotFound
from tallymark.web.challenge_files import ARCHIVE, MOST_SUBMITTED, DataFile, list_files, pick_file
from tallymark.web.page import Page, View
from tallymark.web.page_request import PageRequest

_MOST_DIGITS = 20
"""More would be no number that anything is counted by."""


class SideSubmissionView(View, frozen=True, kw_only=True):
    """An attack or a defence, with its answer as files."""

    submission: KeptSideSubmission
    challenge_title: str
    names: dict[str, str]
    """Of agents that have another name than their handle."""
    submitted: list[DataFile]
    archive: str
    frozen: bool
    told: bool
    """Whether the words of the judge are for the visitor."""

    @property
    def points(self) -> int:
        """Number of verdicts that it won."""
        return sum(each.breached == (self.submission.side == "red") for each in self.judged)

    @property
    def judged(self) -> list[SideVerdict]:
        """All verdicts but those that wait or failed."""
        return [each for each in self.submission.verdicts if each.breached is not None]

    def list_rows(self) -> Iterable[Mapping[str, Any]]:
        """A row for each verdict."""
        return (msgspec.structs.asdict(each) for each in self.submission.verdicts)


def gather(request: PageRequest) -> View:
    """The submission that the address names, or a file of it."""
    request.visitor.require_known("submissions are shown to those who sent them")
    challenge = request.tally.challenges.get(request.params["challenge"])
    named = request.params["submission"]
    if not (named.isascii() and named.isdecimal()) or len(named) > _MOST_DIGITS:
        raise NotFound(f"there is no submission {named[:40]!r}", hint="check its number")
    found = request.tally.versus.get(challenge.name, int(named))
    files = found.list_files()
    if wanted := request.get("file"):
        return pick_file(files, wanted)
    organises = request.visitor.may_organise
    return SideSubmissionView(
        title=f"Submission {found.number} by {found.agent} for {found.side}",
        submission=found,
        challenge_title=challenge.title,
        names=found.names,
        submitted=list_files(files, MOST_SUBMITTED),
        archive=ARCHIVE if len(files) > 1 else "",
        frozen=not organises and challenge.frozen is not None,
        told=organises or (challenge.state == "closed" and challenge.frozen is None),
    )


PAGE = Page("/challenges/{challenge}/submissions/{submission}", "side_submission.html", gather)
