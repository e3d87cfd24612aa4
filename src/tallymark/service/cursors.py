"""Parameters of paged lists, and the opaque cursor of the next page."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from tallymark.errors import BadRequest, Place
from tallymark.service.operations import Page

Limit = Annotated[int, Meta(ge=1, le=1000, description="Maximum number of items on a page.")]
Cursor = Annotated[str, Meta(max_length=500, description="`next` of the previous page.")]
T = TypeVar("T")
_BEYOND = 2**63


def slice_page(found: Sequence[T], limit: int, cursor: str | None) -> Page[T]:
    """Make a page of a list that is short enough to be read whole."""
    place = read_cursor(cursor, int)
    first = place[0] if place else 0
    end = first + limit
    return Page(items=list(found[first:end]), next=write_cursor(end) if end < len(found) else None)


def write_cursor(*place: Any) -> str:
    """Encode the place where the next page begins."""
    return base64.urlsafe_b64encode(msgspec.json.encode(place)).decode().rstrip("=")


def read_cursor(cursor: str | None, *types: Any) -> Sequence[Any] | None:
    """Decode a place; anything that `write_cursor` did not write is refused."""
    if cursor is None:
        return None
    try:
        text = base64.b64decode(cursor + "=" * (-len(cursor) % 4), "-_", validate=True)
        place: Sequence[Any] = msgspec.json.decode(text, type=tuple[types])  # type: ignore[valid-type]
    except (ValueError, msgspec.MsgspecError):
        raise refuse_cursor() from None
    for each in place:
        # We count from 0, and no database counts further.
        if isinstance(each, int) and not 0 <= each < _BEYOND:
            raise refuse_cursor()
        if isinstance(each, str) and "\0" in each:
            raise refuse_cursor()
    return place


def refuse_cursor() -> Exception:
    """Make the error for a cursor that no page returned."""
    place = Place(source="cursor")
    return BadRequest("it is not from a page of this list", place=place, hint="leave it out")
