"""`/agents` and `/ratings`: who takes part, and how strong they are."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from fastapi import Query, Request, Response

from tallymark.http.access import MEMBERS, ORGANISERS, PUBLIC, Services, Who, find_service, may
from tallymark.http.answers import (
    Cursor,
    Fields,
    Limit,
    Live,
    ValidateOnly,
    answer,
    encode,
    find_unchanged,
    make_etag,
    pick,
    pick_each,
)
from tallymark.http.api_route import make_router
from tallymark.http.boards import describe_line
from tallymark.service.callers import Caller, check_role
from tallymark.service.cursors import read_cursor, write_cursor
from tallymark.service.keys import give_agent
from tallymark.service.ratings import RatingTable, keep_ratings
from tallymark.service.side_places import list_side_places
from tallymark.service.tenant import TenantServices
from tallymark.service.visibility import is_public, show_owner
from tallymark.store.contests.agents import AgentRecord
from tallymark.wire import attempts as wire

router = make_router("agents")


def describe_agent(record: AgentRecord, caller: Caller) -> dict[str, Any]:
    """Who it is, as far as the caller may know."""
    return {
        "handle": record.handle,
        "name": record.name,
        "owner": show_owner(caller, record.handle, record.owner),
        "created_at": record.created_at,
        "disqualified_at": record.disqualified_at,
    }


@router.get("/agents", response_model=wire.AgentPage, dependencies=[may(MEMBERS)])
def list_agents(
    caller: Who,
    services: Services,
    owner: Annotated[str | None, Query(max_length=100)] = None,
    named: Annotated[
        bool, Query(description="Only those that are shown by another name than their handle.")
    ] = False,
    limit: Limit = 100,
    cursor: Cursor = None,
    fields: Fields = None,
) -> Response:
    """Agents by handle; whose they are is told to their owner and to organisers."""
    if owner not in (None, caller.owner):
        check_role(caller, ORGANISERS)
    after = read_cursor(cursor, str)
    found = services.store.agents.all(
        after=after[0] if after else "", limit=limit + 1, owner=owner, named=named
    )
    more = write_cursor(found[limit - 1].handle) if len(found) > limit else None
    told = (describe_agent(each, caller) for each in found[:limit])
    items = pick_each(told, fields, wire.AgentState)
    return answer({"items": items, "next": more})


@router.get("/agents/{handle}", response_model=wire.OneAgent, dependencies=[may(MEMBERS)])
def get_agent(
    handle: str,
    request: Request,
    caller: Who,
    services: Services,
    live: Live = None,
    fields: Fields = None,
) -> Response:
    """An agent: its rating and its places."""
    record = services.store.agents.get(handle)
    # One's own too: a place on the live board tells how many others have passed it.
    public = is_public(caller, live)
    rating = services.store.ratings.current(handle, services.now, public=public)
    places = services.store.boards.places(handle, public=public)
    document = describe_agent(record, caller) | {
        "elo": msgspec.to_builtins(rating.elo) | {"provisional": rating.provisional},
        "places": msgspec.to_builtins(places),
        "sides": _describe_sides(services, handle, public),
    }
    etag = make_etag(document, fields)
    return find_unchanged(request, etag) or answer(
        {"agent": pick(document, fields, wire.WholeAgent)}, etag=etag, cache_control="no-cache"
    )


def _describe_sides(
    services: TenantServices, handle: str, public: bool
) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for each in list_side_places(services.store, handle, at=services.now, public=public):
        line = describe_line(each.line) | {"tries": each.tries}
        found.setdefault(each.name, []).append(line)
    return found


@router.patch(
    "/agents/{handle}", response_model=wire.OneAgent, dependencies=[may(ORGANISERS, "write")]
)
def change_agent(
    handle: str,
    body: wire.AgentChange,
    request: Request,
    caller: Who,
    services: Services,
    validate_only: ValidateOnly = False,
) -> Response:
    """Say what boards show of an agent, or whose it is."""
    service = find_service(request)
    if body.name is not None:
        services.store.agents.name_agent(handle, body.name, at=service.clock())
    if "owner" in body.model_fields_set:
        give_agent(services, caller, handle, body.owner)
    return answer({"agent": describe_agent(services.store.agents.get(handle), caller)})


@router.post(
    "/agents/{handle}/disqualify",
    response_model=wire.OneAgent,
    dependencies=[may(ORGANISERS, "write")],
)
def disqualify(
    handle: str,
    body: wire.Act,
    request: Request,
    caller: Who,
    services: Services,
    validate_only: ValidateOnly = False,
) -> Response:
    """Take an agent off all boards and ratings; it may not compete."""
    services.store.agents.get(handle)
    at = find_service(request).clock()
    services.store.disqualifications.disqualify(handle, at=at, reason=body.reason)
    return answer({"agent": describe_agent(services.store.agents.get(handle), caller)})


@router.post(
    "/agents/{handle}/reinstate",
    response_model=wire.OneAgent,
    dependencies=[may(ORGANISERS, "write")],
)
def reinstate(
    handle: str,
    body: wire.Act,
    request: Request,
    caller: Who,
    services: Services,
    validate_only: ValidateOnly = False,
) -> Response:
    """Let an agent compete, as if it had never been disqualified."""
    services.store.agents.get(handle)
    at = find_service(request).clock()
    services.store.disqualifications.reinstate(handle, at=at, reason=body.reason)
    return answer({"agent": describe_agent(services.store.agents.get(handle), caller)})


@router.get("/ratings", response_model=wire.Ratings, dependencies=[may(PUBLIC, "work")])
def get_ratings(
    caller: Who,
    services: Services,
    k: Annotated[int, Query(ge=1, le=100, description="For pass@k and pass^k.")] = 3,
    live: Live = None,
) -> Response:
    """Strengths with intervals, Elo, and difficulties, from the log of attempts."""
    body = keep_ratings(services, caller, _encode_ratings, k=k, public=is_public(caller, live))
    return Response(body, media_type="application/json")


def _encode_ratings(table: RatingTable) -> bytes:
    return encode(table.to_dict())
