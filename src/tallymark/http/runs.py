"""Events of runs; all else about runs are operations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tallymark.http.api_route import admit
from tallymark.http.envelope import restore_slashes
from tallymark.http.event_stream import find_last_event, stream_events
from tallymark.http.problems import answer_error
from tallymark.service.callers import TEAM
from tallymark.store.actors import act_as

if TYPE_CHECKING:
    from tallymark.service.service import Service


def make_event_route(service: Service, prefix: str) -> Route:
    """Make the route of server-sent events of a run."""

    async def listen(request: Request) -> Response:
        try:
            restore_slashes(request.scope)
            caller = await admit(request, TEAM, "read", 1)
            after = find_last_event(request)
            store, run = service.tenant(caller.tenant).store, request.path_params["run"]
            with act_as(caller.actor):
                found = await service.live.listen_to_run(store, run, after, caller=caller)
            return stream_events(found)
        except Exception as error:  # noqa: BLE001 (every error has an answer)
            return await answer_error(request, error)

    return Route(f"{prefix}/runs/{{run}}/events", listen, methods=["GET"])
