"""Page of a submission to red or blue, with its verdicts."""

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
"""Digits of the longest submission number."""


class SideSubmissionView(View, frozen=True, kw_only=True):
    """An attack or a defence with its files."""

    submission: KeptSideSubmission
    challenge_title: str
    names: dict[str, str]
    """Names of agents by handle."""
    submitted: list[DataFile]
    archive: str
    frozen: bool
    told: bool
    """Whether the visitor may read the judge's comments."""

    @property
    def points(self) -> int:
        """Number of verdicts won."""
        return sum(each.breached == (self.submission.side == "red") for each in self.judged)

    @property
    def judged(self) -> list[SideVerdict]:
        """Verdicts, without pending and failed ones."""
        return [each for each in self.submission.verdicts if each.breached is not None]

    def list_rows(self) -> Iterable[Mapping[str, Any]]:
        """A row for each verdict."""
        return (msgspec.structs.asdict(each) for each in self.submission.verdicts)


def gather(request: PageRequest) -> View:
    """Gather the submission in the URL, or one of its files."""
    request.visitor.require_known("submissions are visible to those who sent them")
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
