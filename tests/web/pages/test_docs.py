"""The documentation as pages."""

from __future__ import annotations

import re

import pytest
from starlette.testclient import TestClient
from tests.web.conftest import browse_as

from tallymark.service.app import App
from tallymark.web.docs_tree import load_docs


@pytest.fixture(scope="module")
def stranger(app: App) -> TestClient:
    """On a server that many share, without a key."""
    return browse_as(app)


def test_docs_need_no_key(stranger: TestClient) -> None:
    front = stranger.get("/docs")
    assert front.status_code == 200
    for address in ("/docs/formulas", "/docs/decisions", "/docs/readme", "/docs/search?q=board"):
        assert stranger.get(address).status_code == 200, address
    for group in load_docs().groups:
        assert f">{group.title}</h2>" in front.text
        for each in group.entries:
            assert f'href="{each.address}"' in front.text


def test_a_page_has_contents_headings_neighbours_and_its_source(stranger: TestClient) -> None:
    page = stranger.get("/docs/formulas").text
    assert '<a href="/docs/formulas" aria-current="page">' in page
    assert '<h2 id="functions">Functions <a class="anchor" href="#functions"' in page
    assert 'href="#many-rows">Many rows</a>' in page
    assert re.search(r'<a rel="prev" href="/docs/[\w-]+">', page)
    assert re.search(r'<a rel="next" href="/docs/[\w-]+">', page)
    assert 'href="/docs/formulas.md"' in page
    assert "made by `make docs`" not in stranger.get("/docs/formulas").text


def test_pictures_are_served(stranger: TestClient) -> None:
    page = stranger.get("/docs/readme").text
    [*sources] = re.findall(r'<img src="([^"]*)"', page)
    assert "/docs/home.png" in sources
    for source in sources:
        found = stranger.get(source)
        assert found.status_code == 200, source
        assert found.headers["content-type"] in ("image/png", "image/svg+xml")
        assert "sandbox" in found.headers["content-security-policy"]


def test_links_outside_the_docs_are_plain_text(stranger: TestClient) -> None:
    page = stranger.get("/docs/suite-format").text
    assert '<span class="elsewhere" data-tip="In the repository: examples/suites">' in page


def test_search_as_a_page_and_as_a_part(stranger: TestClient) -> None:
    page = stranger.get("/docs/search?q=frozen").text
    part = stranger.get("/docs/search?q=frozen&part=found").text
    assert "<html" in page
    assert "<html" not in part
    assert part.strip() in page
    assert "<mark>" in part
    assert "No results" in stranger.get("/docs/search?q=zzzzzz").text
    odd = stranger.get("/docs/search", params={"q": "<script>alert(1)</script>" * 99})
    assert odd.status_code == 200
    assert "<script>alert" not in odd.text


def test_global_search_includes_the_docs(stranger: TestClient) -> None:
    found = stranger.get("/search?q=interval&format=json").json()["found"]
    assert "Docs" in {each["kind"] for each in found}


@pytest.mark.parametrize(
    "address",
    [
        "/docs/nothing",
        "/docs/decisions/nothing",
        "/docs/nothing.md",
        "/docs/nothing.png",
        "/docs/..%2fpyproject.md",
        "/docs/%2e%2e/%2e%2e/etc/passwd.png",
        "/docs/decisions%00.md",
        "/docs/README.md",
    ],
)
def test_unknown_paths_are_404(stranger: TestClient, address: str) -> None:
    assert stranger.get(address).status_code == 404


def test_markdown_source_is_served(stranger: TestClient) -> None:
    found = stranger.get("/docs/decisions/0008-sandbox.md")
    assert found.headers["content-type"] == "text/plain; charset=utf-8"
    assert found.text == load_docs().pages["decisions/0008-sandbox"].source
    moved = stranger.get("/docs/formulas/", follow_redirects=False)
    assert moved.headers["location"] == "/docs/formulas"
