"""Attempts: entered, submitted, looked at, withdrawn, made void."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from fastapi import Header, Query, Request, Response

from tallymark.challenges.attempt import Attempt, Payload, State
from tallymark.challenges.attempt_formula import explain_score
from tallymark.errors import NotFound
from tallymark.http.access import (
    COMPETITORS,
    ORGANISERS,
    PUBLIC,
    Services,
    Who,
    find_service,
    may,
)
from tallymark.http.answers import (
    Cursor,
    Fields,
    Limit,
    Live,
    ValidateOnly,
    answer,
    find_unchanged,
    make_etag,
    pick,
    pick_each,
)
from tallymark.http.api_route import BodyBound, bounds_body, keeps_idempotency, make_router
from tallymark.service import visibility
from tallymark.service.callers import Caller
from tallymark.service.cursors import read_cursor, refuse_cursor, write_cursor
from tallymark.service.rivals import describe_place
from tallymark.service.submissions import (
    TakenSubmission,
    await_score,
    check_answer,
    describe_submitted,
    find_most_bytes,
    find_own_attempt,
    submit_answer,
)
from tallymark.service.tenant import TenantServices
from tallymark.service.visibility import (
    find_attempt,
    find_submission,
    find_visible,
    is_public,
    sees_live,
    sees_words,
    speak_for,
    tell_audit,
    withhold_errors,
    withhold_notes,
    withhold_words,
)
from tallymark.service.witnessed import read_witnessed
from tallymark.store.contests.attempt_rows import (
    StoredAttempt,
    attempt_key,
    explain_foreign_attempt,
)
from tallymark.wire import attempts as wire

router = make_router("attempts")
IdempotencyKey = Annotated[
    str | None, Header(alias="Idempotency-Key", min_length=1, max_length=255)
]
_NOT_YET = dict.fromkeys(("submitted_at", "scored_at", "result", "waiting"))


@router.post(
    "/challenges/{name}/attempts",
    response_model=wire.Entered,
    status_code=201,
    dependencies=[may(COMPETITORS, "write")],
)
@keeps_idempotency
def enter(
    name: str,
    body: wire.Entry,
    request: Request,
    caller: Who,
    services: Services,
    key: IdempotencyKey = None,
    validate_only: ValidateOnly = False,
) -> Response:
    """Enter a challenge: the clock starts, and its goal and data are yours.

    An agent has one open attempt at a challenge; entering again gives it back.
    """
    agent = speak_for(caller, body.agent)
    if validate_only:
        services.competition.check_entry(name, agent)
        return answer({"valid": True})
    if body.attempt is not None:
        entry = services.competition.open_entry(body.attempt, agent)
        if entry.challenge.name != name:
            raise NotFound(f"there is no attempt {body.attempt!r} at {name}")
    else:
        entry = services.competition.enter(name, agent, memoryless=body.memoryless, key=key)
    document = {
        "attempt": describe_attempt(entry.attempt),
        "goal": entry.challenge.goal,
        "data": entry.data,
        "challenge": entry.challenge.to_public(),
        "seconds_left": max(0.0, entry.attempt.expires_at - find_service(request).clock()),
        "token": services.store.witness.make_token(entry.attempt.id),
    }
    return answer(document, 201)


@router.get(
    "/challenges/{name}/attempts", response_model=wire.AttemptPage, dependencies=[may(PUBLIC)]
)
def list_attempts(
    name: str,
    caller: Who,
    services: Services,
    agent: Annotated[str | None, Query(max_length=40)] = None,
    state: State | None = None,
    live: Live = None,
    limit: Limit = 50,
    cursor: Cursor = None,
    fields: Fields = None,
) -> Response:
    """Attempts at a challenge, newest first; others' as the public sees them."""
    find_visible(services, caller, name)
    before = read_cursor(cursor, str)
    if before is not None and attempt_key(before[0]) is None:
        raise refuse_cursor()
    found = visibility.list_attempts(
        services,
        caller,
        name,
        live=live,
        agent=agent,
        state=state,
        limit=limit + 1,
        before=None if before is None else before[0],
    )
    more = write_cursor(found[limit - 1].id) if len(found) > limit else None
    items = pick_each(map(describe_attempt, found[:limit]), fields, wire.AttemptState)
    return answer({"items": items, "next": more})


