"""Server-sent events: bytes that a hub encoded once, passed on until one side goes."""

from __future__ import annotations

from collections.abc import AsyncIterator

from fastapi import Request
from starlette.responses import StreamingResponse

MEDIA_TYPE = "text/event-stream"
_HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}


def find_last_event(request: Request) -> str | None:
    """After which event the listener wants to go on: a browser sends it when it comes back."""
    return request.headers.get("last-event-id") or request.query_params.get("after")


def stream_events(chunks: AsyncIterator[bytes]) -> StreamingResponse:
    """The answer; it ends when the listener goes."""
    return StreamingResponse(chunks, headers=_HEADERS, media_type=MEDIA_TYPE)
