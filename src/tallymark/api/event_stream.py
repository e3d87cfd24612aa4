"""Server-sent events: bytes that a hub encoded once, passed on until one side goes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Literal

from fastapi import Request, Response
from starlette.responses import StreamingResponse

from tallymark.api.access import find_service
from tallymark.api.problems import refuse
from tallymark.app.service import TenantServices

_HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}


async def stream_events(
    request: Request,
    services: TenantServices,
    kind: Literal["challenge", "run"],
    name: str,
    *,
    view: Literal["public", "organiser"] = "organiser",
) -> Response:
    """The events of a challenge or a run, after `Last-Event-ID` where the listener has one."""
    asked = request.headers.get("last-event-id") or request.query_params.get("after")
    if asked is not None and not (asked.isascii() and asked.isdigit() and len(asked) < 19):
        raise refuse(400, "Last-Event-ID: it is not one of ours", "leave it out to begin now")
    hub = find_service(request).live
    last = None if asked is None else int(asked)
    chunks: AsyncIterator[bytes]
    if kind == "challenge":
        chunks = await hub.listen_to_board(services.tenant, name, view, last)
    else:
        chunks = await hub.listen_to_run(services.tenant, name, last)
    return StreamingResponse(chunks, headers=_HEADERS, media_type="text/event-stream")
