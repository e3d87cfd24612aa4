"""`Page`: one address, one value that is gathered for it, one template; the same as JSON or CSV.

What a page shows is gathered in a thread, so that nobody waits for another's reading. Errors are
pages too: they say what is wrong, and what still works. A page with forms has actions: what is sent
to its address is done by the one that the form names, and leads to another page. A form that was
refused is shown again as it was filled in.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import hmac
import io
import logging
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import anyio
import msgspec
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response

from tallymark.app.accounts import SESSION_S
from tallymark.app.app import App
from tallymark.app.callers import SESSION_COOKIE, Caller, Role
from tallymark.app.service import Service, TenantServices
from tallymark.app.sight import find_attempt, find_newest_visible
from tallymark.challenges.attempt import Attempt
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
from tallymark.store.actors import act_as
from tallymark.store.contests.challenges import StoredChallenge
from tallymark.text import format_cell
from tallymark.web.rendering import Renderer
from tallymark.web.visitor import Visitor, find_visitor, make_stranger

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
_SOME_TIME_S = 20
"""For so long a shared part tells how long ago things were as it did at first."""
_MOST_FILES, _MOST_FIELDS, _LONGEST_FIELD = 4, 200, 4_000_000
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

    def find_challenge(self, name: str) -> StoredChallenge:
        """A challenge that the visitor may know of."""
        return self.find_newest_challenge(name)[0]

    def find_newest_challenge(self, name: str) -> tuple[StoredChallenge, int, int]:
        """The same, with the last entries of the log that its board depends on."""
        if not self.app.store.exists:
            raise NotFound(f"there is no challenge {name[:80]!r}", hint="there are none yet")
        return find_newest_visible(self.services, self.caller, name)

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

    def list_challenges(self) -> list[StoredChallenge]:
        """All that the visitor may know of."""
        found = self.app.store.challenges.all() if self.app.store.exists else []
        known = self.visitor.is_known
        return [each for each in found if known or each.challenge.visibility == "public"]

    def find_attempt(self, identifier: str) -> Attempt:
        """An attempt as the visitor may see it."""
        store = self.app.store
        if not store.exists:
            raise NotFound(f"there is no attempt {identifier[:40]!r}")
        found = find_attempt(self.services, self.caller, identifier)
        mine = self.visitor.agent is not None and found.agent == self.visitor.agent
        return store.attempts.get(identifier, public=True) if self.public and not mine else found

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
    strangers_may_act: bool = False
    """Whether somebody who is not signed in may send its forms."""
    mailed: str = ""
    """The template of the page as one file that needs nothing else: `format=html`."""


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

    def __init__(self, service: Service, renderer: Renderer) -> None:
        self._service = service
        self._renderer = renderer

    def make_endpoint(self, page: Page) -> Callable[[Request], Any]:
        """What a route calls."""

        async def answer(request: Request) -> Response:
            if request.method != "POST":
                return await anyio.to_thread.run_sync(self._answer, page, request)
            try:
                # Before anything is read: a stranger has nothing to send here, however long.
                await anyio.to_thread.run_sync(self._expect, page, request)
                form = await _read_form(request)
            except TallymarkError as error:
                return self._show_problem(request, None, describe_problem(error))
            except ClientDisconnect:
                return Response(status_code=400)
            return await anyio.to_thread.run_sync(self._act, page, request, form)

        return answer

    async def refuse(self, request: Request) -> Response:
        """For an address that nothing has."""
        page = Page("", "problem.html", _miss)
        return await anyio.to_thread.run_sync(self._answer, page, request)

    def _answer(self, page: Page, request: Request) -> Response:
        visit: Visit | None = None
        try:
            visit = self._make_visit(request)
            if not self._service.own:
                self._service.limits.check(visit.caller, "read")
            chosen = visit.get("format")
            if chosen in page.files:
                return _send(page.files[chosen](visit))
            shared = page.share(visit) if page.share is not None and not chosen else None
            if shared is not None:
                return self._answer_shared(page, request, shared)
            view = page.gather(visit)
            if isinstance(view, Download):
                return _send_file(view)
            if chosen == "html" and page.mailed:
                return _send(
                    File(view.title, self._renderer.render(page.mailed, view=view, visit=visit))
                )
            if chosen:
                return _write(view, chosen)
            return self._show(visit, view, page.parts.get(visit.get("part"), page.template))
        except Moved as moved:
            return RedirectResponse(moved.address, 303, headers=HEADERS)
        except Exception as error:  # noqa: BLE001 (an error is a page, and a sentence)
            return self._show_problem(request, visit, describe_problem(error))

    def _expect(self, page: Page, request: Request) -> None:
        if not page.strangers_may_act:
            find_visitor(self._service, request).require_signed_in()

    def _answer_shared(self, page: Page, request: Request, shared: Shared) -> Response:
        """What many ask for at the same moment: made and packed by one of them for all.

        Its tag is of what it says and not of what it was made of: that something was scored on a
        frozen board must not show in it.
        """
        visit = shared.visit

        def make() -> bytes:
            template = page.parts.get(visit.get("part"), page.template)
            text = self._renderer.render(template, view=page.gather(visit), visit=visit)
            return gzip.compress(text.encode(), 6, mtime=0)

        key = ("part", visit.caller.tenant, visit.caller.role, visit.path, visit.query)
        made_of = f"{shared.made_of!r} {visit.now // _SOME_TIME_S}"
        content = self._service.pages.find_or_make(key, made_of, make)
        etag = f'"{hashlib.sha256(content).hexdigest()[:20]}"'
        headers = HEADERS | {"ETag": etag}
        if request.headers.get("if-none-match") == etag:
            return Response(status_code=304, headers=headers)
        if "gzip" in request.headers.get("accept-encoding", ""):
            headers |= {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
        else:
            content = gzip.decompress(content)
        return Response(content, 200, headers, media_type="text/html; charset=utf-8")

    def _act(self, page: Page, request: Request, form: Form) -> Response:
        """Does what a form asks for; one that is refused is shown again with what was typed."""
        visit: Visit | None = None
        try:
            visit = self._make_visit(request, form)
            act = self._admit(page, visit, request)
            with act_as(visit.caller.actor):
                outcome = act(visit)
            return self._lead_on(request, visit, outcome)
        except Exception as error:  # noqa: BLE001 (an error is a page, and a sentence)
            problem = describe_problem(error)
            if visit is None or problem.status in (401, 403, 404, 500):
                return self._show_problem(request, visit, problem)
            return self._show_again(page, request, replace(visit, problem=problem))

    def _admit(self, page: Page, visit: Visit, request: Request) -> Act:
        """The action that a form names, if it is this site's form and its sender may."""
        host = urlsplit(request.headers.get("origin", "")).netloc.lower()
        if not host or host != request.headers.get("host", "").lower():
            raise NotAllowed("this form was not sent by a page of this server", hint="open it here")
        if not page.strangers_may_act:
            visit.visitor.require_signed_in()
        if not hmac.compare_digest(visit.form.get("csrf").encode(), visit.visitor.csrf.encode()):
            raise NotAllowed("this form is of another session", hint="load the page anew")
        if not self._service.own:
            self._service.limits.check(visit.caller, "write")
        act = page.actions.get(visit.form.get("do"))
        if act is None:
            raise NotFound(f"this page does nothing called {visit.form.get('do')[:40]!r}")
        return act

    def _lead_on(self, request: Request, visit: Visit, outcome: Outcome) -> Response:
        answer: Response
        if outcome.view is not None:
            answer = self._show(visit, outcome.view, outcome.template, outcome.status)
        else:
            answer = RedirectResponse(outcome.address, 303, headers=HEADERS)
        if outcome.session:
            forwarded = request.headers.get("x-forwarded-proto", request.url.scheme)
            answer.set_cookie(
                SESSION_COOKIE,
                outcome.session,
                max_age=int(SESSION_S),
                httponly=True,
                samesite="lax",
                secure=forwarded == "https",
            )
        elif outcome.session is not None:
            answer.delete_cookie(SESSION_COOKIE)
        return answer

    def _show_again(self, page: Page, request: Request, visit: Visit) -> Response:
        assert visit.problem is not None  # noqa: S101 (for the type checker)
        try:
            view = page.gather(visit)
        except Exception:  # noqa: BLE001 (what was refused is what is said)
            return self._show_problem(request, visit, visit.problem)
        return self._show(visit, view, page.template, visit.problem.status)

    def _make_visit(self, request: Request, form: Form | None = None) -> Visit:
        visitor = find_visitor(self._service, request)
        request.scope["tally.caller"] = visitor.caller  # for the log
        theme = request.cookies.get("theme", "")
        return Visit(
            services=self._service.tenant(visitor.caller.tenant),
            service=self._service,
            visitor=visitor,
            now=self._service.clock(),
            path=request.url.path,
            query=tuple(request.query_params.multi_items()),
            params=request.path_params,
            theme=theme if theme in ("light", "dark") else "",
            session=request.cookies.get(SESSION_COOKIE, ""),
            form=form or Form((), {}),
        )

    def _show(self, visit: Visit, view: View, template: str, status: int = 200) -> Response:
        text = self._renderer.render(template, view=view, visit=visit)
        return Response(text, status, HEADERS, media_type="text/html; charset=utf-8")

    def _show_problem(self, request: Request, visit: Visit | None, problem: Problem) -> Response:
        if request.query_params.get("format") in FORMATS:
            content = msgspec.json.encode(problem)
            return Response(content, problem.status, HEADERS, media_type="application/json")
        if visit is None:
            service = self._service
            stranger, services = make_stranger(), service.tenant(service.app.tenant)
            visit = Visit(services, service, stranger, service.clock(), request.url.path)
        template = "problem_part.html" if visit.get("part") else "problem.html"
        return self._show(visit, problem, template, problem.status)