@router.get("/attempts/{attempt}", response_model=wire.OneAttempt, dependencies=[may(PUBLIC)])
def get_attempt(
    attempt: str,
    request: Request,
    caller: Who,
    services: Services,
    live: Live = None,
    fields: Fields = None,
) -> Response:
    """An attempt: how its score came about, and all that happened to it."""
    public = is_public(caller, live)
    found = find_attempt(services, caller, attempt)
    whole = not public or caller.agent == found.agent
    if sees_live(caller) and public:
        found = services.store.attempts.get(found.id, public=True)
    audit = services.store.attempts.audit(found.id, public=not whole)
    audit = tell_audit(caller, found, audit)
    history = services.store.attempts.history(found.id, public=not whole)
    if not sees_words(services, caller, found):
        found, history = withhold_words(found), withhold_errors(history)
        audit = withhold_notes(audit)
    more = {"audit": msgspec.to_builtins(audit), "history": msgspec.to_builtins(history)}
    challenge = services.store.challenges.get(found.challenge)
    more["explanation"] = explain_score(challenge, found)
    if sees_live(caller):
        evaluation = services.store.attempts.evaluation(found.id)
        more["reason"] = None if evaluation is None else evaluation.reason
    if found.outcome is not None:
        more |= describe_place(services.store, challenge, found, public=public)
    document = describe_attempt(found) | more
    etag = make_etag(document, fields)
    return find_unchanged(request, etag) or answer(
        {"attempt": pick(document, fields, wire.WholeAttempt)}, etag=etag, cache_control="no-cache"
    )


@router.get(
    "/attempts/{attempt}/token",
    response_model=wire.AttemptToken,
    dependencies=[may(COMPETITORS)],
)
def get_token(
    attempt: str,
    caller: Who,
    services: Services,
    agent: Annotated[str | None, Query(max_length=40, description="Whose attempt it is.")] = None,
) -> Response:
    """What makes spans the witnessed trajectory of an open attempt, as entering gave it."""
    found = find_own_attempt(services, caller, attempt, agent).attempt
    return answer({"token": services.store.witness.make_token(found.id)}, cache_control="no-store")


@router.get(
    "/attempts/{attempt}/form", response_model=wire.AttemptForm, dependencies=[may(COMPETITORS)]
)
def get_form(
    attempt: str,
    caller: Who,
    services: Services,
    agent: Annotated[str | None, Query(max_length=40, description="Whose attempt it is.")] = None,
) -> Response:
    """In which form, and how large, an answer is taken: by the version that was entered."""
    found = find_own_attempt(services, caller, attempt, agent).attempt
    form = services.competition.rulings.find_version(found).submission
    return answer({"submission": msgspec.to_builtins(form)})


def _bound_answer(services: TenantServices, caller: Caller, attempt: str) -> BodyBound:
    known = find_own_attempt(services, caller, attempt)
    form = services.competition.rulings.find_version(known.attempt).submission
    return BodyBound(find_most_bytes(form), known)


