"""Pages over a store that has something on every one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient
from tests.store.contest_samples import quick_store
from tests.web.page_samples import NOW, ODD, fill_store

from tallymark.app.app import App
from tallymark.store import Store
from tallymark.web.own_store import make_own_site
from tallymark.web.site import make_site
from tallymark.web.visitor import Visitor

PORT = 7373
ADDRESS = f"http://localhost:{PORT}"


def open_app(path: Path, fill: Callable[[Store], None] | None = None) -> App:
    """An application over a new database."""
    if fill is not None:
        with quick_store(f"sqlite:///{path}") as store:
            fill(store)
    return App(str(path))


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    """A store with something on every page, which nobody changes."""
    with closing(open_app(tmp_path_factory.mktemp("pages") / "tally.db", fill_store)) as opened:
        yield opened


@pytest.fixture(scope="module")
def odd_app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    """The same, written by somebody who means harm."""
    path = tmp_path_factory.mktemp("odd") / "tally.db"
    with closing(open_app(path, lambda store: fill_store(store, ODD))) as opened:
        yield opened


@pytest.fixture
def empty_app(tmp_path: Path) -> Iterator[App]:
    """A store in which nothing has been kept yet."""
    with closing(open_app(tmp_path / "empty.db")) as opened:
        yield opened


def browse(app: App) -> TestClient:
    """A client of the owner's pages, at the time of the samples."""
    return TestClient(make_own_site(app, PORT, clock=lambda: NOW), base_url=ADDRESS)


def browse_as(app: App, visitor: Visitor) -> TestClient:
    """The same for somebody else."""
    routes = make_site(app, find_visitor=lambda _: visitor, clock=lambda: NOW)
    return TestClient(Starlette(routes=routes), base_url=ADDRESS)


@pytest.fixture
def client(app: App) -> TestClient:
    """Of the owner."""
    return browse(app)
