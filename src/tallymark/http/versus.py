"""Red against blue: submitted to a side, read again by who sent it, judged."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from fastapi import Query, Response

from tallymark.http.access import COMPETITORS, ORGANISERS, Services, Who, may
from tallymark.http.answers import Cursor, Fields, Limit, ValidateOnly, answer, pick, pick_each
from tallymark.http.api_route import BodyBound, bounds_body, make_router
from tallymark.service.callers import Caller
from tallymark.service.cursors import read_cursor, write_cursor
from tallymark.service.side_submissions import find_side_submission, list_side_submissions
from tallymark.service.submissions import find_most_bytes
from tallymark.service.tenant import TenantServices
from tallymark.service.visibility import find_visible, speak_for
from tallymark.wire import versus as wire

router = make_router("versus")
Side = Literal["red", "blue"]


def _find_side_bytes(
    services: TenantServices,
    caller: Caller,
    name: str,
    side: str,
) -> BodyBound:
    form = find_visible(services, caller, name).challenge.submission
    return BodyBound(find_most_bytes(form, 0))


@router.post(
    "/challenges/{name}/sides/{side}",
    response_model=wire.Sided,
    status_code=201,
    dependencies=[may(COMPETITORS, "write")],
)
@bounds_body(_find_side_bytes)
def submit_to_side(
    name: str,
    side: Side,
    body: wire.SideSubmission,
    caller: Who,
    services: Services,
    validate_only: ValidateOnly = False,
) -> Response:
    """Submit an attack or a defence; it meets every active one of the other side."""
    agent = speak_for(caller, body.agent)
    arena = services.competition.arena(name)
    if validate_only:
        arena.check(agent, side, body.content)
        return answer({"valid": True})
    submission, verdicts = arena.submit(agent, side, body.content)
    told = [msgspec.to_builtins(each.without_words()) for each in verdicts]
    return answer({"submission": msgspec.to_builtins(submission), "verdicts": told}, 201)


@router.post(
    "/challenges/{name}/settle",
    response_model=wire.SidesSettled,
    dependencies=[may(ORGANISERS, "work")],
)
def settle_sides(
    name: str, body: wire.SettleSide, services: Services, validate_only: ValidateOnly = False
) -> Response:
    """In red against blue, judge what was left without a verdict."""
    arena = services.competition.arena(name)
    judged = 0 if validate_only else arena.settle(again=body.again)
    return answer({"judged": judged, "failed": msgspec.to_builtins(arena.list_failed())})


@router.get(
    "/challenges/{name}/submissions",
    response_model=wire.SidePage,
    dependencies=[may(COMPETITORS)],
)
def list_submissions(
    name: str,
    caller: Who,
    services: Services,
    agent: Annotated[str | None, Query(max_length=40)] = None,
    side: Side | None = None,
    limit: Limit = 50,
    cursor: Cursor = None,
    fields: Fields = None,
) -> Response:
    """In red against blue, one's own submissions, newest first; for organisers those of all."""
    before = read_cursor(cursor, int)
    found = list_side_submissions(
        services,
        caller,
        name,
        agent=agent,
        side=side,
        before=before[0] if before else None,
        limit=limit + 1,
    )
    more = write_cursor(found[limit - 1].id) if len(found) > limit else None
    items = pick_each(map(msgspec.to_builtins, found[:limit]), fields, wire.SideItem)
    return answer({"items": items, "next": more})


@router.get(
    "/challenges/{name}/submissions/{submission}",
    response_model=wire.OneSide,
    dependencies=[may(COMPETITORS)],
)
def get_submission(
    name: str,
    submission: int,
    caller: Who,
    services: Services,
    fields: Fields = None,
) -> Response:
    """In red against blue, what was submitted: for who sent it and for organisers alone."""
    found = msgspec.to_builtins(find_side_submission(services, caller, name, submission))
    told = pick(found, fields, wire.WholeSide)
    return answer({"submission": told}, cache_control="no-store")
