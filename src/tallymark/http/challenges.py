"""`/challenges` and `/tracks`: published, listed, closed, frozen, scored by another rule."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
from fastapi import Query, Request, Response
from pydantic import BaseModel

from tallymark.challenges.challenge_folder import unpack
from tallymark.http.access import (
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
    ValidateOnly,
    answer,
    find_unchanged,
    make_etag,
    pick,
    pick_each,
)
from tallymark.http.api_route import make_router
from tallymark.service.cursors import read_cursor, write_cursor
from tallymark.service.jobs import make_job
from tallymark.service.publishing import name_places
from tallymark.service.rescoring import (
    NewRule,
    apply_rescoring,
    preview_rescoring,
    queue_rescoring,
)
from tallymark.service.visibility import (
    find_visible,
    view_challenges,
)
from tallymark.store.contests.audit_log import check_reason
from tallymark.store.contests.challenges import StoredChallenge
from tallymark.wire import challenges as wire

router = make_router("challenges")
T = TypeVar("T", bound=BaseModel)
PACKED = ("application/vnd.tallymark.challenge", "application/octet-stream")


def _list_bodies(model: str) -> dict[str, Any]:
    """A document, or a packed folder."""
    content: dict[str, Any] = {
        "application/json": {"schema": {"$ref": f"#/components/schemas/{model}"}},
        **{kind: {"schema": {"type": "string", "format": "binary"}} for kind in PACKED},
    }
    return {"requestBody": {"required": True, "content": content}}


def describe_challenge(kept: StoredChallenge, at: float) -> dict[str, Any]:
    """A challenge as competitors see it."""
    state = kept.describe_state(at)
    document = kept.challenge.to_public()
    document |= {"closed": state.get("closed"), "frozen": state.get("frozen")}
    for name, usual in (("difficulty", "contender"), ("kind", "solo"), ("scoring", {})):
        document.setdefault(name, usual)
    return document


@router.post(
    "/challenges",
    response_model=wire.OneChallenge,
    status_code=201,
    dependencies=[may(ORGANISERS, "work")],
    openapi_extra=_list_bodies("NewChallenge"),
)
async def publish_challenge(
    request: Request,
    services: Services,
    validate_only: ValidateOnly = False,
    force: Annotated[bool, Query(description="Publish it whatever its check says.")] = False,
) -> Response:
    """Publish a challenge: a packed folder, or the JSON of the plugin document.

    A folder is checked as `tally challenge check` does, and refused when it is not ready.
    """
    write: Callable[[Path], None]
    if _is_packed(request):
        write = partial(unpack, await request.body())
    else:
        new = (await _read_body(request, wire.NewChallenge)).model_dump()
        write = partial(services.publishing.write_reported, given=new)

    def publish() -> StoredChallenge:
        with tempfile.TemporaryDirectory(prefix="tally-sent-") as scratch:
            folder = Path(scratch) / "challenge"
            write(folder)
            return services.publishing.publish(folder, validate_only=validate_only, force=force)

    service = find_service(request)
    kept = await service.run_in_thread(request.state.caller, publish)
    return answer({"challenge": describe_challenge(kept, service.clock())}, 201)


def _is_packed(request: Request) -> bool:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower() in PACKED


async def _read_body(request: Request, kind: type[T]) -> T:
    from fastapi.exceptions import RequestValidationError  # noqa: PLC0415
    from pydantic import ValidationError  # noqa: PLC0415

    from tallymark.http.problems import refuse  # noqa: PLC0415

    try:
        document = await request.json()
    except ValueError as error:
        raise refuse(400, f"the body is not JSON: {error}") from None
    try:
        return kind.model_validate(document)
    except ValidationError as error:
        mistakes = [
            {**each, "loc": ("body", *each["loc"])}
            for each in error.errors(include_url=False, include_context=False)
        ]
        raise RequestValidationError(mistakes) from None


@router.get("/challenges", response_model=wire.ChallengePage, dependencies=[may(PUBLIC)])
def list_challenges(
    request: Request,
    caller: Who,
    services: Services,
    limit: Limit = 100,
    cursor: Cursor = None,
    fields: Fields = None,
) -> Response:
    """Challenges by name; without a key, those that are public."""
    after = read_cursor(cursor, str)
    at = find_service(request).clock()
    found = [each.stored for each in view_challenges(services, caller)]
    left = [each for each in found if after is None or each.challenge.name > after[0]]
    more = write_cursor(left[limit - 1].challenge.name) if len(left) > limit else None
    told = (describe_challenge(each, at) for each in left[:limit])
    items = pick_each(told, fields, wire.ChallengeState)
    return answer({"items": items, "next": more})


@router.get("/challenges/{name}", response_model=wire.OneChallenge, dependencies=[may(PUBLIC)])
def get_challenge(
    name: str, request: Request, caller: Who, services: Services, fields: Fields = None
) -> Response:
    """One challenge: its goal, its limits, and how it is scored."""
    kept = find_visible(services, caller, name)
    document = describe_challenge(kept, find_service(request).clock())
    etag = make_etag(document, fields)
    return find_unchanged(request, etag) or answer(
        {"challenge": pick(document, fields, wire.ChallengeState)},
        etag=etag,
        cache_control="no-cache",
    )


@router.patch(
    "/challenges/{name}", response_model=wire.OneChallenge, dependencies=[may(ORGANISERS, "write")]
)
def change_challenge(
    name: str,
    body: wire.ChallengeChange,
    request: Request,
    services: Services,
    validate_only: ValidateOnly = False,
) -> Response:
    """Close or reopen a challenge, freeze or unfreeze its board, rename it: undone without loss."""
    challenges, at = services.store.challenges, find_service(request).clock()
    challenges.find(name)
    acts = []
    if body.closed is not None:
        acts.append(challenges.close if body.closed else challenges.reopen)
    if body.frozen is not None:
        acts.append(challenges.freeze if body.frozen else challenges.unfreeze)
    for act in acts:
        act(name, at=at, reason=body.reason)
    if body.name is not None:
        challenges.rename(name, body.name, at=at, reason=body.reason)
        name = body.name
    return answer({"challenge": describe_challenge(challenges.find(name), at)})


@router.delete(
    "/challenges/{name}", response_model=wire.OneChallenge, dependencies=[may(ORGANISERS, "write")]
)
def delete_challenge(
    name: str,
    request: Request,
    services: Services,
    reason: Annotated[str, Query(min_length=1, max_length=2000, description="Kept in the log.")],
) -> Response:
    """Delete a challenge that nobody has tried; the log says that it was there."""
    challenges, at = services.store.challenges, find_service(request).clock()
    kept = challenges.find(name)
    challenges.delete(name, at=at, reason=reason)
    return answer({"challenge": describe_challenge(kept, at)})


@router.post(
    "/challenges/{name}/rescore",
    response_model=wire.Rescored,
    dependencies=[may(ORGANISERS, "work")],
    responses={202: {"description": "It is queued: see the job."}},
    openapi_extra=_list_bodies("Rescore"),
)
async def rescore_challenge(
    name: str,
    request: Request,
    caller: Who,
    services: Services,
    preview: Annotated[bool, Query(description="Show who would move; change nothing.")] = False,
    reason: Annotated[
        str, Query(max_length=2000, description="Why; the log keeps it. Needed unless preview.")
    ] = "",
    validate_only: ValidateOnly = False,
) -> Response:
    """Score all attempts by another rule, or show what that would change.

    The rule is what changes of it as JSON, or a packed folder: a new version of the challenge.
    """
    packed = await request.body() if _is_packed(request) else None
    given = {}
    if packed is None:
        body = await _read_body(request, wire.Rescore)
        given = {key: value for key, value in body.model_dump().items() if value is not None}

    def rescore() -> Response:
        services.store.challenges.get(name)
        with tempfile.TemporaryDirectory(prefix="tally-sent-") as scratch:
            folder = None
            if packed is not None:
                folder = Path(scratch) / "challenge"
                unpack(packed, folder)
            rule = NewRule(changes=given, folder=folder)
            if preview or validate_only:
                with name_places(Path(scratch) / "challenge"):
                    found = preview_rescoring(services, name, rule)
                return answer(msgspec.to_builtins(found))
            how = {"reason": check_reason(reason)}
            scoring = rule.read_scoring(services, name)
            if folder is None and services.competition.rescores_quickly(name, **scoring):
                return answer(msgspec.to_builtins(apply_rescoring(services, name, rule, **how)))
            job = queue_rescoring(services, caller, name, rule, **how)
        place = f"/api/v1/jobs/{job.id}"
        return answer({"job": msgspec.to_builtins(make_job(job, caller))}, 202, location=place)

    return await find_service(request).run_in_thread(caller, rescore)


@router.get("/pauses", response_model=wire.PausePage, dependencies=[may(ORGANISERS)])
def list_pauses(
    services: Services, challenge: Annotated[str | None, Query(max_length=200)] = None
) -> Response:
    """Agents whose attempts ended a plugin's process too often to be scored."""
    found = services.store.pauses.all(challenge)
    return answer({"items": msgspec.to_builtins(found), "next": None})


@router.post(
    "/challenges/{name}/resume", response_model=wire.Resumed, dependencies=[may(ORGANISERS, "work")]
)
def resume_plugin(
    name: str, body: wire.Resume, services: Services, validate_only: ValidateOnly = False
) -> Response:
    """Let a plugin score paused agents again, and score what waited for it."""
    done = services.competition.resume(name, body.agent)
    again = [each.agent for each in services.store.pauses.all(name)]
    return answer(msgspec.to_builtins(done) | {"paused_again": again})
