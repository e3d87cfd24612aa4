"""`Visit`: one look at a page, by whom and at what; and what the looker may find."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from urllib.parse import urlencode

from tallymark.errors import InvalidInput
from tallymark.service.app import App
from tallymark.service.callers import Caller, Role
from tallymark.service.resources import Resources
from tallymark.service.service import Service
from tallymark.service.tenant import TenantServices
from tallymark.web.form import Form
from tallymark.web.view import Pager, Problem
from tallymark.web.visitor import Visitor

MOST_ROWS = 200
"""Of a page of a list."""


@dataclass(frozen=True)
class Visit:
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

    def forget_who(self) -> Visit:
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
