"""Boards: pages of them, the places around an agent, another rule, and what changes as it does."""

from __future__ import annotations

import re
from typing import Annotated, Any, NamedTuple

import msgspec
from anyio import to_thread
from fastapi import Query, Request, Response
from starlette.responses import StreamingResponse

from tallymark.api.access import PUBLIC, Allow, Services, Who, find_service, may
from tallymark.api.answers import (
    Cursor,
    Fields,
    Limit,
    answer,
    encode,
    is_known,
    make_etag,
    pick_each,
    read_cursor,
    write_cursor,
)
from tallymark.api.api_route import make_router
from tallymark.api.event_stream import MEDIA_TYPE, find_last_event, stream_events
from tallymark.api.problems import refuse
from tallymark.api.quick_routes import QuickRoute
from tallymark.app.callers import Caller
from tallymark.app.live import View
from tallymark.app.service import Service, TenantServices
from tallymark.app.sight import find_newest_visible, find_visible, sees_live
from tallymark.app.what_if import WhatIfRule
from tallymark.store.contests.challenges import StoredChallenge
from tallymark.wire import attempts as wire

router = make_router("boards")
_EACH = 3
_USUAL_QUERY = re.compile(rb"(?:limit=[1-9][0-9]{0,2})?")


@router.get("/challenges/{name}/leaderboard", response_model=wire.Board, dependencies=[may(PUBLIC)])
def get_board(
    name: str,
    request: Request,
    caller: Who,
    services: Services,
    limit: Limit = 100,
    cursor: Cursor = None,
    around: Annotated[str | None, Query(max_length=40, description="An agent's handle.")] = None,
    side: Annotated[str | None, Query(pattern="^(red|blue)$")] = None,
    fields: Fields = None,
) -> Response:
    """The best attempt of every agent, in order; in red against blue, the players by side."""
    page = _Page(limit, cursor, around, side, fields)
    asked = request.headers.get("if-none-match")
    return _answer_board(find_service(request), services, caller, name, page, asked)


class _Page(NamedTuple):
    """Which part of a board is asked for."""

    limit: int = 100
    cursor: str | None = None
    around: str | None = None
    side: str | None = None
    fields: str | None = None


async def get_board_quickly(request: Request, name: str) -> Response:
    """The first so many of a board."""
    service, caller = find_service(request), request.state.caller
    services = service.tenant(caller.tenant)
    limit = request.scope["query_string"].removeprefix(b"limit=")
    page = _Page(int(limit)) if limit else _Page()
    asked = request.headers.get("if-none-match")
    return await to_thread.run_sync(_answer_board, service, services, caller, name, page, asked)


QUICK = QuickRoute(
    "GET",
    "/challenges/{name}/leaderboard",
    Allow(PUBLIC, "read"),
    get_board_quickly,
    lambda scope: _USUAL_QUERY.fullmatch(scope["query_string"]) is not None,
)


def _answer_board(
    service: Service,
    services: TenantServices,
    caller: Caller,
    name: str,
    page: _Page,
    asked: str | None,
) -> Response:
    kept, *newest = find_newest_visible(services, caller, name)
    public = not sees_live(caller)
    frozen = public and kept.is_frozen(service.clock())
    etag = make_etag(newest, kept.revision, kept.frozen_at, public, frozen, page)
    headers = {"etag": etag, "cache-control": "no-cache"}
    if is_known(asked, etag):
        return Response(status_code=304, headers=headers)
    key = (services.tenant, name, public, page)
    body = service.pages.find(key, etag)
    if body is None:
        document = _make_document(services, kept, public, page)
        document["frozen_at"] = kept.freezes_at if frozen else None
        body = encode(document)
        service.pages.keep(key, etag, body)
    return Response(body, 200, headers, "application/json")


def _make_document(
    services: TenantServices, kept: StoredChallenge, public: bool, page: _Page
) -> dict[str, Any]:
    place = read_cursor(page.cursor, int)
    first, name = place[0] if place else 0, kept.challenge.name
    if first < 0:
        raise refuse(400, "cursor: it is not one of ours", "begin without a cursor")
    if kept.challenge.kind == "versus":
        document = _read_versus(services, name, page.side, public, first, page.limit)
    else:
        document = _read_board(services, name, public, first, page.limit, page.around)
    document["items"] = pick_each(document["items"], page.fields)
    return document


def _read_board(
    services: TenantServices, name: str, public: bool, first: int, limit: int, around: str | None
) -> dict[str, Any]:
    boards = services.store.boards
    if around is None:
        found = boards.top(name, limit=limit, offset=first, public=public)
    else:
        found = boards.around(name, around, each=_EACH, public=public)
    size = boards.size(name, public=public)
    more = around is None and first + len(found) < size
    return {
        "items": msgspec.to_builtins(found),
        "next": write_cursor(first + limit) if more else None,
        "agents": size,
        "names": services.store.agents.names([each.agent for each in found]),
    }


def _read_versus(
    services: TenantServices, name: str, side: Any, public: bool, first: int, limit: int
) -> dict[str, Any]:
    lines = services.competition.arena(name).standings(side, public=public)
    shown = lines[first : first + limit]
    items = [
        msgspec.to_builtins(each)
        | {"agent": each.player, "score": each.ratio, "value": each.points, "attempt": None}
        for each in shown
    ]
    return {
        "items": items,
        "next": write_cursor(first + limit) if len(lines) > first + limit else None,
        "agents": len(lines),
        "names": services.store.agents.names([each.player for each in shown]),
    }


@router.post(
    "/challenges/{name}/what-if",
    response_model=wire.Supposed,
    dependencies=[may(PUBLIC, "read", 5)],
)
def suppose(
    name: str, body: wire.WhatIf, request: Request, caller: Who, services: Services
) -> Response:
    """The board by another formula, other weights or another config. Nothing changes."""
    find_visible(services, caller, name)
    rule = WhatIfRule(formula=body.formula, weights=body.weights, config=body.config)
    found = find_service(request).what_if.ask(
        services.store,
        name,
        rule,
        around=body.around,
        limit=body.limit,
        public=not sees_live(caller),
    )
    return answer(found)


@router.get(
    "/challenges/{name}/events",
    dependencies=[may(PUBLIC)],
    response_class=StreamingResponse,
    responses={200: {"content": {MEDIA_TYPE: {"schema": {"type": "string"}}}}},
)
async def listen_to_board(name: str, request: Request, caller: Who, services: Services) -> Response:
    """What changes at a challenge, as server-sent events."""
    await to_thread.run_sync(find_visible, services, caller, name)
    view: View = "organiser" if sees_live(caller) else "public"
    hub = find_service(request).live
    return stream_events(await hub.listen(services.store, name, view, find_last_event(request)))
