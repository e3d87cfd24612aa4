"""Server-sent events of boards and runs, from the log of each."""

from __future__ import annotations

from collections.abc import AsyncIterator

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from tallymark.http.admission import find_service
from tallymark.http.plain_routes import PlainRoute
from tallymark.service.callers import PUBLIC, TEAM
from tallymark.service.tenant import TenantServices

MEDIA_TYPE = "text/event-stream"
_HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}


def find_last_event(request: Request) -> str | None:
    """Return the number of the event to continue after; browsers send it when they reconnect."""
    return request.headers.get("last-event-id") or request.query_params.get("after")


def stream_events(chunks: AsyncIterator[bytes]) -> StreamingResponse:
    """Answer with encoded events until the listener disconnects."""
    return StreamingResponse(chunks, headers=_HEADERS, media_type=MEDIA_TYPE)


async def listen_to_board(request: Request, services: TenantServices) -> Response:
    hub, name = find_service(request).live, request.path_params["name"]
    after = find_last_event(request)
    return stream_events(await hub.listen_to_board(services, request.state.caller, name, after))


async def listen_to_run(request: Request, services: TenantServices) -> Response:
    hub, run = find_service(request).live, request.path_params["run"]
    after = find_last_event(request)
    return stream_events(await hub.listen_to_run(services, request.state.caller, run, after))


def _describe(summary: str, tag: str, name: str) -> dict[str, object]:
    text = {"schema": {"type": "string"}}
    return {
        "summary": summary,
        "tags": [tag],
        "parameters": [{"name": name, "in": "path", "required": True, "schema": text["schema"]}],
        "responses": {"200": {"description": "Events.", "content": {MEDIA_TYPE: text}}},
    }


ROUTES = [
    PlainRoute(
        method="GET",
        path="/api/v1/challenges/{name}/events",
        handle=listen_to_board,
        may=PUBLIC,
        entry=_describe("Changes of a challenge, as server-sent events.", "boards", "name"),
    ),
    PlainRoute(
        method="GET",
        path="/api/v1/runs/{run}/events",
        handle=listen_to_run,
        may=TEAM,
        entry=_describe("Progress of a run, as server-sent events.", "runs", "run"),
    ),
]