async def _read_form(request: Request) -> Form:
    """The fields of a form; the body as a whole is bounded by whoever serves it."""
    bounds = {
        "max_files": _MOST_FILES,
        "max_fields": _MOST_FIELDS,
        "max_part_size": _LONGEST_FIELD,
    }
    try:
        async with request.form(**bounds) as sent:
            pairs = sent.multi_items()
            texts = [(name, value) for name, value in pairs if isinstance(value, str)]
            uploads = {name: value for name, value in sent.items() if isinstance(value, UploadFile)}
            files = {name: await value.read() for name, value in uploads.items()}
    except HTTPException as error:
        raise InvalidInput(f"the form cannot be read: {error.detail}") from None
    return Form(texts, files, {name: value.filename or "" for name, value in uploads.items()})


def _miss(visit: Visit) -> View:
    raise NotFound(f"there is no page {visit.path[:200]!r}", hint="begin at the first page")


def _send_file(file: Download) -> Response:
    """To be kept, never shown: what is in it may be anybody's."""
    named = {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(file.title, safe='')}"}
    return Response(file.content, headers=HEADERS | named, media_type=file.media_type)


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


def _send(file: File) -> Response:
    """A file that is kept and not shown here: it carries a policy of its own."""
    name = "".join(each if each.isalnum() and each.isascii() else "-" for each in file.name[:80])
    named = {"Content-Disposition": f'attachment; filename="{name.strip("-") or "page"}.html"'}
    return Response(file.content, headers=HEADERS | named, media_type="text/html; charset=utf-8")


def _write_cell(value: Any) -> Any:
    if isinstance(value, str):
        return format_cell(value)
    return "" if value is None else value
