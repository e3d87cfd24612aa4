"""`PageRequest`: one request for a page: visitor, address and form."""

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
    """Texts and files of a sent form, by field name."""

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
        """Return the last text of a field, stripped."""
        found = self.get_all(name)
        return found[-1] if found else default

    def get_all(self, name: str) -> list[str]:
        """Return all texts of a field."""
        return [value.strip() for key, value in self._texts if key == name]

    def get_text(self, name: str) -> str | None:
        """Return a text as typed, with plain line ends; None if the field is missing."""
        found = next((value for key, value in reversed(self._texts) if key == name), None)
        return None if found is None else found.replace("\r\n", "\n").replace("\r", "\n")

    def require(self, name: str, words: str) -> str:
        """Return a text, or raise InvalidInput with `words` if it is empty."""
        found = self.get(name)
        if not found:
            raise InvalidInput(words)
        return found

    def get_file(self, name: str) -> bytes | None:
        """Return an uploaded file."""
        return self._files.get(name) or None

    def get_file_name(self, name: str) -> str:
        """Return the name of an uploaded file."""
        return self._file_names.get(name, "")


async def read_form(http: Request) -> Form:
    """Read a form within its limits; the server limits the body."""
    bounds = {
        "max_files": _MOST_FILES,
        "max_fields": _MOST_FIELDS,
        "max_part_size": _LONGEST_FIELD,
    }
    kind = http.headers.get("content-type", "").partition(";")[0].strip().lower()
    body = await http.body() if kind == "application/x-www-form-urlencoded" else b""
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
    """The person or key behind a request."""

    caller: Caller
    csrf: str = ""
    """Token that forms of this session must carry; empty without a session."""
    is_owner: bool = False
    """True for the owner of the store, on their own machine."""
    is_guest: bool = False
    """True for an unknown visitor of an example server, who may look at everything."""
    had_session: bool = False
    """True if the browser sent an expired session."""

    @property
    def agent(self) -> str | None:
        """The visitor's agent."""
        return self.caller.agent

    @property
    def is_known(self) -> bool:
        """True if signed in, or allowed to see everything."""
        return self.caller.role != "anonymous"

    @property
    def may_read_runs(self) -> bool:
        """True if runs, cases and comparisons may be read."""
        return self.caller.role not in ("agent", "anonymous")

    @property
    def may_see_live(self) -> bool:
        """True if boards may be seen past a freeze, and comments on other agents' answers."""
        return sees_live(self.caller)

    @property
    def may_organise(self) -> bool:
        """True if challenges, agents, keys and the audit log may be managed."""
        return sees_live(self.caller)

    def require_runs(self) -> None:
        """Require a visitor who may read runs."""
        if self.may_read_runs:
            return
        self.require_known("runs are visible to signed-in users")
        raise NotAllowed("this key does not show runs", hint="ask an organiser for one that does")

    def require_known(self, words: str) -> None:
        """Require a visitor who is signed in, guests included."""
        if not self.is_known:
            over = "your session is over; " if self.had_session else ""
            raise NotSignedIn(f"{over}{words}", hint="sign in with a key or an invitation")

    def require_signed_in(self) -> None:
        """Require a visitor who is signed in."""
        self.require_known("this needs a signed-in visitor")
        if self.is_guest:
            raise NotSignedIn(
                "guests may only look at an example; this would change it for others",
                hint="sign in with a key that the server showed when it started",
            )

    def require_organiser(self) -> None:
        """Require an organiser."""
        self.require_known("this page is for organisers")
        if not self.may_organise:
            raise NotAllowed("this page is for organisers", hint="ask one of them for a key")


def find_visitor(service: Service, http: Request) -> Visitor:
    """Find the visitor: the owner, a session, a proxy's user, a guest, or anonymous."""
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
    return make_anonymous(address=address, had_session=token is not None)


def make_owner(tenant: str = "default") -> Visitor:
    """Return the visitor of `tally view`: the owner of the store."""
    return Visitor(Caller(tenant=tenant, role="admin", name="owner"), is_owner=True)


def make_anonymous(
    tenant: str = "default", address: str | None = None, *, had_session: bool = False
) -> Visitor:
    """Return an anonymous visitor, who sees only what is public."""
    nobody = Caller(tenant=tenant, role="anonymous", name="anonymous", address=address)
    return Visitor(nobody, had_session=had_session)


MOST_ROWS = 200
"""Most rows on one page of a list."""


@dataclass(frozen=True)
class PageRequest:
    """One request for a page: visitor, address, time and form."""

    services: TenantServices
    service: Service
    visitor: Visitor
    now: float
    path: str = "/"
    query: Sequence[tuple[str, str]] = ()
    params: Mapping[str, str] = field(default_factory=dict)
    theme: str = ""
    session: str = ""
    """Token of the visitor's session."""
    form: Form = field(default_factory=lambda: Form((), {}))
    """The sent form; shown again if it is refused."""
    problem: Problem | None = None
    """Reason why the form was refused."""

    @property
    def app(self) -> App:
        """The tenant's store and its reads."""
        return self.services.app

    @cached_property
    def tally(self) -> Resources:
        """Operations that the visitor may call."""
        return Resources(self.services, self.caller)

    @property
    def caller(self) -> Caller:
        """The visitor as operations know them."""
        return self.visitor.caller

    def get(self, name: str, default: str = "") -> str:
        """Return the last value of a query parameter."""
        return next((value for key, value in reversed(self.query) if key == name), default)

    def get_all(self, name: str) -> list[str]:
        """Return all values of a query parameter."""
        return [value for key, value in self.query if key == name and value]

    def choose(self, name: str, known: Sequence[str]) -> str:
        """Return one of the known values of a query parameter; the first by default."""
        found = self.get(name) or known[0]
        if found not in known:
            raise InvalidInput(f"{name}={found!r} is not known", hint=f"use {', '.join(known)}")
        return found

    def read_number(self, name: str, default: int, most: int, least: int = 0) -> int:
        """Read an integer of the query; anything else is refused."""
        text = self.get(name)
        if not text:
            return default
        if not (text.isascii() and text.isdigit() and least <= int(text) <= most):
            raise InvalidInput(f"{name}={text[:40]!r} is no number from {least} to {most:,}")
        return int(text)

    def read_pager(self, total: int, limit: int = 50) -> Pager:
        """Read the part of a list that the query asks for."""
        return Pager(
            offset=self.read_number("offset", 0, 10**9),
            limit=self.read_number("limit", limit, MOST_ROWS, least=1),
            total=total,
        )

    def without_visitor(self) -> PageRequest:
        """Return the same request by an unnamed visitor with the same permissions."""
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
        """True if frozen boards are shown frozen; organisers may ask for live ones."""
        return not (self.visitor.may_see_live and self.get("live") == "1")

    def link(self, **changes: str | int | None) -> str:
        """Return the address with some query values changed; None removes one."""
        kept = [(key, value) for key, value in self.query if key not in (*changes, "part")]
        kept += [(key, str(value)) for key, value in changes.items() if value is not None]
        return f"{self.path}?{urlencode(kept)}" if kept else self.path
