"""`PageServer`: find the visitor, gather the view in a thread, render it.

Errors are pages too: they say what is wrong, and what still works. A form that was refused is shown
again as it was filled in.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import hmac
import io
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

import msgspec
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import RedirectResponse, Response

from tallymark.errors import Busy, NotAllowed, NotFound
from tallymark.scoring.score import make_json_safe
from tallymark.service.accounts import SESSION_S
from tallymark.service.callers import SESSION_COOKIE, acting
from tallymark.service.limits import group_address, narrow_body
from tallymark.service.service import Service
from tallymark.text import format_cell
from tallymark.web.page import (
    Act,
    Download,
    File,
    Moved,
    Outcome,
    Page,
    Problem,
    Shared,
    View,
    describe_problem,
)
from tallymark.web.page_request import (
    Form,
    PageRequest,
    Visitor,
    find_visitor,
    make_anonymous,
    read_form,
)
from tallymark.web.rendering import Renderer

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    # A cache must not show a page after signing out, or to another visitor.
    "Cache-Control": "private, no-store",
}
FORMATS = ("json", "csv")


def send_download(file: Download) -> Response:
    """Send a file as a download; its content is not trusted, so it is never shown."""
    named = {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(file.title, safe='')}"}
    return Response(file.content, headers=HEADERS | named, media_type=file.media_type)


def write_view(view: View, chosen: str) -> Response:
    """Send the view as JSON or CSV."""
    if chosen == "json":
        plain = msgspec.to_builtins(view, str_keys=True, enc_hook=make_json_safe)
        content = msgspec.json.encode(make_json_safe(plain))
        return Response(content, headers=HEADERS, media_type="application/json")
    if chosen == "csv":
        rows = [dict(row) for row in view.list_rows()]
        names = list(dict.fromkeys(name for row in rows for name in row))
        target = io.StringIO()
        writer = csv.writer(target, lineterminator="\r\n")
        writer.writerow(map(_write_cell, names))
        writer.writerows([[_write_cell(row.get(name)) for name in names] for row in rows])
        return Response(target.getvalue(), headers=HEADERS, media_type="text/csv; charset=utf-8")
    content = msgspec.json.encode({"problems": [f"format={chosen[:40]!r} is not json or csv"]})
    return Response(content, 422, HEADERS, media_type="application/json")


def send_page(file: File) -> Response:
    """Send a self-contained page as a download; it carries its own policy."""
    name = "".join(each if each.isalnum() and each.isascii() else "-" for each in file.name[:80])
    named = {"Content-Disposition": f'attachment; filename="{name.strip("-") or "page"}.html"'}
    return Response(file.content, headers=HEADERS | named, media_type="text/html; charset=utf-8")


def _write_cell(value: Any) -> Any:
    if isinstance(value, str):
        return format_cell(value)
    return "" if value is None else value


T = TypeVar("T")
WAITED_S = 3.0
"""Seconds that the next page waits for a score before it shows that one is pending."""
_SOME_TIME_S = 20
"""Seconds for which relative times in a shared part may be stale."""


class PageServer:
    """Serves pages: finds the visitor, gathers the view in a thread, and renders it."""

    def __init__(self, service: Service, renderer: Renderer) -> None:
        self._service = service
        self._renderer = renderer

    def make_endpoint(self, page: Page) -> Callable[[HttpRequest], Any]:
        """Return the endpoint of a page."""

        async def answer(http: HttpRequest) -> Response:
            try:
                visitor = await self._find_visitor(http)
                if http.method != "POST":
                    return await self._run(visitor, self._answer, page, http, visitor)
                # Before anything is read: a stranger has nothing to send here, however long.
                if not page.anonymous_may_act:
                    visitor.require_signed_in()
                    if page.find_most_bytes is not None:
                        request = self._make_request(http, visitor)
                        most = await self._run(visitor, page.find_most_bytes, request)
                        narrow_body(http.scope, most)
                form = await read_form(http)
                done, job = await self._run(visitor, self._act, page, http, visitor, form)
            except Exception as error:  # noqa: BLE001 (an error is a page, and a sentence)
                if isinstance(error, ClientDisconnect):
                    return Response(status_code=400)
                shown = self._show_problem(http, None, describe_problem(error))
                if isinstance(error, Busy):
                    shown.headers["Retry-After"] = str(max(1, round(error.retry_after)))
                return shown
            if job is not None:
                await self._service.tenant(visitor.caller.tenant).jobs.await_end(job, WAITED_S)
            return done

        return answer

    async def refuse(self, http: HttpRequest) -> Response:
        """Answer an unknown address."""
        answer: Response = await self.make_endpoint(Page("", "problem.html", _miss))(http)
        return answer

    async def _find_visitor(self, http: HttpRequest) -> Visitor:
        # Only a session is looked up in the database.
        if SESSION_COOKIE not in http.cookies or self._service.own:
            return find_visitor(self._service, http)
        share = group_address(http.client.host if http.client else None)
        return await self._service.threads.run(share, find_visitor, self._service, http)

    async def _run(self, visitor: Visitor, work: Callable[..., T], *given: object) -> T:
        return await self._service.run_in_thread(visitor.caller, work, *given)

    def _answer(self, page: Page, http: HttpRequest, visitor: Visitor) -> Response:
        request: PageRequest | None = None
        try:
            request = self._make_request(http, visitor)
            if not self._service.own:
                self._service.limits.check(request.caller, "read")
            with nullcontext() if page.own_transactions else request.services.read():
                return self._answer_visit(page, http, request)
        except Moved as moved:
            return RedirectResponse(moved.address, 303, headers=HEADERS)
        except Exception as error:  # noqa: BLE001 (an error is a page, and a sentence)
            return self._show_problem(http, request, describe_problem(error))

    def _answer_visit(self, page: Page, http: HttpRequest, request: PageRequest) -> Response:
        chosen = request.get("format")
        if chosen in page.files:
            return send_page(page.files[chosen](request))
        shared = page.share(request) if page.share is not None and not chosen else None
        if shared is not None:
            return self._answer_shared(page, http, shared)
        view = page.gather(request)
        if isinstance(view, Download):
            return send_download(view)
        if chosen == "html" and page.mailed:
            return send_page(
                File(view.title, self._renderer.render(page.mailed, view=view, request=request))
            )
        if chosen:
            return write_view(view, chosen)
        return self._show(request, view, page.parts.get(request.get("part"), page.template))

    def _answer_shared(self, page: Page, http: HttpRequest, shared: Shared) -> Response:
        """Answer with a part that is rendered and compressed once for all visitors.

        The ETag is a hash of the content, not of the cache key: a score on a frozen board must not
        show in it.
        """
        request = shared.request

        def make() -> bytes:
            template = page.parts.get(request.get("part"), page.template)
            text = self._renderer.render(template, view=page.gather(request), request=request)
            return gzip.compress(text.encode(), 6, mtime=0)

        key = ("part", request.caller.role, request.path, request.query)
        made_of = f"{shared.made_of!r} {request.now // _SOME_TIME_S}"
        content = self._service.find_table(request.caller, key, made_of, make, cost=0)
        etag = f'"{hashlib.sha256(content).hexdigest()[:20]}"'
        headers = HEADERS | {"ETag": etag}
        if http.headers.get("if-none-match") == etag:
            return Response(status_code=304, headers=headers)
        if "gzip" in http.headers.get("accept-encoding", ""):
            headers |= {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
        else:
            content = gzip.decompress(content)
        return Response(content, 200, headers, media_type="text/html; charset=utf-8")

    def _act(
        self, page: Page, http: HttpRequest, visitor: Visitor, form: Form
    ) -> tuple[Response, str | None]:
        """Does what a form asks for; one that is refused is shown again with what was typed.

        With the answer comes the job, if any, that should end before the next page is shown.
        """
        request: PageRequest | None = None
        try:
            request = self._make_request(http, visitor, form)
            act = self._admit(page, request, http)
            with acting(request.caller):
                outcome = act(request)
            return self._follow_outcome(http, request, outcome), outcome.job
        except Exception as error:  # noqa: BLE001 (an error is a page, and a sentence)
            problem = describe_problem(error)
            if request is None or problem.status in (401, 403, 404, 500):
                return self._show_problem(http, request, problem), None
            return self._show_again(page, http, replace(request, problem=problem)), None

    def _admit(self, page: Page, request: PageRequest, http: HttpRequest) -> Act:
        """Return the action that a form names, after the origin, CSRF and rate checks."""
        host = urlsplit(http.headers.get("origin", "")).netloc.lower()
        if not host or host != http.headers.get("host", "").lower():
            raise NotAllowed(
                "this form was not sent from a page of this server",
                hint="open the page on this server and send it again",
            )
        if not page.anonymous_may_act:
            request.visitor.require_signed_in()
        if not hmac.compare_digest(
            request.form.get("csrf").encode(), request.visitor.csrf.encode()
        ):
            raise NotAllowed("this form belongs to another session", hint="reload the page")
        if not self._service.own:
            # Wrong keys and registrations count on their own.
            self._service.limits.check(
                request.caller, "read" if page.anonymous_may_act else "write"
            )
        act = page.actions.get(request.form.get("do"))
        if act is None:
            raise NotFound(f"this page has no action {request.form.get('do')[:40]!r}")
        return act

    def _follow_outcome(
        self, http: HttpRequest, request: PageRequest, outcome: Outcome
    ) -> Response:
        answer: Response
        if outcome.view is not None:
            answer = self._show(request, outcome.view, outcome.template, outcome.status)
        else:
            answer = RedirectResponse(outcome.address, 303, headers=HEADERS)
        if outcome.session:
            forwarded = http.headers.get("x-forwarded-proto", http.url.scheme)
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

    def _show_again(self, page: Page, http: HttpRequest, request: PageRequest) -> Response:
        assert request.problem is not None  # noqa: S101 (for the type checker)
        try:
            view = page.gather(request)
        except Exception:  # noqa: BLE001 (what was refused is what is said)
            return self._show_problem(http, request, request.problem)
        return self._show(request, view, page.template, request.problem.status)

    def _make_request(
        self, http: HttpRequest, visitor: Visitor, form: Form | None = None
    ) -> PageRequest:
        http.scope["tally.caller"] = visitor.caller  # for the log
        theme = http.cookies.get("theme", "")
        return PageRequest(
            services=self._service.tenant(visitor.caller.tenant),
            service=self._service,
            visitor=visitor,
            now=self._service.clock(),
            path=http.url.path,
            query=tuple(http.query_params.multi_items()),
            params=http.path_params,
            theme=theme if theme in ("light", "dark") else "",
            session=http.cookies.get(SESSION_COOKIE, ""),
            form=form or Form((), {}),
        )

    def _show(self, request: PageRequest, view: View, template: str, status: int = 200) -> Response:
        text = self._renderer.render(template, view=view, request=request)
        return Response(text, status, HEADERS, media_type="text/html; charset=utf-8")

    def _show_problem(
        self, http: HttpRequest, request: PageRequest | None, problem: Problem
    ) -> Response:
        if not self._service.own:  # where the database is, is the operator's business
            said = [self._service.hide_database(each) for each in problem.problems]
            problem = msgspec.structs.replace(problem, problems=said)
        if http.query_params.get("format") in FORMATS:
            content = msgspec.json.encode(problem)
            return Response(content, problem.status, HEADERS, media_type="application/json")
        if request is None:
            service = self._service
            stranger, services = make_anonymous(), service.tenant(service.app.tenant)
            request = PageRequest(services, service, stranger, service.clock(), http.url.path)
        template = "problem_part.html" if request.get("part") else "problem.html"
        return self._show(request, problem, template, problem.status)


def _miss(request: PageRequest) -> View:
    raise NotFound(f"there is no page {request.path[:200]!r}", hint="start at the home page")