@router.post(
    "/attempts/{attempt}/submission",
    response_model=wire.Submitted,
    dependencies=[may(COMPETITORS, "write")],
    responses={202: {"model": wire.Submitted, "description": "Taken, and not yet scored."}},
)
@bounds_body(_bound_answer)
@keeps_idempotency
async def submit(
    attempt: str,
    body: wire.SentSubmission,
    request: Request,
    caller: Who,
    services: Services,
    key: IdempotencyKey = None,
    prefer: Annotated[str, Header()] = "",
    validate_only: ValidateOnly = False,
) -> Response:
    """Submit an answer, once, before the time is up, and see its score.

    It waits up to 30 s for the breakdown, unless `Prefer: respond-async` asks it not to; then, or
    after that, 202 and a job to look at.
    """
    service = find_service(request)
    trajectory = body.trajectory
    if trajectory is not None and not isinstance(trajectory, str):
        trajectory = msgspec.json.encode(trajectory).decode()
    sent = Payload(submission=body.answer, metadata=body.metadata, trajectory=trajectory)

    known: StoredAttempt = request.state.bound.found
    if body.agent is not None and speak_for(caller, body.agent) != known.attempt.agent:
        raise explain_foreign_attempt(attempt, body.agent)

    def check() -> Response:
        seen = read_witnessed(services.store, attempt)
        services.competition.take_submission(known, sent, seen)
        found = check_answer(services, known, sent, service.clock())
        return answer({"valid": True, "findings": msgspec.to_builtins(found)})

    def take() -> TakenSubmission | Response:
        done = submit_answer(services, caller, known, sent, key=key)
        return describe(done) if done.job is None else done

    def describe(done: TakenSubmission) -> Response:
        job, now = done.job, service.clock()
        document = describe_submitted(services, done, now, public=not sees_live(caller))
        if done.attempt.state != "submitted":
            return answer(document)
        place = {} if job is None else {"location": f"/api/v1/jobs/{job.id}"}
        return answer(document | {"job": None if job is None else job.id}, 202, **place)

    if validate_only:
        return await service.run_in_thread(caller, check)
    done = await service.run_in_thread(caller, take)
    if isinstance(done, Response):
        return done
    if "respond-async" not in prefer.lower():
        done = await await_score(service, caller, done)
    return await service.run_in_thread(caller, describe, done, patient=True)


@router.get(
    "/attempts/{attempt}/submission",
    response_model=wire.OneSubmission,
    dependencies=[may(COMPETITORS)],
)
def get_submission(
    attempt: str, caller: Who, services: Services, fields: Fields = None
) -> Response:
    """What was submitted: for the agent that sent it and for organisers, and for nobody else."""
    found = msgspec.to_builtins(find_submission(services, caller, attempt))
    told = pick(found, fields, wire.SubmissionState)
    return answer({"submission": told}, cache_control="no-store")


@router.post(
    "/attempts/{attempt}/withdraw",
    response_model=wire.OneAttempt,
    dependencies=[may(COMPETITORS, "write")],
)
def withdraw(
    attempt: str,
    body: wire.Withdrawal,
    request: Request,
    caller: Who,
    services: Services,
    validate_only: ValidateOnly = False,
) -> Response:
    """Give up an open attempt, which is a loss; another can then be entered."""
    found = find_own_attempt(services, caller, attempt, body.agent).attempt
    at = find_service(request).clock()
    done = services.store.attempts.withdraw(found.id, found.agent, at, reason=body.reason)
    return answer({"attempt": describe_attempt(done)})


@router.post(
    "/attempts/{attempt}/void",
    response_model=wire.OneAttempt,
    dependencies=[may(ORGANISERS, "write")],
)
def void(
    attempt: str,
    body: wire.Act,
    request: Request,
    services: Services,
    validate_only: ValidateOnly = False,
) -> Response:
    """Let an attempt count no more, in boards, ratings and quotas."""
    at = find_service(request).clock()
    done = services.store.attempts.void(attempt, at=at, reason=body.reason)
    return answer({"attempt": describe_attempt(done)})


@router.post(
    "/attempts/{attempt}/unvoid",
    response_model=wire.OneAttempt,
    dependencies=[may(ORGANISERS, "write")],
)
def unvoid(
    attempt: str,
    body: wire.Act,
    request: Request,
    services: Services,
    validate_only: ValidateOnly = False,
) -> Response:
    """Let a void attempt count as if it had never been void."""
    at = find_service(request).clock()
    done = services.store.attempts.unvoid(attempt, at=at, reason=body.reason)
    return answer({"attempt": describe_attempt(done)})


def describe_attempt(attempt: Attempt) -> dict[str, Any]:
    """An attempt as JSON; what it has not come to yet is null."""
    return {**_NOT_YET, **attempt.to_public()}
