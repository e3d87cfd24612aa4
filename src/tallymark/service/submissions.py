"""Competing, by whatever door: who acts for whom, what an answer lacks, how it gets its score."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from tallymark.challenges.evaluators.submission_intake import MAX_METADATA, list_schema_findings
from tallymark.challenges.trajectory import MAX_BYTES, Verification, verify_sent
from tallymark.errors import TallymarkError
from tallymark.service.callers import Caller
from tallymark.service.visibility import speak_for
from tallymark.store.rehearsals import rehearse

if TYPE_CHECKING:
    from tallymark.challenges.attempt import Attempt, Payload
    from tallymark.challenges.challenge import Submission
    from tallymark.service.service import Service
    from tallymark.service.tenant import TenantServices
    from tallymark.store.jobs.jobs import Job

WAITED_S = 30.0
"""For so long a submission waits for its breakdown."""
_DETAILS: dict[str, Any] = {
    "score_breakdown": None,
    "submission_warnings": [],
    "constraint_violations": [],
    "harness_warning": None,
}


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """Something that a look at an answer finds, before it is submitted."""

    place: str
    message: str
    severity: Literal["error", "warning", "note"]
    """What is refused, what is taken and may cost points, and what is good to know."""
    hint: str = ""


@dataclass(frozen=True, slots=True)
class TakenSubmission:
    """An attempt that was submitted, and the job that scores it where that takes long."""

    attempt: Attempt
    job: Job | None = None
    scored_before: bool = False
    """It was there already when the answer came again."""


def find_competitor(
    services: TenantServices, caller: Caller, attempt: str, agent: str | None = None
) -> str:
    """Whose attempt it is, or is said to be, as far as the caller may act for them."""
    if caller.role == "agent" or agent is not None:
        return speak_for(caller, agent)
    return services.store.attempts.get(attempt).agent


def find_most_bytes(submission: Submission, trajectory: int = MAX_BYTES) -> int:
    """How large the request may be that brings an answer: JSON writes some texts thrice as long."""
    return 3 * (submission.max_bytes + MAX_METADATA) + trajectory * 5 // 4


def find_attempt_bytes(services: TenantServices, caller: Caller, attempt: str) -> int:
    """The same for the answer to an attempt."""
    agent = find_competitor(services, caller, attempt)
    return find_most_bytes(services.competition.find_challenge_of(attempt, agent).submission)


def submit_answer(
    services: TenantServices,
    caller: Caller,
    attempt: str,
    sent: Payload,
    *,
    agent: str | None = None,
    key: str | None = None,
) -> TakenSubmission:
    """Take an answer and have it scored: here where that is quick, else by a worker."""
    competition = services.competition
    agent = find_competitor(services, caller, attempt, agent)
    taken = competition.take_submission(attempt, agent, sent.submission, key=key, **_say(sent))
    if taken.state != "submitted":
        return TakenSubmission(taken, scored_before=True)
    if competition.settles_quickly(taken):
        return TakenSubmission(competition.settle_attempt(taken.id))
    return TakenSubmission(taken, services.jobs.queue_scoring(caller, taken.id))


async def await_score(service: Service, caller: Caller, done: TakenSubmission) -> TakenSubmission:
    """Wait for the worker that scores a submission, in the event loop.

    Whoever sends the same again while a request waits for it is answered at once.
    """
    services = service.tenant(caller.tenant)
    if done.job is None or services.store.jobs.bell.is_expected(done.job.id):
        return done
    await services.jobs.await_end(done.job.id, WAITED_S)
    read = services.store.attempts.get
    return replace(
        done, attempt=await service.run_in_thread(caller, read, done.attempt.id, patient=True)
    )


def describe_submitted(
    services: TenantServices, done: TakenSubmission, before: int, now: float
) -> dict[str, Any]:
    """What its competitor is told: the document's fields at the top, beside the attempt."""
    attempt, store = done.attempt, services.store
    told = attempt.to_public()
    standing = store.boards.standing(attempt.challenge, attempt.agent)
    rating = None
    if attempt.state != "submitted":
        provisional = attempt.agent in store.ratings.provisional(now)
        after = store.ratings.of(attempt.agent).rating
        known = None if done.scored_before else before
        rating = {"before": known, "after": after, "provisional": provisional}
    return {
        "attempt": told,
        "score": told["score"],
        "result": told.get("result"),
        **{name: told.get(name, usual) for name, usual in _DETAILS.items()},
        "rating": rating,
        "rank": None if standing is None else standing.rank,
    }


def check_answer(
    services: TenantServices, caller: Caller, attempt: str, sent: Payload, now: float
) -> list[Finding]:
    """All that can be said of an answer without judging it; nothing is kept."""
    competition = services.competition
    agent = find_competitor(services, caller, attempt)
    challenge = competition.find_challenge_of(attempt, agent)
    found = []
    try:
        with rehearse():
            competition.take_submission(attempt, agent, sent.submission, **_say(sent))
    except TallymarkError as error:
        found += [_tell_refusal(each.message, each.hint) for each in error.problems]
    schema, key = challenge.submission.schema, challenge.submission.schema_dimension
    if schema is not None:
        costs = "advice" if key is None else f"it would score 0 in {key}"
        found += [
            Finding(place=place, message=message, severity="warning", hint=costs)
            for place, message in list_schema_findings(sent.submission, schema)
        ]
    if sent.trajectory is not None:
        shown = verify_sent(
            sent.trajectory,
            entered_at=services.store.attempts.get_own(attempt, agent).entered_at,
            submitted_at=now,
            claims=sent.metadata,
            constraints=challenge.constraints,
        )
        found += _list_trajectory_findings(shown)
    return found


def _list_trajectory_findings(shown: Verification) -> list[Finding]:
    """How far it would be believed, and why not further."""
    level = Finding(place="trajectory", message=f"would be {shown.level}", severity="note")
    words = [(each, "warning") for each in (*shown.problems, *shown.violations)]
    words += [(shown.harness_warning, "note")] if shown.harness_warning else []
    return [level] + [
        Finding(place="trajectory", message=message, severity=severity)  # type: ignore[arg-type]
        for message, severity in words
    ]


def _tell_refusal(message: str, hint: str | None) -> Finding:
    where = "trajectory" if message.startswith(("the trajectory", "it has more")) else "answer"
    return Finding(place=where, message=message, severity="error", hint=hint or "")


def _say(sent: Payload) -> dict[str, Any]:
    return {"metadata": sent.metadata, "trajectory": sent.trajectory}
