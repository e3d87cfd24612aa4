"""`make_site`: the pages as routes, for whichever server carries them."""

from __future__ import annotations

import time
from collections.abc import Callable

from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.routing import BaseRoute, Mount, Route

from tallymark.app.app import App
from tallymark.web.assets import ICON, Assets
from tallymark.web.page import Page, PageServer
from tallymark.web.pages import (
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
    run,
    runs,
    search,
)
from tallymark.web.rendering import Renderer
from tallymark.web.visitor import Visitor

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
)
"""Every page, one file each."""


def make_site(
    app: App,
    *,
    find_visitor: Callable[[Request], Visitor],
    clock: Callable[[], float] = time.time,
) -> list[BaseRoute]:
    """The routes of all pages. They come last: what no route has is answered by a page too."""
    assets = Assets()
    server = PageServer(app, find_visitor, Renderer(assets), clock)
    routes: list[BaseRoute] = [
        Route(page.path, server.make_endpoint(page), methods=["GET"]) for page in PAGES
    ]
    routes.append(Route("/{rest:path}", server.refuse, methods=["GET"]))
    return [
        Route("/static/{name}", assets.serve, methods=["GET"]),
        Route(ICON, assets.serve, methods=["GET"]),
        Mount("", routes=routes, middleware=[Middleware(GZipMiddleware, minimum_size=800)]),
    ]
