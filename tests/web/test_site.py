"""What holds for every page."""

from __future__ import annotations

import csv
import gzip
import io
import re
from html.parser import HTMLParser

import pytest
from starlette.testclient import TestClient
from tests.web.conftest import PORT, browse, browse_as
from tests.web.page_samples import list_addresses

from tallymark.service.app import App
from tallymark.web.assets import Assets
from tallymark.web.site import PAGES

HARMFUL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u202a-\u202e\u2066-\u2069]")
MOST_BYTES = 60_000


class Elements(HTMLParser):
    """Every element of a page with its attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def test_every_page_answers_as_html_json_and_csv(app: App, client: TestClient) -> None:
    for address in list_addresses(app.store):
        page = client.get(address)
        assert page.status_code == 200, (address, page.text[-400:])
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        found = Elements(page.text).found
        ids = [attributes["id"] for _, attributes in found if "id" in attributes]
        assert len(ids) == len(set(ids)), address
        rows = [attributes for _, attributes in found if "data-row" in attributes]
        assert all("id" in each for each in rows), address  # each has a link of its own
        joint = "&" if "?" in address else "?"
        assert client.get(f"{address}{joint}format=json").json()["title"], address
        told = client.get(f"{address}{joint}format=csv")
        assert told.status_code == 200, address
        assert len(list(csv.reader(io.StringIO(told.text)))) >= 1


def test_the_samples_show_every_page(app: App, client: TestClient) -> None:
    shown = [address.partition("?")[0] for address in list_addresses(app.store)]
    for page in PAGES:
        pattern = re.sub(r"\{\w+(:path)?\}", "[^/]+", page.path)
        assert any(re.fullmatch(pattern, address) for address in shown), page.path


def test_an_empty_store_has_every_list(empty_app: App) -> None:
    client = browse(empty_app)
    for address in (
        "/",
        "/runs",
        "/challenges",
        "/agents",
        "/ratings",
        "/formula",
        "/search?q=a",
        "/organiser",
        "/organiser/challenges",
        "/organiser/keys",
        "/organiser/audit",
    ):
        assert client.get(address).status_code == 200, address
    assert "tally init" in client.get("/").text
    for address in ("/runs/x", "/challenges/x", "/attempts/a1", "/agents/x"):
        assert client.get(address).status_code in (404, 422), address


def test_every_page_draws_that_it_is_empty_or_not_for_who_looks(empty_app: App, app: App) -> None:
    """A drawn state says what to do next; a bare word does not."""
    for client in (browse(empty_app), browse_as(app), browse_as(app, "agent", "alice")):
        for page in PAGES:
            address = re.sub(r"\{\w+(:path)?\}", "nothing", page.path)
            answer = client.get(address)
            classes = {
                name
                for _, attributes in Elements(answer.text).found
                for name in (attributes.get("class") or "").split()
            }
            drawn = {"state", "hero", "narrow"} & classes
            assert drawn or answer.status_code == 200, (address, answer.status_code)
            assert answer.status_code in (200, 401, 403, 404, 422), (address, answer.text[-300:])
            if answer.status_code >= 400:
                assert {"button"} & classes, address  # somewhere to go
    for address in ("/", "/runs", "/challenges", "/agents", "/ratings"):
        shown = browse(empty_app).get(address).text
        assert 'class="state' in shown or 'class="hero' in shown, address


def test_the_policy_allows_nothing_inline_and_nothing_from_elsewhere(
    app: App, client: TestClient
) -> None:
    for address in list_addresses(app.store):
        page = client.get(address)
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        for tag, attributes in Elements(page.text).found:
            assert "style" not in attributes, (address, tag)
            assert not [name for name in attributes if name.startswith("on")], (address, tag)
            assert tag not in ("style", "iframe", "object", "embed"), address
            if tag in ("script", "link", "img", "use"):
                source = attributes.get("src") or attributes.get("href") or ""
                assert source.startswith("/static/"), (address, source)


def test_what_strangers_wrote_is_harmless_on_every_page(odd_app: App) -> None:
    client = browse(odd_app)
    for address in list_addresses(odd_app.store):
        page = client.get(address)
        assert page.status_code == 200, (address[:200], page.text[-400:])
        assert not HARMFUL.search(page.text), address[:200]
        assert "<script>alert" not in page.text, address[:200]
        elements = Elements(page.text).found
        assert not [tag for tag, _ in elements if tag == "img"], address[:200]
        scripts = [attributes for tag, attributes in elements if tag == "script"]
        assert all((each.get("src") or "").startswith("/static/main.") for each in scripts)
        links = [attributes.get("href") or "" for tag, attributes in elements if tag == "a"]
        assert not [link for link in links if link.lower().startswith("javascript")]


def test_an_unknown_address_is_a_page_that_leads_back(client: TestClient) -> None:
    page = client.get("/nothing/here")
    assert page.status_code == 404
    assert 'href="/"' in page.text
    assert client.get("/nothing?format=json").json()["status"] == 404


def test_style_and_script_are_kept_for_good_under_names_of_their_content(
    client: TestClient,
) -> None:
    page = client.get("/").text
    for path in re.findall(r'/static/[^" ]+', page):
        found = client.get(path)
        assert found.status_code == 200, path
        assert "immutable" in found.headers["cache-control"]
    assert client.get("/static/site.000000000000.css").status_code == 404


def test_style_and_all_script_together_are_small() -> None:
    assets = Assets().by_name.values()
    assert sum(len(gzip.compress(each.content, 9)) for each in assets) < MOST_BYTES


@pytest.mark.parametrize(("cookie", "written"), [("dark", True), ("light", True), ("x", False)])
def test_the_theme_of_the_cookie_is_written_by_the_server(
    client: TestClient, cookie: str, written: bool
) -> None:
    client.cookies.set("theme", cookie)
    assert (f'data-theme="{cookie}"' in client.get("/keys").text) is written


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]", "LOCALHOST"])
def test_names_of_this_machine_are_answered(client: TestClient, host: str) -> None:
    assert client.get("/keys", headers={"Host": f"{host}:{PORT}"}).status_code == 200


@pytest.mark.parametrize(
    "host", ["example.org", f"example.org:{PORT}", "localhost", "localhost:80", "", "127.0.0.1.x"]
)
def test_any_other_name_is_refused(client: TestClient, host: str) -> None:
    refused = client.get("/keys", headers={"Host": host})
    assert refused.status_code == 421
    assert "<" not in refused.text
