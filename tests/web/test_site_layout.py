"""The layout holds at every width: nothing is too wide, leaves its card, is cut, or hides focus."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page
from scripts.screenshots import list_layout_faults
from tests.web.conftest import make_service, serve_service, sign_in
from tests.web.page_samples import list_kinds

from tallymark.service.app import App
from tallymark.service.callers import SESSION_COOKIE

WIDTHS = (320, 390, 768, 1024, 1366, 1920)
OPEN_ALL = "document.querySelectorAll('details').forEach((each) => { each.open = true; })"


@pytest.fixture(scope="module", params=["organiser", "agent", "anonymous"])
def visitor(request: pytest.FixtureRequest, app: App, browser: Browser) -> Iterator[Page]:
    """A window of somebody on a server that many share."""
    service = make_service(app)
    with serve_service(service) as address:
        context = browser.new_context(base_url=address, reduced_motion="reduce")
        if request.param != "anonymous":
            agent = "alice" if request.param == "agent" else None
            token = sign_in(service, request.param, agent)
            context.add_cookies([{"name": SESSION_COOKIE, "value": token, "url": address}])
        yield context.new_page()
        context.close()


def list_faults(page: Page, widths: tuple[int, ...]) -> list[str]:
    found = []
    for width in widths:
        page.set_viewport_size({"width": width, "height": 900})
        found += [f"{page.url} at {width}: {each}" for each in list_layout_faults(page)]
    return found


@pytest.mark.parametrize("path", ["/challenges", "/challenges/maze", "/ratings"])
def test_the_layout_holds_at_common_widths(visitor: Page, path: str) -> None:
    visitor.goto(path)
    assert list_faults(visitor, (390, 768, 1366)) == []


@pytest.mark.proof
def test_every_page_holds_at_every_width(visitor: Page, app: App) -> None:
    faults = []
    for path in list_kinds(app.store):
        visitor.goto(path)
        visitor.wait_for_load_state("load")
        faults += list_faults(visitor, WIDTHS)
        visitor.evaluate(OPEN_ALL)
        faults += list_faults(visitor, WIDTHS)
    assert not faults, "\n".join(faults)


@pytest.mark.proof
@pytest.mark.parametrize(
    "path", ["/attempts/a1", "/attempts/a5", "/runs/rntwo", "/compare?run=rnone&run=rntwo"]
)
def test_a_page_that_was_sent_as_a_file_holds_at_every_width(visitor: Page, path: str) -> None:
    sent = visitor.request.get(path, params={"format": "html"})
    visitor.goto("about:blank")
    visitor.set_content(sent.text())
    assert list_faults(visitor, WIDTHS) == []
