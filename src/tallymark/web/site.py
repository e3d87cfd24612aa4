"""`make_site`: routes of all pages."""

from __future__ import annotations

from functools import cache, partial

from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.routing import BaseRoute, Mount, Route

from tallymark.service.service import Service
from tallymark.web.assets import ICON, Assets
from tallymark.web.docs_tree import PICTURES
from tallymark.web.page import Page
from tallymark.web.page_server import PageServer
from tallymark.web.pages import (
    account,
    agent,
    agents,
    answer,
    attempt,
    case,
    challenge,
    challenges,
    compare,
    docs,
    enter,
    formula,
    home,
    keys,
    ratings,
    review,
    rule,
    rules,
    run,
    runs,
    search,
    side_submission,
    sign_in,
    trace,
    trace_comparison,
    trace_session,
    traces,
    track,
    tracks,
)
from tallymark.web.pages.organiser import agent as organised_agent
from tallymark.web.pages.organiser import attempt as organised_attempt
from tallymark.web.pages.organiser import audit, files, front, job, rescore
from tallymark.web.pages.organiser import challenge as organised_challenge
from tallymark.web.pages.organiser import keys as access_keys
from tallymark.web.rendering import Renderer

PAGES: tuple[Page, ...] = (
    home.PAGE,
    runs.PAGE,
    runs.SUITE,
    run.PAGE,
    case.PAGE,
    compare.PAGE,
    formula.PAGE,
    challenges.PAGE,
    challenge.PAGE,
    tracks.PAGE,
    track.PAGE,
    attempt.PAGE,
    side_submission.PAGE,
    agents.PAGE,
    agent.PAGE,
    ratings.PAGE,
    search.PAGE,
    keys.PAGE,
    sign_in.PAGE,
    account.PAGE,
    front.PAGE,
    files.NEW,
    files.PAGE,
    rescore.PAGE,
    organised_challenge.PAGE,
    organised_attempt.PAGE,
    organised_agent.PAGE,
    job.PAGE,
    access_keys.PAGE,
    audit.PAGE,
    traces.PAGE,
    trace_comparison.PAGE,
    trace_session.PAGE,
    trace.PAGE,
    rules.PAGE,
    rule.PAGE,
    review.PAGE,
    enter.PAGE,
    answer.PAGE,
    docs.FRONT,
    docs.SEARCH,
    docs.LIST,
    docs.PAGE,
)
"""All pages; each has its own file."""


@cache
def load_pages() -> tuple[Assets, Renderer]:
    """Load assets and templates once per process."""
    assets = Assets()
    return assets, Renderer(assets)


def make_site(service: Service) -> list[BaseRoute]:
    """Make the routes of all pages; the last one answers unknown addresses."""
    assets, renderer = load_pages()
    server = PageServer(service, renderer)
    routes: list[BaseRoute] = [
        Route(
            page.path,
            server.make_endpoint(page),
            methods=["GET", "POST"] if page.actions else ["GET"],
        )
        for page in PAGES
    ]
    routes.append(Route("/{rest:path}", server.refuse, methods=["GET"]))
    return [
        Route("/static/{name}", assets.serve, methods=["GET"]),
        Route(ICON, assets.serve, methods=["GET"]),
        *(
            Route(
                f"/docs/{{name:path}}{kind}",
                partial(docs.serve_docs_file, service),
                methods=["GET"],
            )
            for kind in (*PICTURES, ".md")
        ),
        Mount(
            "",
            routes=routes,
            middleware=[Middleware(GZipMiddleware, minimum_size=800, compresslevel=5)],
        ),
    ]
