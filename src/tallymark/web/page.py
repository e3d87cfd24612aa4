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


@dataclass(frozen=True)
class Outcome:
    """What an action leads to: another page, or one that is shown this once."""

    address: str = ""
    view: View | None = None
    template: str = ""
    session: str | None = None
    """A session that begins; an empty one ends it."""
    status: int = 200
    """Of a view that is shown."""
    job: str | None = None
    """A job whose end the next page should show, if it comes soon."""


@dataclass(frozen=True, kw_only=True)
class Shared:
    """A part of a page that is the same for many, so that it is made once for all of them."""

    request: PageRequest
    """Of anybody who sees the same."""
    made_of: Hashable
    """While this is the same, so is the part."""


@dataclass(frozen=True)
class File:
    """Something to be kept, or sent by mail."""

    name: str
    content: str
    """A page of HTML that needs nothing else."""


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
    """Pieces of the page that script asks for by themselves: names and their templates."""
    actions: Mapping[str, Act] = field(default_factory=dict)
    """What its forms do, by the value of their field `do`."""
    files: Mapping[str, MakeFile] = field(default_factory=dict)
    """Other forms of it that are downloaded, by the value of `format`."""
    share: Callable[[PageRequest], Shared | None] | None = None
    """Finds out whether what is asked for is the same for many."""
    find_most_bytes: Callable[[PageRequest], int] | None = None
    """How large its forms may be, where the address does not say it."""
    strangers_may_act: bool = False
    """Whether somebody who is not signed in may send its forms."""
    own_transactions: bool = False
    """Whether no read transaction is open while it is shown, because it rehearses a change or runs
    a challenge's script."""
    mailed: str = ""
    """The template of the page as one file that needs nothing else: `format=html`."""


class Moved(Exception):
    """What is asked for has a better address."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.address = address
