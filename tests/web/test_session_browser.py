"""Who is signed in stands in the header of every page, however long the name is."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser
from tests.web.conftest import make_service, serve_service, sign_in

from tallymark.service.app import App
from tallymark.service.callers import SESSION_COOKIE

_MEASURE = """() => {
  const box = query => document.querySelector(query).getBoundingClientRect();
  const who = box(".who"), name = box(".who span");
  const nav = document.querySelector(".top .nav");
  return {
    page: document.documentElement.scrollWidth - innerWidth,
    name: Math.max(name.right - who.right, who.left - name.left),
    nav: nav.scrollWidth - nav.clientWidth,
  };
}"""


@pytest.mark.parametrize("owner", ["abcdefghijklmnopqrstuvwx", "w" * 60])
def test_a_long_name_of_who_is_signed_in_stays_in_its_place(
    app: App, browser: Browser, owner: str
) -> None:
    service = make_service(app)
    token = sign_in(service, "organiser", None, owner=owner)
    with serve_service(service) as address:
        context = browser.new_context()
        context.add_cookies([{"name": SESSION_COOKIE, "value": token, "url": address}])
        page = context.new_page()
        for width in (390, 760, 1100, 1280):
            page.set_viewport_size({"width": width, "height": 844})
            page.goto(f"{address}/account")
            found = page.evaluate(_MEASURE)
            assert found["page"] <= 0, width
            assert found["name"] <= 0, width
            assert width < 1100 or found["nav"] <= 0, width
        context.close()
