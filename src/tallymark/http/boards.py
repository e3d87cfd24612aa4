"""Boards: pages of them, the places around an agent, another rule, and what changes as it does."""

from __future__ import annotations

import re
from collections.abc import Hashable
from functools import partial
from typing import Annotated, Any, NamedTuple

import msgspec
from fastapi import Query, Request, Response

from tallymark.challenges.versus.standings import VersusStanding
from tallymark.http.access import PUBLIC, Allow, Services, Who, find_service, may
from tallymark.http.answers import (
    Cursor,
    Fields,
    Limit,
    Live,
    answer,
    encode,
    is_known,
    make_etag,
    pick_each,
)
from tallymark.http.api_route import changes_nothing, make_router
from tallymark.http.problems import refuse
from tallymark.http.quick_routes import QuickRoute
from tallymark.service.callers import Caller
from tallymark.service.cursors import read_cursor, write_cursor
from tallymark.service.service import Service
from tallymark.service.tenant import TenantServices
from tallymark.service.visibility import find_visible, is_public, sees_live, view_challenge
from tallymark.service.what_if import WhatIfRule
from tallymark.store.contests.challenges import StoredChallenge
from tallymark.wire import attempts as wire

router = make_router("boards")
_EACH = 3
_SHORT = 100
"""So many rows are read among others that wait; more by a thread of their own."""
_USUAL_QUERY = re.compile(rb"(?:limit=[1-9][0-9]{0,2}|around=[A-Za-z0-9._-]{1,40})?")


@router.get("/challenges/{name}/leaderboard", response_model=wire.Board, dependencies=[may(PUBLIC)])
def get_board(
    name: str,
    request: Request,
    caller: Who,
    services: Services,
    limit: Limit = 100,
    cursor: Cursor = None,
    around: Annotated[str | None, Query(max_length=40, description="An agent's handle.")] = None,
    each: Annotated[
        int, Query(ge=1, le=500, description="So many places on each side of the agent.")
    ] = _EACH,
    side: Annotated[str | None, Query(pattern="^(red|blue)$")] = None,
    live: Live = None,
    fields: Fields = None,
) -> Response:
    """The best attempt of every agent, in order; in red against blue, the players by side."""
    page = _Page(limit, cursor, around, each, side, live, fields)
    known = request.headers.get("if-none-match")
    return _answer_board(_Asked(find_service(request), services, caller, name, page, known))


class _Page(NamedTuple):
    """Which part of a board is asked for."""

    limit: int = 100
    cursor: str | None = None
    around: str | None = None
    each: int = _EACH
    side: str | None = None
    live: bool | None = None
    fields: str | None = None


class _Asked(NamedTuple):
    """A page, of which board, and by whom."""

    service: Service
    services: TenantServices
    caller: Caller
    name: str
    page: _Page
    known: str | None
    """The tag of what they have already."""


async def get_board_quickly(request: Request, name: str) -> Response:
    """The first so many of a board, or the places around an agent."""
    service, caller = find_service(request), request.state.caller
    services = service.tenant(caller.tenant)
    page = _read_usual_query(request.scope["query_string"].decode())
    asked = _Asked(service, services, caller, name, page, request.headers.get("if-none-match"))
    found = await services.store.read_soon(partial(_answer_quickly, asked))
    if found is None:
        return await service.run_in_thread(caller, _answer_board, asked)
    return found


QUICK = QuickRoute(
    "GET",
    "/challenges/{name}/leaderboard",
    Allow(PUBLIC, "read"),
    get_board_quickly,
    lambda scope: _USUAL_QUERY.fullmatch(scope["query_string"]) is not None,
)


def _read_usual_query(text: str) -> _Page:
    name, _, value = text.partition("=")
    if name == "around":
        return _Page(around=value)
    return _Page(int(value)) if value else _Page()


def _answer_board(asked: _Asked) -> Response:
    with asked.services.store.read():
        found = _find_answer(asked)
        if isinstance(found, Response):
            return found
        if found.kept.challenge.kind != "versus":
            return _make_answer(asked, found)
    return _make_answer(asked, found)  # standings of red against blue may take long


