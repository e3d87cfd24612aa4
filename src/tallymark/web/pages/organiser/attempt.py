"""Organiser page of an attempt: why it waits, voiding and restoring it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from tallymark.service.attempts import AttemptDetails
from tallymark.web.organising import (
    JobLine,
    confirm_at,
    describe_job,
    find_last_job,
    require_organiser,
    retry_job,
)
from tallymark.web.page import Outcome, Page, View
from tallymark.web.page_request import PageRequest


class OrganisedAttempt(View, frozen=True, kw_only=True):
    """An attempt with the job that scores it."""

    attempt: AttemptDetails
    line: JobLine | None

    def list_rows(self) -> Iterable[Mapping[str, Any]]:
        """A row for each change."""
        return (msgspec.structs.asdict(each) for each in self.attempt.audit)


def gather(request: PageRequest) -> OrganisedAttempt:
    """Gather the attempt in the URL, live."""
    require_organiser(request)
    found = request.tally.attempts.get(request.params["attempt"], live=True)
    job = find_last_job(request, "score", found.id)
    return OrganisedAttempt(
        title=f"Attempt {found.number} by {found.agent}",
        attempt=found,
        line=None if job is None or job.state == "done" else describe_job(job, request),
    )


def void(request: PageRequest) -> Outcome:
    """Void the attempt: it no longer counts for boards, ratings and quotas."""
    require_organiser(request)
    identifier, reason = request.params["attempt"], request.form.get("reason")
    request.tally.attempts.void(identifier, reason)
    return confirm_at(request.path, "voided")


def unvoid(request: PageRequest) -> Outcome:
    """Restore a voided attempt."""
    require_organiser(request)
    identifier, reason = request.params["attempt"], request.form.get("reason")
    request.tally.attempts.unvoid(identifier, reason)
    return confirm_at(request.path, "unvoided")


PAGE = Page(
    "/organiser/attempts/{attempt}",
    "organiser/attempt.html",
    gather,
    actions={"void": void, "unvoid": unvoid, "retry": retry_job},
)
