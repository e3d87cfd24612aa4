"""`PageRequest`: one http for a page: who looks, at what, and what a form sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request

from tallymark.errors import InvalidInput, NotAllowed, NotSignedIn
from tallymark.service.app import App
from tallymark.service.callers import SESSION_COOKIE, Caller, Role, make_guest
from tallymark.service.resources import Resources
from tallymark.service.service import Service
from tallymark.service.tenant import TenantServices
from tallymark.service.visibility import sees_live
from tallymark.web.page import Pager, Problem

if TYPE_CHECKING:
    from starlette.requests import Request

    from tallymark.service.service import Service

_MOST_FILES, _MOST_FIELDS, _LONGEST_FIELD = 4, 200, 4_000_000


class Form:
    """What was sent: texts and files by the names of their fields."""

    def __init__(
        self,
        texts: Sequence[tuple[str, str]],
        files: Mapping[str, bytes],
        file_names: Mapping[str, str] | None = None,
    ) -> None:
        self._texts = texts
        self._files = files
        self._file_names = file_names or {}

    def get(self, name: str, default: str = "") -> str:
        """A text, without the space around it."""
        found = self.get_all(name)
        return found[-1] if found else default

    def get_all(self, name: str) -> list[str]:
        """Every text that was sent under a name."""
        return [value.strip() for key, value in self._texts if key == name]

    def get_text(self, name: str) -> str | None:
        """A text as it was typed, with plain line ends; None where there is no such field."""
        found = next((value for key, value in reversed(self._texts) if key == name), None)
        return None if found is None else found.replace("\r\n", "\n").replace("\r", "\n")

    def require(self, name: str, words: str) -> str:
        """The same; `words` say what is missing."""
        found = self.get(name)
        if not found:
            raise InvalidInput(words)
        return found

    def get_file(self, name: str) -> bytes | None:
        """A file that was chosen."""
        return self._files.get(name) or None

    def get_file_name(self, name: str) -> str:
        """What its sender calls it."""
        return self._file_names.get(name, "")


def _is_urlencoded(http: Request) -> bool:
    kind = http.headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind == "application/x-www-form-urlencoded"


async def read_form(http: Request) -> Form:
    """The fields of a form; the body as a whole is bounded by whoever serves it."""
    bounds = {
        "max_files": _MOST_FILES,
        "max_fields": _MOST_FIELDS,
        "max_part_size": _LONGEST_FIELD,
    }
    body = await http.body() if _is_urlencoded(http) else b""
    if body.count(b"&") >= _MOST_FIELDS:  # Starlette bounds only the fields of the other kind
        raise InvalidInput(f"the form has more than {_MOST_FIELDS} fields")
    try:
        async with http.form(**bounds) as sent:
            pairs = sent.multi_items()
            texts = [(name, value) for name, value in pairs if isinstance(value, str)]
            uploads = {name: value for name, value in sent.items() if isinstance(value, UploadFile)}
            files = {name: await value.read() for name, value in uploads.items()}
    except HTTPException as error:
        raise InvalidInput(f"the form cannot be read: {error.detail}") from None
    return Form(texts, files, {name: value.filename or "" for name, value in uploads.items()})


@dataclass(frozen=True, slots=True)
class Visitor:
    """Found once for each http."""

    caller: Caller
    csrf: str = ""
    """What forms of this session must carry; nothing where there is no session to be misused."""
    is_owner: bool = False
    """Of the store itself, on their own machine."""
    is_guest: bool = False
    """Somebody of whom nothing is known, who may look at all of an example."""
    was_known: bool = False
    """Whether their browser brought a session that is over."""

    @property
    def agent(self) -> str | None:
        """The agent that the visitor plays."""
        return self.caller.agent

    @property
    def is_known(self) -> bool:
        """Whether somebody vouches for them, or all that there is may be seen."""
        return self.caller.role != "anonymous"

    @property
    def may_read_runs(self) -> bool:
        """Runs, cases and comparisons: what a team measures of its own."""
        return self.caller.role not in ("agent", "anonymous")

    @property
    def may_see_live(self) -> bool:
        """Past a freeze, and what evaluators said of others' answers."""
        return sees_live(self.caller)

    @property
    def may_organise(self) -> bool:
        """Challenges, agents, keys and the log."""
        return sees_live(self.caller)

    def require_runs(self) -> None:
        """Refuses who may not see runs."""
        if self.may_read_runs:
            return
        self.require_known("runs are shown to those who are signed in")
        raise NotAllowed("this key does not show runs", hint="ask an organiser for one that does")

    def require_known(self, words: str) -> None:
        """Refuses who is not signed in."""
        if not self.is_known:
            over = "your session is over; " if self.was_known else ""
            raise NotSignedIn(f"{over}{words}", hint="sign in with a key or an invitation")

    def require_signed_in(self) -> None:
        """Refuses who only looks."""
        self.require_known("this needs somebody who is signed in")
        if self.is_guest:
            raise NotSignedIn(
                "an example is there to be looked at, and this would change it for others",
                hint="whoever started it was shown keys to sign in with",
            )

    def require_organiser(self) -> None:
        """Refuses who does not run challenges."""
        self.require_known("this page is for organisers")
        if not self.may_organise:
            raise NotAllowed("this page is for organisers", hint="ask one of them for a key")


