"""`Page`: one address, a function that gathers its `View`, and one template; also JSON and CSV.

A page with forms has actions: the form names one, and it leads to another page. `page_server.py`
serves pages.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

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

if TYPE_CHECKING:
    from tallymark.web.page_request import PageRequest

_LOG = logging.getLogger("tallymark.web")


class View(msgspec.Struct, frozen=True, kw_only=True):
    """The value that a page shows; the template only lays it out, and JSON shows the same."""

    title: str

    def list_rows(self) -> Iterable[Mapping[str, Any]]:
        """Yield the rows of the main table, for CSV."""
        return ()


class Download(View, frozen=True, kw_only=True):
    """A file instead of a page; its title is the file name."""

    content: bytes
    media_type: str = "application/octet-stream"


class Pager(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a list that is shown."""

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
        """Offset of the previous part."""
        return max(0, self.offset - self.limit) if self.offset else None

    @property
    def after(self) -> int | None:
        """Offset of the next part."""
        return self.offset + self.limit if self.last < self.total else None


class Problem(View, frozen=True, kw_only=True):
    """The page of an error."""

    status: int
    problems: list[str]
    hints: list[str]


_STATUSES: tuple[tuple[type[TallymarkError], int, str], ...] = (
    (NotFound, 404, "Not found"),
    (Conflict, 409, "Not possible now"),
    (NeedsJob, 422, "Too large for a page"),
    (InvalidInput, 422, "Invalid address"),
    (NotSignedIn, 401, "Sign in first"),
    (NotAllowed, 403, "Your key does not allow this"),
    (TooMany, 429, "Too many requests"),
    (WorkFailed, 503, "Temporarily unavailable"),
)


def describe_problem(error: Exception) -> Problem:
    """Describe an error; an internal one without details that could leak secrets."""
    if not isinstance(error, TallymarkError):
        _LOG.exception("a page could not be made", exc_info=error)
        said = "The server failed; its log has the details."
        return Problem(title="Internal error", status=500, problems=[said], hints=[])
    status, title = next(
        (status, title) for kind, status, title in _STATUSES if isinstance(error, kind)
    )
    return Problem(
        title=title,
        status=status,
        problems=[each.message for each in error.problems],
        hints=[each.hint for each in error.problems if each.hint],
    )


@dataclass(frozen=True)
class Outcome:
    """Result of an action: a redirect, or a page shown once."""

    address: str = ""
    view: View | None = None
    template: str = ""
    session: str | None = None
    """Token of a new session; empty to end the session."""
    status: int = 200
    """HTTP status of the view."""
    job: str | None = None
    """A job to wait for briefly before the next page is shown."""


@dataclass(frozen=True, kw_only=True)
class Shared:
    """A part of a page that is rendered once for many visitors."""

    request: PageRequest
    """A request with the same permissions, without the visitor."""
    made_of: Hashable
    """Cache key: the part is rendered again when it changes."""


@dataclass(frozen=True)
class File:
    """A file to download."""

    name: str
    content: str
    """A self-contained HTML page."""


Gather: TypeAlias = "Callable[[PageRequest], View]"
Act: TypeAlias = "Callable[[PageRequest], Outcome]"
MakeFile: TypeAlias = "Callable[[PageRequest], File]"


@dataclass(frozen=True)
class Page:
    """One address and what it shows."""

    path: str
    template: str
    gather: Gather
    parts: Mapping[str, str] = field(default_factory=dict)
    """Parts of the page that script fetches: names and templates."""
    actions: Mapping[str, Act] = field(default_factory=dict)
    """Actions by the value of the form field `do`."""
    files: Mapping[str, MakeFile] = field(default_factory=dict)
    """Downloads by the value of `format`."""
    share: Callable[[PageRequest], Shared | None] | None = None
    """Returns what many visitors share, if anything."""
    find_most_bytes: Callable[[PageRequest], int] | None = None
    """Returns the largest size of its forms."""
    anonymous_may_act: bool = False
    """True if forms may be sent without signing in."""
    own_transactions: bool = False
    """True for a page that previews a change or runs a script, so that no read transaction may be
    open meanwhile."""
    mailed: str = ""
    """Template of the page as one self-contained file: `format=html`."""


class Moved(Exception):
    """Redirect to a better address."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.address = address
