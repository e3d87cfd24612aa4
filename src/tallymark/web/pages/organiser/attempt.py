"""An attempt for organisers: why it waits, making it void, and undoing that."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from tallymark.challenges.attempt import Attempt
from tallymark.store.contests.audit_log import HIDDEN
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


class AttemptEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A change of the attempt."""

    at: float
    actor: str
    event: str
    before: str | None
    after: str | None
    reason: str
    hidden: str
    """What organisers alone may read."""


class OrganisedAttempt(View, frozen=True, kw_only=True):
    """One attempt."""

    id: str
    challenge: str
    agent: str
    number: int
    state: str
    score: float | None
    voided_at: float | None
    waiting: str | None
    job: JobLine | None
    events: list[AttemptEvent]

    def list_rows(self) -> Iterable[Mapping[str, Any]]:
        """A row for each change."""
        return (msgspec.structs.asdict(each) for each in self.events)


def gather(visit: Visit) -> OrganisedAttempt:
    """As it is, past every freeze."""
    begin(visit)
    found = _find(visit)
    job = find_last_job(visit, "score", found.id)
    return OrganisedAttempt(
        title=f"Attempt {found.number} by {found.agent}",
        id=found.id,
        challenge=found.challenge,
        agent=found.agent,
        number=found.number,
        state=found.state,
        score=None if found.outcome is None else found.outcome.score,
        voided_at=found.voided_at,
        waiting=found.waiting,
        job=None if job is None or job.state == "done" else describe_job(job, visit),
        events=[
            AttemptEvent(
                at=each.at,
                actor=each.actor,
                event=each.event,
                before=each.before,
                after=each.after,
                reason=str((each.note or {}).get("reason", "")),
                hidden=str((each.note or {}).get(HIDDEN, "")),
            )
            for each in reversed(visit.app.store.attempts.audit(found.id))
        ],
    )


def _find(visit: Visit) -> Attempt:
    visit.find_attempt(visit.params["attempt"])  # says what there is not
    return visit.app.store.attempts.get(visit.params["attempt"])


def void(visit: Visit) -> Outcome:
    """It counts no more, in boards, ratings and quotas."""
    begin(visit)
    identifier, reason = visit.params["attempt"], visit.form.get("reason")
    visit.app.store.attempts.void(identifier, at=visit.now, reason=reason)
    return lead_back(visit.path, "voided")


def unvoid(visit: Visit) -> Outcome:
    """All is as if it had never been void."""
    begin(visit)
    identifier, reason = visit.params["attempt"], visit.form.get("reason")
    visit.app.store.attempts.unvoid(identifier, at=visit.now, reason=reason)
    return lead_back(visit.path, "unvoided")


PAGE = Page(
    "/organiser/attempts/{attempt}",
    "organiser/attempt.html",
    gather,
    actions={"void": void, "unvoid": unvoid, "retry": retry_job},
)