def find_visitor(service: Service, http: Request) -> Visitor:
    """Who looks: the owner of the store, whose session or proxy is known, or a stranger."""
    address = http.client.host if http.client else None
    if service.own:
        return make_owner(service.app.tenant)
    token = http.cookies.get(SESSION_COOKIE)
    if token is not None:
        with suppress(NotSignedIn):
            known = service.accounts.resume(token, address)
            return Visitor(known.caller, known.csrf)
    if service.proxy is not None and "tally.through_proxy" in http.scope:
        vouched = service.proxy.find_caller(http.headers, address)
        if vouched is not None:
            return Visitor(vouched)
    if service.is_example:
        return Visitor(make_guest(address), is_guest=True)
    return make_stranger(address=address, was_known=token is not None)


def make_owner(tenant: str = "default") -> Visitor:
    """Who opens their own store on their own machine: `tally view`."""
    return Visitor(Caller(tenant=tenant, role="admin", name="owner"), is_owner=True)


def make_stranger(
    tenant: str = "default", address: str | None = None, *, was_known: bool = False
) -> Visitor:
    """Somebody of whom nothing is known, who sees nothing that is not public."""
    nobody = Caller(tenant=tenant, role="anonymous", name="anonymous", address=address)
    return Visitor(nobody, was_known=was_known)


MOST_ROWS = 200
"""Of a page of a list."""


@dataclass(frozen=True)
class PageRequest:
    """One look at a page: who looks, at what, and when."""

    services: TenantServices
    service: Service
    visitor: Visitor
    now: float
    path: str = "/"
    query: Sequence[tuple[str, str]] = ()
    params: Mapping[str, str] = field(default_factory=dict)
    theme: str = ""
    session: str = ""
    """The token of the visitor's session."""
    form: Form = field(default_factory=lambda: Form((), {}))
    """What was sent to the page; shown again where it was refused."""
    problem: Problem | None = None
    """Why what was sent was refused."""

    @property
    def app(self) -> App:
        """The tenant's store, and what reads it."""
        return self.services.app

    @cached_property
    def tally(self) -> Resources:
        """The operations, as the visitor may call them."""
        return Resources(self.services, self.caller)

    @property
    def caller(self) -> Caller:
        """Who looks, as services know them."""
        return self.visitor.caller

    def get(self, name: str, default: str = "") -> str:
        """The last value that the address has for a name."""
        return next((value for key, value in reversed(self.query) if key == name), default)

    def get_all(self, name: str) -> list[str]:
        """Every value that the address has for a name."""
        return [value for key, value in self.query if key == name and value]

    def choose(self, name: str, known: Sequence[str]) -> str:
        """One of the known words, the first where the address has none."""
        found = self.get(name) or known[0]
        if found not in known:
            raise InvalidInput(f"{name}={found!r} is not known", hint=f"use {', '.join(known)}")
        return found

    def read_number(self, name: str, default: int, most: int, least: int = 0) -> int:
        """A whole number of the address; what is no such number is refused, never bent."""
        text = self.get(name)
        if not text:
            return default
        if not (text.isascii() and text.isdigit() and least <= int(text) <= most):
            raise InvalidInput(f"{name}={text[:40]!r} is no number from {least} to {most:,}")
        return int(text)

    def read_pager(self, total: int, limit: int = 50) -> Pager:
        """The part of a list that the address asks for."""
        return Pager(
            offset=self.read_number("offset", 0, 10**9),
            limit=self.read_number("limit", limit, MOST_ROWS, least=1),
            total=total,
        )

    def forget_who(self) -> PageRequest:
        """The same look by anybody who may see as much."""
        who = self.caller
        role: Role = (
            "organiser"
            if self.visitor.may_organise
            else "viewer"
            if self.visitor.is_known
            else "anonymous"
        )
        return replace(self, visitor=Visitor(Caller(who.tenant, role, role)), session="", theme="")

    @property
    def public(self) -> bool:
        """Whether boards stand still where they are frozen: unless an organiser asks otherwise."""
        return not (self.visitor.may_see_live and self.get("live") == "1")

    def link(self, **changes: str | int | None) -> str:
        """The address with some of its values changed; None leaves one out."""
        kept = [(key, value) for key, value in self.query if key not in (*changes, "part")]
        kept += [(key, str(value)) for key, value in changes.items() if value is not None]
        return f"{self.path}?{urlencode(kept)}" if kept else self.path
