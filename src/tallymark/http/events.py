"""Server-sent events of boards and runs, from the log of each."""

from __future__ import annotations

from collections.abc import AsyncIterator

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from tallymark.http.access import find_service
from tallymark.http.plain_routes import PlainRoute
from tallymark.service.callers import PUBLIC, TEAM
from tallymark.service.live import View
from tallymark.service.tenant import TenantServices
from tallymark.service.visibility import find_visible, sees_live

MEDIA_TYPE = "text/event-stream"
_HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}


def find_last_event(request: Request) -> str | None:
    """Return the number of the event to continue after; browsers send it when they reconnect."""
    return request.headers.get("last-event-id") or request.query_params.get("after")


def stream_events(chunks: AsyncIterator[bytes]) -> StreamingResponse:
    """Answer with encoded events until the listener disconnects."""
    return StreamingResponse(chunks, headers=_HEADERS, media_type=MEDIA_TYPE)


async def listen_to_board(request: Request, services: TenantServices) -> Response:
    name, caller = request.path_params["name"], request.state.caller
    service = find_service(request)
    await service.run_in_thread(caller, find_visible, services, caller, name)
    view: View = "organiser" if sees_live(caller) else "public"
    after = find_last_event(request)
    chunks = await service.live.listen(services.store, name, view, after, caller=caller)
    return stream_events(chunks)


async def listen_to_run(request: Request, services: TenantServices) -> Response:
    run, caller = request.path_params["run"], request.state.caller
    hub = find_service(request).live
    after = find_last_event(request)
    return stream_events(await hub.listen_to_run(services.store, run, after, caller=caller))


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
