"""Pages over a store that has something on every one of them."""

from __future__ import annotations

import re
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from httpx2 import Response
from playwright.sync_api import Browser, sync_playwright
from starlette.testclient import TestClient
from tests.service.account_samples import make_key
from tests.store.contest_samples import quick_store
from tests.web.page_samples import NOW, ODD, fill_store

from tallymark.errors import Conflict
from tallymark.server import make_server, name_hosts
from tallymark.service.app import App
from tallymark.service.callers import SESSION_COOKIE
from tallymark.service.keys import Tenants
from tallymark.service.service import Service
from tallymark.service.settings import ServiceSettings
from tallymark.store import Store

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
    service = make_service(app, own=True)
    return TestClient(make_server(service, hosts=name_hosts(PORT)), base_url=ADDRESS)


def make_service(app: App, *, own: bool = False) -> Service:
    """A server's over a store that is open already, at the time of the samples."""
    service = Service(ServiceSettings(db=app.db, own=own, workers=0), clock=lambda: NOW)
    service.app = app
    _services.append(service)
    return service


_services: list[Service] = []


@pytest.fixture(scope="module", autouse=True)
def _let_go() -> Iterator[None]:
    """Of the files that challenges laid out; the stores are closed by who opened them."""
    yield
    while _services:
        for each in _services.pop()._tenants.values():
            each.close()


def browse_as(
    app: App,
    role: str = "anonymous",
    agent: str | None = None,
    tenant: str = "default",
    owner: str = "somebody",
) -> TestClient:
    """The same for somebody who is signed in on a server that many share, or for a stranger."""
    service = make_service(app)
    client = TestClient(make_server(service), base_url=ADDRESS)
    if role != "anonymous":
        client.cookies.set(SESSION_COOKIE, sign_in(service, role, agent, tenant, owner))
    return client


def sign_in(
    service: Service,
    role: str,
    agent: str | None,
    tenant: str = "default",
    owner: str = "somebody",
) -> str:
    """The token of a new session, by a new key."""
    if tenant != "default":
        with suppress(Conflict):
            Tenants(service.tenant("default")).add(tenant)
    key = make_key(service, role, tenant, owner=agent or owner, agent=agent)
    token = service.accounts.sign_in(key).token
    assert token is not None
    return token


def squeeze(page: str) -> str:
    """The HTML without the spaces that lay it out: around tags, and several in a row."""
    return re.sub(r"\s+", " ", re.sub(r"\s*(</?\w[^<>]*?)\s*>\s*", r"\1>", page))


def find_token(client: TestClient) -> str:
    """What forms of a session must carry."""
    return client.get("/account").text.split('name="csrf" value="')[1].split('"')[0]


def send(client: TestClient, path: str, do: str, **fields: Any) -> Response:
    """Sends a form of a page as a browser does, with the token that the page has."""
    found = re.search(r'name="csrf" value="([^"]+)"', client.get(path).text)
    files = {name: value for name, value in fields.items() if isinstance(value, bytes)}
    texts = {name: value for name, value in fields.items() if name not in files}
    texts |= {"do": do} | ({"csrf": found[1]} if found else {})
    return client.post(
        path, data=texts, files=files or None, headers={"Origin": ADDRESS}, follow_redirects=False
    )


@pytest.fixture
def client(app: App) -> TestClient:
    """Of the owner."""
    return browse(app)


@contextmanager
def serve(app: App, port: int = 0) -> Iterator[str]:
    """The owner's pages, on a port of their own unless one is named."""
    with serve_service(make_service(app, own=True), port) as address:
        yield address


@contextmanager
def serve_service(service: Service, port: int = 0) -> Iterator[str]:
    """The pages of a server; at the end also those who listen are sent away."""
    listener = socket.create_server(("127.0.0.1", port))
    port = listener.getsockname()[1]
    site = make_server(service, hosts=name_hosts(port) if service.own else None)
    server = uvicorn.Server(uvicorn.Config(site, log_level="error", ws="none"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield f"http://localhost:{port}"
    finally:
        service.live.end()
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium, without a window."""
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("chromium is not installed")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--headless"]
        )
        yield opened
        opened.close()
