"""An attempt for organisers: why it waits, making it void, and undoing that."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from tallymark.service.attempts import AttemptDetails
from tallymark.web.organising import (
    JobLine,
    begin,
    describe_job,
    find_last_job,
    lead_back,
    retry_job,
)
from tallymark.web.page import Outcome, Page
from tallymark.web.view import View
from tallymark.web.visit import Visit


class OrganisedAttempt(View, frozen=True, kw_only=True):
    """One attempt, with the job that scores it."""

    attempt: AttemptDetails
    line: JobLine | None

    def list_rows(self) -> Iterable[Mapping[str, Any]]:
        """A row for each change."""
        return (msgspec.structs.asdict(each) for each in self.attempt.audit)


def gather(visit: Visit) -> OrganisedAttempt:
    """As it is, past every freeze."""
    begin(visit)
    found = visit.tally.attempts.get(visit.params["attempt"], live=True)
    job = find_last_job(visit, "score", found.id)
    return OrganisedAttempt(
        title=f"Attempt {found.number} by {found.agent}",
        attempt=found,
        line=None if job is None or job.state == "done" else describe_job(job, visit),
    )


def void(visit: Visit) -> Outcome:
    """It counts no more, in boards, ratings and quotas."""
    begin(visit)
    identifier, reason = visit.params["attempt"], visit.form.get("reason")
    visit.tally.attempts.void(identifier, reason)
    return lead_back(visit.path, "voided")


def unvoid(visit: Visit) -> Outcome:
    """All is as if it had never been void."""
    begin(visit)
    identifier, reason = visit.params["attempt"], visit.form.get("reason")
    visit.tally.attempts.unvoid(identifier, reason)
    return lead_back(visit.path, "unvoided")


PAGE = Page(
    "/organiser/attempts/{attempt}",
    "organiser/attempt.html",
    gather,
    actions={"void": void, "unvoid": unvoid, "retry": retry_job},
)