def _answer_quickly(asked: _Asked) -> Response | None:
    """The same among others that wait; None where making the page would keep them waiting."""
    found = _find_answer(asked)
    if isinstance(found, Response):
        return found
    challenge = found.kept.challenge
    slow = challenge.kind == "versus" or challenge.one_per == "owner"
    return None if slow or asked.page.limit > _SHORT else _make_answer(asked, found)


class _Board(NamedTuple):
    """A board whose page is not at hand."""

    kept: StoredChallenge
    public: bool
    frozen_at: float | None
    made_of: str
    """While this is the same, so is the page."""


def _find_answer(asked: _Asked) -> Response | _Board:
    """What is known already, or else which board to read."""
    view = view_challenge(asked.services, asked.caller, asked.name)
    kept, newest = view.stored, view.newest
    public = is_public(asked.caller, asked.page.live)
    frozen = public and kept.is_frozen(asked.service.clock())
    made_of = make_etag(newest, kept.revision, kept.frozen_at, public, frozen, asked.page)
    board = _Board(kept, public, kept.freezes_at if frozen else None, made_of)
    if not frozen and is_known(asked.known, made_of):
        return Response(status_code=304, headers=_tell_tag(made_of))
    body = asked.service.pages.find(_name_page(asked, public), made_of)
    return board if body is None else _answer_page(asked, board, body)


def _make_answer(asked: _Asked, board: _Board) -> Response:
    document = _make_document(asked, board)
    document["frozen_at"] = board.frozen_at
    body = encode(document)
    asked.service.pages.keep(_name_page(asked, board.public), board.made_of, body)
    return _answer_page(asked, board, body)


def _name_page(asked: _Asked, public: bool) -> Hashable:
    return asked.services.tenant, asked.name, public, asked.page


def _answer_page(asked: _Asked, board: _Board, body: bytes) -> Response:
    # That something was scored on a frozen board must not show in its tag.
    etag = board.made_of if board.frozen_at is None else make_etag(body)
    if is_known(asked.known, etag):
        return Response(status_code=304, headers=_tell_tag(etag))
    return Response(body, 200, _tell_tag(etag), "application/json")


def _tell_tag(etag: str) -> dict[str, str]:
    return {"etag": etag, "cache-control": "no-cache"}


def _make_document(asked: _Asked, board: _Board) -> dict[str, Any]:
    services, page, public = asked.services, asked.page, board.public
    place = read_cursor(page.cursor, int)
    first, name = place[0] if place else 0, board.kept.challenge.name
    if first < 0:
        raise refuse(400, "cursor: it is not one of ours", "begin without a cursor")
    declared: type[wire.Standing] = wire.Standing
    if board.kept.challenge.kind == "versus":
        declared = wire.SideStanding
        document = _read_versus(services, name, page.side, public, first, page.limit)
    else:
        document = _read_board(services, name, public, first, page)
    document["items"] = pick_each(document["items"], page.fields, declared)
    return document


def _read_board(
    services: TenantServices,
    name: str,
    public: bool,
    first: int,
    page: _Page,
) -> dict[str, Any]:
    boards = services.store.boards
    if page.around is None:
        found = boards.top(name, limit=page.limit, offset=first, public=public)
    else:
        found = boards.around(name, page.around, each=page.each, public=public)
    size = boards.size(name, public=public)
    more = page.around is None and first + len(found) < size
    return {
        "items": msgspec.to_builtins(found),
        "next": write_cursor(first + page.limit) if more else None,
        "agents": size,
        "names": services.store.agents.names([each.agent for each in found]),
    }


def _read_versus(
    services: TenantServices, name: str, side: Any, public: bool, first: int, limit: int
) -> dict[str, Any]:
    lines = services.competition.arena(name).standings(side, public=public)
    shown = lines[first : first + limit]
    return {
        "items": list(map(describe_line, shown)),
        "next": write_cursor(first + limit) if len(lines) > first + limit else None,
        "agents": len(lines),
        "names": services.store.agents.names([each.player for each in shown]),
    }


def describe_line(line: VersusStanding) -> dict[str, Any]:
    """A player of a side as a board has it."""
    more = {"agent": line.player, "score": line.ratio, "value": line.points, "attempt": None}
    return {**msgspec.to_builtins(line), **more}


@router.post(
    "/challenges/{name}/what-if",
    response_model=wire.Supposed,
    dependencies=[may(PUBLIC, "read", 5)],
)
@changes_nothing
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
