"""`View`: what one page shows, as one value; the problem in its place, and its pager."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from tallymark.errors import (
    Conflict,
    InvalidInput,
    NeedsJob,
    NotAllowed,
    NotFound,
    NotSignedIn,
    TallymarkError,
    TooMany,
    WorkFailed,
)

_LOG = logging.getLogger("tallymark.web")


class View(msgspec.Struct, frozen=True, kw_only=True):
    """What one page shows. Its template only lays it out, and as JSON it is the same value."""

    title: str

    def list_rows(self) -> Iterable[Mapping[str, Any]]:
        """The rows of its main table, for CSV."""
        return ()


class Download(View, frozen=True, kw_only=True):
    """A file in the place of a page; its title is its name."""

    content: bytes
    media_type: str = "application/octet-stream"


class Pager(msgspec.Struct, frozen=True, kw_only=True):
    """Which part of a list is shown; None where a list has no end that is known."""

    offset: int
    limit: int
    total: int

    @property
    def first(self) -> int:
        return min(self.offset + 1, self.total)

    @property
    def last(self) -> int:
        return min(self.offset + self.limit, self.total)

    @property
    def before(self) -> int | None:
        """Where the part before begins."""
        return max(0, self.offset - self.limit) if self.offset else None

    @property
    def after(self) -> int | None:
        """Where the next part begins."""
        return self.offset + self.limit if self.last < self.total else None


class Problem(View, frozen=True, kw_only=True):
    """A page in the place of one that cannot be shown."""

    status: int
    problems: list[str]
    hints: list[str]


_STATUSES: tuple[tuple[type[TallymarkError], int, str], ...] = (
    (NotFound, 404, "Not here"),
    (Conflict, 409, "Not now"),
    (NeedsJob, 422, "Too much for a page"),
    (InvalidInput, 422, "This address cannot be read"),
    (NotSignedIn, 401, "Sign in first"),
    (NotAllowed, 403, "Not for you"),
    (TooMany, 429, "Too often"),
    (WorkFailed, 503, "Not just now"),
)


def describe_problem(error: Exception) -> Problem:
    """What is wrong, for people; of what is our mistake, nothing that could tell a secret."""
    if not isinstance(error, TallymarkError):
        _LOG.exception("a page could not be made", exc_info=error)
        said = "The server made a mistake; it is written down in its log."
        return Problem(title="Something broke", status=500, problems=[said], hints=[])
    status, title = next(
        (status, title) for kind, status, title in _STATUSES if isinstance(error, kind)
    )
    return Problem(
        title=title,
        status=status,
        problems=[each.message for each in error.problems],
        hints=[each.hint for each in error.problems if each.hint],
    )
