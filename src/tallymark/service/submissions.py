"""Submissions at every door: who acts for whom, checks of an answer, and scoring it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import msgspec

from tallymark.errors import TallymarkError
from tallymark.service.callers import Caller
from tallymark.service.visibility import speak_for
from tallymark.service.witnessed_trajectory import read_witnessed
from tallymark.store.dry_run import dry_run

if TYPE_CHECKING:
    from tallymark.challenges.attempt import Attempt, Payload
    from tallymark.challenges.challenge import Challenge, Submission
    from tallymark.challenges.trajectory import Verification
    from tallymark.service.tenant import TenantServices
    from tallymark.store.contests.attempt_rows import StoredAttempt
    from tallymark.store.jobs import Job

WAITED_S = 30.0
"""For so long a submission waits for its breakdown."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """Something that a look at an answer finds, before it is submitted."""

    place: str
    message: str
    severity: Literal["error", "warning", "note"]
    """Refusals, warnings that may cost points, and notes."""
    hint: str = ""


class RatingChange(msgspec.Struct, frozen=True, kw_only=True):
    """An agent's Elo before and after."""

    before: int | None
    after: int
    provisional: bool


@dataclass(frozen=True, slots=True)
class TakenSubmission:
    """An attempt that was submitted, and the job that scores it where that takes long."""

    attempt: Attempt
    rating_before: int | None
    """The agent's Elo before; None if the answer was sent again and had its score."""
    job: Job | None = None
    challenge: Challenge | None = None
    """The version whose rule scored it, if it was scored here."""


def find_own_attempt(
    services: TenantServices, caller: Caller | None, attempt: str, agent: str | None = None
) -> StoredAttempt:
    """Find an attempt of the agent that the caller acts for; those of others do not exist."""
    named = agent is not None or (caller is not None and caller.role == "agent")
    return services.store.attempts.find(attempt, speak_for(caller, agent) if named else None)


def find_most_bytes(submission: Submission, trajectory: int | None = None) -> int:
    """Maximum size of a request with an answer: JSON may triple the size of texts."""
    from tallymark.challenges.evaluators.submission_intake import (  # noqa: PLC0415 (evaluators)
        MAX_METADATA,
    )
    from tallymark.challenges.trajectory import MAX_BYTES  # noqa: PLC0415 (loads much)

    trajectory = MAX_BYTES if trajectory is None else trajectory
    return 3 * (submission.max_bytes + MAX_METADATA) + trajectory * 5 // 4


def submit_answer(
    services: TenantServices,
    caller: Caller | None,
    known: StoredAttempt,
    sent: Payload,
    *,
    key: str | None = None,
) -> TakenSubmission:
    """Store an answer and have it scored: here if that is fast or there is no server, otherwise by
    a worker of the server.

    An answer is stored before it is scored. If this process ends in between, or the server fails,
    the attempt waits, and the next `settle` of a worker scores it: see `workers.py`.
    """
    competition, store = services.competition, services.store
    with store.read():
        before = store.ratings.of(known.attempt.agent).rating
        seen = read_witnessed(store, known.attempt.id)
    evidence = competition.take_submission(known, sent, seen, key=key)
    taken = evidence.attempt
    if taken.state != "submitted":
        return TakenSubmission(taken, None)
    if caller is None or not services.has_workers or competition.settles_quickly(taken):
        scored = competition.score_submission(evidence)
        challenge = competition.challenge_cache.find(scored.challenge).challenge
        return TakenSubmission(scored, before, challenge=challenge)
    return TakenSubmission(taken, before, services.jobs.queue_scoring(caller, taken.id))


async def await_score(
    services: TenantServices, caller: Caller | None, done: TakenSubmission
) -> TakenSubmission:
    """Wait in the event loop for the worker that scores a submission.

    Repeating a request while it waits is answered at once.
    """
    if done.job is None or services.store.jobs.wakeups.is_expected(done.job.id):
        return done
    await services.jobs.await_end(done.job.id, WAITED_S)
    read = services.store.attempts.get
    return replace(
        done, attempt=await services.run_in_thread(caller, read, done.attempt.id, patient=True)
    )


def find_rating_change(services: TenantServices, done: TakenSubmission, now: float) -> RatingChange:
    """Find the agent's Elo before and after; an answer sent again gets the same two numbers."""
    store, attempt = services.store, done.attempt
    current = store.ratings.current(attempt.agent, now)
    before, after = done.rating_before, current.elo.rating
    if before is None:
        before = after
        frozen = store.challenges.find(attempt.challenge).is_frozen(now)
        if not frozen and (changed := store.contest_stats.change_by(attempt)) is not None:
            before, after = changed[1].before, changed[1].after
    return RatingChange(before=before, after=after, provisional=current.provisional)


def find_open_bytes(services: TenantServices, caller: Caller) -> int:
    """Return how large an answer the open attempts of an agent allow; 0 without any."""
    found = services.store.contest_stats.open_attempts_of(caller.agent or "")
    forms = (services.competition.challenge_cache.find_version(each) for each in found)
    return max((find_most_bytes(each.submission) for each in forms), default=0)


def check_answer(
    services: TenantServices, known: StoredAttempt, sent: Payload, now: float
) -> list[Finding]:
    """Findings on an answer without judging it; nothing is stored."""
    from tallymark.challenges.evaluators.submission_intake import (  # noqa: PLC0415 (evaluators)
        list_schema_findings,
    )
    from tallymark.challenges.trajectory import verify_sent  # noqa: PLC0415 (loads much)

    competition = services.competition
    challenge = competition.challenge_cache.find_version(known.attempt)
    found = []
    try:
        seen = read_witnessed(services.store, known.attempt.id)
        with dry_run():
            competition.take_submission(known, sent, seen)
    except TallymarkError as error:
        found += [_tell_refusal(each.message, each.hint) for each in error.problems]
    schema, key = challenge.submission.schema, challenge.submission.schema_dimension
    if schema is not None:
        costs = "it costs no points" if key is None else f"it would score 0 in {key}"
        found += [
            Finding(place=place, message=message, severity="warning", hint=costs)
            for place, message in list_schema_findings(sent.submission, schema)
        ]
    if sent.trajectory is not None:
        shown = verify_sent(
            sent.trajectory,
            entered_at=known.attempt.entered_at,
            submitted_at=now,
            claims=sent.metadata,
            constraints=challenge.constraints,
        )
        found += _list_trajectory_findings(shown)
    return found


def _list_trajectory_findings(shown: Verification) -> list[Finding]:
    """Its trust level, and the reasons for no higher one."""
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
