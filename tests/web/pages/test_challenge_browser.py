"""A board in real browsers: it moves by itself, what-if re-ranks it, and it outlives its server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page
from tests.web.conftest import open_app, serve
from tests.web.page_samples import NOW, fill_contests, play

from tallymark.challenges.versus.pairings import Ruling
from tallymark.service.app import App

pytestmark = pytest.mark.proof


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    """Boards of which a test may change something."""
    with closing(open_app(tmp_path / "tally.db", fill_contests)) as opened:
        yield opened


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """Of somebody who looks, and wants things to move."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    opened = context.new_page()
    opened.set_default_timeout(15_000)
    yield opened
    context.close()


LIVE = "[data-live='live']"


def list_agents(page: Page) -> list[str]:
    """Handles in the order in which they stand."""
    return page.eval_on_selector_all(  # type: ignore[no-any-return]
        "[data-patch=rows] tr[data-rank]", "rows => rows.map((each) => each.dataset.key)"
    )


def test_a_board_moves_in_every_browser_without_being_loaded_again(
    app: App,
    page: Page,
    browser: Browser,
) -> None:
    with serve(app) as address:
        wall = browser.new_page(reduced_motion="reduce")
        wall.goto(f"{address}/challenges/maze?tv=1")
        page.goto(f"{address}/challenges/maze")
        for each in (page, wall):
            each.wait_for_selector(LIVE)
            each.evaluate("window.loadedOnce = true")
        assert list_agents(page) == ["alice", "bob", "charlie", "dave"]
        play(app.store, "maze", "dave", 990.0, at=NOW - 20)
        for each in (page, wall):
            each.wait_for_selector("tr[data-key=dave][data-rank='1'] .move.up >> text=3")
            assert list_agents(each) == ["dave", "alice", "bob", "charlie"]
            assert each.evaluate("window.loadedOnce")
        assert "990" in page.inner_text(".podium li:first-child")
        wall.close()


def test_what_if_is_typed_dragged_shared_and_reset(app: App, page: Page) -> None:
    with serve(app) as address:
        page.goto(f"{address}/challenges/maze")
        page.wait_for_selector(LIVE)
        page.keyboard.press("w")
        page.wait_for_selector(".board-frame.whatif")
        page.keyboard.press("End")
        page.wait_for_url("**weights=correctness%3A100%2Cspeed%3A40")
        page.click("text=Formula")
        page.fill("#what-if-formula", "-total")
        page.wait_for_selector("tr[data-key=dave][data-rank='1'] .move.up >> text=3")
        assert "dave would lead" in page.inner_text(".whatif-head")
        shared = page.url
        page.keyboard.press("Escape")
        page.wait_for_selector(".board-frame:not(.whatif)")
        page.wait_for_selector("tr[data-key=alice][data-rank='1']")
        assert page.url == f"{address}/challenges/maze"
        page.goto(shared)
        page.wait_for_selector("tr[data-key=dave][data-rank='1'] .move.up")
        assert page.input_value("#what-if-formula") == "-total"


def test_a_wrong_formula_is_told_at_its_column_and_the_last_order_stays(
    app: App, page: Page
) -> None:
    with serve(app) as address:
        page.goto(f"{address}/challenges/maze?formula=-total")
        page.wait_for_selector(LIVE)
        page.fill("#what-if-formula", "-total + sped")
        page.wait_for_selector("text=Column 10")
        assert page.get_attribute("#what-if-formula", "aria-invalid") == "true"
        assert list_agents(page)[0] == "dave"
        score = "tr[data-key=alice] .board-score"
        page.evaluate(f"document.querySelector('{score} b').stays = true")
        page.fill("#what-if-formula", "-total + speed * 2")
        page.wait_for_selector("tr[data-key=alice][data-rank='1']")
        assert "speed * 2" in (page.get_attribute(score, "data-tip") or "")
        assert page.evaluate(f"document.querySelector('{score} b').stays")
        assert page.get_attribute("#what-if-formula", "aria-invalid") == "false"


def test_red_against_blue_is_live_and_its_frozen_matrix_is_not(app: App, page: Page) -> None:
    """The samples' clock stands still: what comes later was played after the freeze."""
    versus = app.store.versus
    versus.submit("guard", "erin", "red", {"attack": "again"}, at=NOW - 50)
    left = versus.unjudged("guard", failed=False)
    with serve(app) as address:
        page.goto(f"{address}/challenges/guard")
        page.wait_for_selector(LIVE)
        page.evaluate("window.loadedOnce = true")
        assert "waits" in page.inner_text("#matrix")
        versus.rule([(each, Ruling(breached=True)) for each in left], judge="judge", at=NOW - 40)
        page.wait_for_selector("#red-erin >> text=4 of 4")
        app.store.challenges.freeze("guard", at=NOW - 30, reason="the last hour")
        page.wait_for_selector("text=The board is frozen")
        versus.submit("guard", "frank", "red", {"attack": "late"}, at=NOW - 20)
        page.wait_for_selector("[data-live='frozen']")
        assert page.evaluate("window.loadedOnce")
        assert page.locator("#red-frank").count() == 0


def test_a_page_goes_on_by_itself_when_its_server_is_back(app: App, page: Page) -> None:
    with serve(app) as address:
        page.goto(f"{address}/challenges/maze")
        page.wait_for_selector(LIVE)
        page.evaluate("window.loadedOnce = true")
    page.wait_for_selector("[data-live='reconnecting'], [data-live='offline']")
    assert list_agents(page)[0] == "alice"
    play(app.store, "maze", "dave", 990.0, at=NOW - 20)
    with serve(app, int(address.rpartition(":")[2])):
        page.wait_for_selector("tr[data-key=dave][data-rank='1']")
        page.wait_for_selector(LIVE)
        assert page.evaluate("window.loadedOnce")
