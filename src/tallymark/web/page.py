"""`Page`: one address, one value that is gathered for it, one template; the same as JSON or CSV.

What a page shows is gathered in a thread, so that nobody waits for another's reading. Errors are
pages too: they say what is wrong, and what still works.
"""

from __future__ import annotations

import csv
import io
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import anyio
import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from tallymark.app.app import App
from tallymark.errors import (
    Conflict,
    InvalidInput,
    NotAllowed,
    NotFound,
    NotSignedIn,
    TallymarkError,
    TooMany,
    WorkFailed,
)
from tallymark.scoring.score import make_json_safe
from tallymark.text import format_cell
from tallymark.web.rendering import Renderer
from tallymark.web.visitor import Visitor, make_stranger

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    # What is shown may be another's next time, and must not come from a cache after signing out.
    "Cache-Control": "private, no-store",
}
FORMATS = ("json", "csv")
MOST_ROWS = 200
"""Of a page of a list."""
_LOG = logging.getLogger("tallymark.web")


class View(msgspec.Struct, frozen=True, kw_only=True):
    """What one page shows. Its template only lays it out, and as JSON it is the same value."""

    title: str

    def list_rows(self) -> Iterable[Mapping[str, Any]]:
        """The rows of its main table, for CSV."""
        return ()


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


@dataclass(frozen=True)
class Visit:
    """One look at a page: who looks, at what, and when."""

    app: App
    visitor: Visitor
    now: float
    path: str = "/"
    query: Sequence[tuple[str, str]] = ()
    params: Mapping[str, str] = field(default_factory=dict)
    theme: str = ""

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

    @property
    def public(self) -> bool:
        """Whether boards stand still where they are frozen: unless an organiser asks otherwise."""
        return not (self.visitor.may_see_live and self.get("live") == "1")

    def link(self, **changes: str | int | None) -> str:
        """The address with some of its values changed; None leaves one out."""
        kept = [(key, value) for key, value in self.query if key not in (*changes, "part")]
        kept += [(key, str(value)) for key, value in changes.items() if value is not None]
        return f"{self.path}?{urlencode(kept)}" if kept else self.path


Gather = Callable[[Visit], View]


@dataclass(frozen=True)
class Page:
    """One address and what it shows."""

    path: str
    template: str
    gather: Gather
    parts: Mapping[str, str] = field(default_factory=dict)
    """Pieces of the page that script asks for by themselves: names and their templates."""


class Moved(Exception):
    """What is asked for has a better address."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.address = address


class Problem(View, frozen=True, kw_only=True):
    """A page in the place of one that cannot be shown."""

    status: int
    problems: list[str]
    hints: list[str]


_STATUSES: tuple[tuple[type[TallymarkError], int, str], ...] = (
    (NotFound, 404, "Not here"),
    (Conflict, 409, "Not now"),
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


class PageServer:
    """Answers for pages: finds out who looks, gathers in a thread, and lays out."""

    def __init__(
        self,
        app: App,
        find_visitor: Callable[[Request], Visitor],
        renderer: Renderer,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._app = app
        self._find_visitor = find_visitor
        self._renderer = renderer
        self._clock = clock

    def make_endpoint(self, page: Page) -> Callable[[Request], Any]:
        """What a route calls."""

        async def answer(request: Request) -> Response:
            return await anyio.to_thread.run_sync(self._answer, page, request)

        return answer

    async def refuse(self, request: Request) -> Response:
        """For an address that nothing has."""
        page = Page("", "problem.html", _miss)
        return await anyio.to_thread.run_sync(self._answer, page, request)

    def _answer(self, page: Page, request: Request) -> Response:
        visit: Visit | None = None
        try:
            visit = self._make_visit(request)
            view = page.gather(visit)
            chosen = visit.get("format")
            if chosen:
                return _write(view, chosen)
            return self._show(visit, view, page.parts.get(visit.get("part"), page.template))
        except Moved as moved:
            return RedirectResponse(moved.address, 303, headers=HEADERS)
        except Exception as error:  # noqa: BLE001 (an error is a page, and a sentence)
            return self._show_problem(request, visit, describe_problem(error))

    def _make_visit(self, request: Request) -> Visit:
        visitor = self._find_visitor(request)
        app, tenant = self._app, visitor.caller.tenant
        theme = request.cookies.get("theme", "")
        return Visit(
            app=app if tenant == app.tenant else app.for_tenant(tenant),
            visitor=visitor,
            now=self._clock(),
            path=request.url.path,
            query=tuple(request.query_params.multi_items()),
            params=request.path_params,
            theme=theme if theme in ("light", "dark") else "",
        )

    def _show(self, visit: Visit, view: View, template: str, status: int = 200) -> Response:
        text = self._renderer.render(template, view=view, visit=visit)
        return Response(text, status, HEADERS, media_type="text/html; charset=utf-8")

    def _show_problem(self, request: Request, visit: Visit | None, problem: Problem) -> Response:
        if request.query_params.get("format") in FORMATS:
            content = msgspec.json.encode(problem)
            return Response(content, problem.status, HEADERS, media_type="application/json")
        if visit is None:
            visit = Visit(self._app, make_stranger(), self._clock(), request.url.path)
        template = "problem_part.html" if visit.get("part") else "problem.html"
        return self._show(visit, problem, template, problem.status)


def _miss(visit: Visit) -> View:
    raise NotFound(f"there is no page {visit.path[:200]!r}", hint="begin at the first page")


def _write(view: View, chosen: str) -> Response:
    """The view as other programs read it."""
    if chosen == "json":
        content = msgspec.json.encode(make_json_safe(view))
        return Response(content, headers=HEADERS, media_type="application/json")
    if chosen == "csv":
        rows = [dict(row) for row in view.list_rows()]
        names = list(dict.fromkeys(name for row in rows for name in row))
        target = io.StringIO()
        writer = csv.writer(target, lineterminator="\r\n")
        writer.writerow(names)
        writer.writerows([[_write_cell(row.get(name)) for name in names] for row in rows])
        return Response(target.getvalue(), headers=HEADERS, media_type="text/csv; charset=utf-8")
    content = msgspec.json.encode({"problems": [f"format={chosen[:40]!r} is not json or csv"]})
    return Response(content, 422, HEADERS, media_type="application/json")


def _write_cell(value: Any) -> Any:
    if isinstance(value, str):
        return format_cell(value)
    return "" if value is None else value
