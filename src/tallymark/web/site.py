"""`make_site`: the pages as routes, for whichever server carries them."""

from __future__ import annotations

from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.routing import BaseRoute, Mount, Route

from tallymark.app.service import Service
from tallymark.web.assets import ICON, Assets
from tallymark.web.page import Page, PageServer
from tallymark.web.pages import (
    account,
    agent,
    agents,
    attempt,
    case,
    challenge,
    challenges,
    compare,
    formula,
    home,
    keys,
    ratings,
    review,
    run,
    runs,
    search,
    sign_in,
)
from tallymark.web.rendering import Renderer

PAGES: tuple[Page, ...] = (
    home.PAGE,
    runs.PAGE,
    run.PAGE,
    case.PAGE,
    compare.PAGE,
    formula.PAGE,
    challenges.PAGE,
    challenge.PAGE,
    attempt.PAGE,
    agents.PAGE,
    agent.PAGE,
    ratings.PAGE,
    search.PAGE,
    keys.PAGE,
    sign_in.PAGE,
    account.PAGE,
    review.PAGE,
)
"""Every page, one file each."""


def make_site(service: Service) -> list[BaseRoute]:
    """The routes of all pages. They come last: what no route has is answered by a page too."""
    assets = Assets()
    server = PageServer(service, Renderer(assets))
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
        Mount("", routes=routes, middleware=[Middleware(GZipMiddleware, minimum_size=800)]),
    ]
