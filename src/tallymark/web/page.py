"""`Page`: one address, one value that is gathered for it, one template; the same as JSON or CSV.

A page with forms has actions: what is sent to its address is done by the one that the form names,
and leads to another page. `page_server.py` answers for pages.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field

import msgspec

from tallymark.web.view import View
from tallymark.web.visit import Visit

Gather = Callable[[Visit], View]


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


Act = Callable[[Visit], Outcome]


class Shared(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a page that is the same for many, so that it is made once for all of them."""

    visit: Visit
    """Of anybody who sees the same."""
    made_of: Hashable
    """While this is the same, so is the part."""


@dataclass(frozen=True)
class File:
    """Something to be kept, or sent by mail."""

    name: str
    content: str
    """A page of HTML that needs nothing else."""


MakeFile = Callable[[Visit], File]


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
    share: Callable[[Visit], Shared | None] | None = None
    """Finds out whether what is asked for is the same for many."""
    find_most_bytes: Callable[[Visit], int] | None = None
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
