"""`PageServer`: answers for pages. It finds out who looks, gathers in a thread, and lays out.

What a page shows is gathered in a thread, so that nobody waits for another's reading. Errors are
pages too: they say what is wrong, and what still works. A form that was refused is shown again as
it was filled in.
"""

from __future__ import annotations

import gzip
import hashlib
import hmac
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response

from tallymark.errors import Busy, NotAllowed, NotFound
from tallymark.service.accounts import SESSION_S
from tallymark.service.callers import SESSION_COOKIE, acting
from tallymark.service.limits import group_address, narrow_body
from tallymark.service.service import Service
from tallymark.web.form import Form, read_form
from tallymark.web.page import Act, File, Moved, Outcome, Page, Shared
from tallymark.web.page_answers import FORMATS, HEADERS, send_download, send_page, write_view
from tallymark.web.rendering import Renderer
from tallymark.web.view import Download, Problem, View, describe_problem
from tallymark.web.visit import Visit
from tallymark.web.visitor import Visitor, find_visitor, make_stranger

T = TypeVar("T")
WAITED_S = 3.0
"""For so long the next page waits for a score; after that it shows that it comes."""
_SOME_TIME_S = 20
"""For so long a shared part tells how long ago things were as it did at first."""


class PageServer:
    """Answers for pages: finds out who looks, gathers in a thread, and lays out."""

    def __init__(self, service: Service, renderer: Renderer) -> None:
        self._service = service
        self._renderer = renderer

    def make_endpoint(self, page: Page) -> Callable[[Request], Any]:
        """What a route calls."""

        async def answer(request: Request) -> Response:
            try:
                visitor = await self._find_visitor(request)
                if request.method != "POST":
                    return await self._run(visitor, self._answer, page, request, visitor)
                # Before anything is read: a stranger has nothing to send here, however long.
                if not page.strangers_may_act:
                    visitor.require_signed_in()
                    if page.find_most_bytes is not None:
                        visit = self._make_visit(request, visitor)
                        most = await self._run(visitor, page.find_most_bytes, visit)
                        narrow_body(request.scope, most)
                form = await read_form(request)
                done, job = await self._run(visitor, self._act, page, request, visitor, form)
            except Exception as error:  # noqa: BLE001 (an error is a page, and a sentence)
                if isinstance(error, ClientDisconnect):
                    return Response(status_code=400)
                shown = self._show_problem(request, None, describe_problem(error))
                if isinstance(error, Busy):
                    shown.headers["Retry-After"] = str(max(1, round(error.retry_after)))
                return shown
            if job is not None:
                await self._service.tenant(visitor.caller.tenant).jobs.await_end(job, WAITED_S)
            return done

        return answer

    async def refuse(self, request: Request) -> Response:
        """For an address that nothing has."""
        answer: Response = await self.make_endpoint(Page("", "problem.html", _miss))(request)
        return answer

    async def _find_visitor(self, request: Request) -> Visitor:
        # Only a session is looked up in the database.
        if SESSION_COOKIE not in request.cookies or self._service.own:
            return find_visitor(self._service, request)
        share = group_address(request.client.host if request.client else None)
        return await self._service.threads.run(share, find_visitor, self._service, request)

    async def _run(self, visitor: Visitor, work: Callable[..., T], *given: object) -> T:
        return await self._service.run_in_thread(visitor.caller, work, *given)

    def _answer(self, page: Page, request: Request, visitor: Visitor) -> Response:
        visit: Visit | None = None
        try:
            visit = self._make_visit(request, visitor)
            if not self._service.own:
                self._service.limits.check(visit.caller, "read")
            with nullcontext() if page.own_transactions else visit.services.read():
                return self._answer_visit(page, request, visit)
        except Moved as moved:
            return RedirectResponse(moved.address, 303, headers=HEADERS)
        except Exception as error:  # noqa: BLE001 (an error is a page, and a sentence)
            return self._show_problem(request, visit, describe_problem(error))

    def _answer_visit(self, page: Page, request: Request, visit: Visit) -> Response:
        chosen = visit.get("format")
        if chosen in page.files:
            return send_page(page.files[chosen](visit))
        shared = page.share(visit) if page.share is not None and not chosen else None
        if shared is not None:
            return self._answer_shared(page, request, shared)
        view = page.gather(visit)
        if isinstance(view, Download):
            return send_download(view)
        if chosen == "html" and page.mailed:
            return send_page(
                File(view.title, self._renderer.render(page.mailed, view=view, visit=visit))
            )
        if chosen:
            return write_view(view, chosen)
        return self._show(visit, view, page.parts.get(visit.get("part"), page.template))

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

        key = ("part", visit.caller.role, visit.path, visit.query)
        made_of = f"{shared.made_of!r} {visit.now // _SOME_TIME_S}"
        content = self._service.find_table(visit.caller, key, made_of, make, cost=0)
        etag = f'"{hashlib.sha256(content).hexdigest()[:20]}"'
        headers = HEADERS | {"ETag": etag}
        if request.headers.get("if-none-match") == etag:
            return Response(status_code=304, headers=headers)
        if "gzip" in request.headers.get("accept-encoding", ""):
            headers |= {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
        else:
            content = gzip.decompress(content)
        return Response(content, 200, headers, media_type="text/html; charset=utf-8")

    def _act(
        self, page: Page, request: Request, visitor: Visitor, form: Form
    ) -> tuple[Response, str | None]:
        """Does what a form asks for; one that is refused is shown again with what was typed.

        With the answer comes the job, if any, that should end before the next page is shown.
        """
        visit: Visit | None = None
        try:
            visit = self._make_visit(request, visitor, form)
            act = self._admit(page, visit, request)
            with acting(visit.caller):
                outcome = act(visit)
            return self._lead_on(request, visit, outcome), outcome.job
        except Exception as error:  # noqa: BLE001 (an error is a page, and a sentence)
            problem = describe_problem(error)
            if visit is None or problem.status in (401, 403, 404, 500):
                return self._show_problem(request, visit, problem), None
            return self._show_again(page, request, replace(visit, problem=problem)), None

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
            # Wrong keys and registrations count on their own.
            self._service.limits.check(visit.caller, "read" if page.strangers_may_act else "write")
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

    def _make_visit(self, request: Request, visitor: Visitor, form: Form | None = None) -> Visit:
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
        if not self._service.own:  # where the database is, is the operator's business
            said = [self._service.hide_database(each) for each in problem.problems]
            problem = msgspec.structs.replace(problem, problems=said)
        if request.query_params.get("format") in FORMATS:
            content = msgspec.json.encode(problem)
            return Response(content, problem.status, HEADERS, media_type="application/json")
        if visit is None:
            service = self._service
            stranger, services = make_stranger(), service.tenant(service.app.tenant)
            visit = Visit(services, service, stranger, service.clock(), request.url.path)
        template = "problem_part.html" if visit.get("part") else "problem.html"
        return self._show(visit, problem, template, problem.status)


def _miss(visit: Visit) -> View:
    raise NotFound(f"there is no page {visit.path[:200]!r}", hint="begin at the first page")
