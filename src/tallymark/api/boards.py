"""Boards: pages of them, the places around an agent, another rule, and what changes as it does."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from anyio import to_thread
from fastapi import Query, Request, Response
from starlette.responses import StreamingResponse

from tallymark.api.access import PUBLIC, Services, Who, find_service, may
from tallymark.api.answers import (
    Cursor,
    Fields,
    Limit,
    answer,
    find_unchanged,
    make_etag,
    pick_each,
    read_cursor,
    write_cursor,
)
from tallymark.api.api_route import make_router
from tallymark.api.event_stream import MEDIA_TYPE, find_last_event, stream_events
from tallymark.api.sight import find_visible, sees_live
from tallymark.app.live import View
from tallymark.app.service import TenantServices
from tallymark.app.what_if import WhatIfRule
from tallymark.wire import attempts as wire

router = make_router("boards")
_EACH = 3


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
    kept = find_visible(services, caller, name)
    public = not sees_live(caller)
    seq = services.store.audit_log.find_last(kept.id)
    at = find_service(request).clock()
    # A planned freeze comes without anything being written.
    frozen_at = kept.freezes_at if public and kept.is_frozen(at) else None
    etag = make_etag(seq, kept.revision, frozen_at, public, str(request.query_params))
    unchanged = find_unchanged(request, etag)
    if unchanged is not None:
        return unchanged
    place = read_cursor(cursor, int)
    first = place[0] if place else 0
    if kept.challenge.kind == "versus":
        document = _read_versus(services, name, side, public, first, limit)
    else:
        document = _read_board(services, name, public, first, limit, around)
    document["items"] = pick_each(document["items"], fields)
    document["frozen_at"] = frozen_at
    return answer(document, etag=etag, cache_control="no-cache")


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
