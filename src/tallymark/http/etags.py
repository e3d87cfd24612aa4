"""Entity tags: what has not changed since the client last asked is not sent again."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from starlette.responses import Response

if TYPE_CHECKING:
    from starlette.requests import Request


def make_etag(*state: Any) -> str:
    """Make a tag that stays the same while all of this does."""
    return f'"{hashlib.blake2b(repr(state).encode(), digest_size=12).hexdigest()}"'


def find_unchanged(request: Request, etag: str) -> Response | None:
    """Return status 304 for a client that has this already."""
    if not is_known(request.headers.get("if-none-match"), etag):
        return None
    return Response(status_code=304, headers={"etag": etag, "cache-control": "no-cache"})


def is_known(asked: str | None, etag: str) -> bool:
    """Whether an `If-None-Match` names the tag."""
    if asked is None:
        return False
    return asked.strip() == "*" or etag in asked.replace("W/", "").split(", ")
