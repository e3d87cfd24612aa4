"""In a real browser: the policy holds, nothing is too wide, axe is content, script works."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from axe_playwright_python.sync_playwright import Axe
from msgspec.structs import replace
from playwright.sync_api import (
    Browser,
    ConsoleMessage,
    Dialog,
    FilePayload,
    Page,
    Request,
)
from tests.cli.tally_process import Tally
from tests.service.account_samples import make_key
from tests.web.conftest import make_service, open_app, serve, serve_service
from tests.web.page_samples import (
    DAY,
    NO_FILES,
    NOW,
    a_maze,
    a_result,
    a_trace,
    keep_run,
    list_kinds,
    play,
    publish_beans,
)

from tallymark.challenges.attempt import Payload
from tallymark.runs.record import RunRecord
from tallymark.service.app import App
from tallymark.service.callers import Caller
from tallymark.store import Store, open_store
from tallymark.web.pages.keys import KEYS
from tallymark.web.site import PAGES

pytestmark = pytest.mark.proof


@pytest.fixture(scope="module")
def address(app: App) -> Iterator[str]:
    with serve(app) as found:
        yield found


@pytest.fixture(scope="module")
def odd_address(odd_app: App) -> Iterator[str]:
    with serve(odd_app) as found:
        yield found


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page that must not complain."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    opened = context.new_page()
    opened.set_default_timeout(15_000)
    told: list[str] = []

    def note(message: ConsoleMessage) -> None:
        if message.type == "error":
            told.append(message.text)

    opened.on("console", note)
    opened.on("pageerror", lambda error: told.append(str(error)))
    yield opened
    context.close()
    assert not told


AXE = (
    "/",
    "/runs/rntwo",
    "/compare?run=rnone&run=rntwo",
    "/challenges/maze",
    "/attempts/a8/answer",
    "/docs/formulas",
)
"""Of each kind of page one; `make proof` looks at all of them in every role."""


def list_faults(found: list[dict[str, Any]]) -> list[str]:
    """What axe calls serious, with where."""
    return [
        f"{each['id']}: {each['nodes'][0]['html'][:160]}"
        for each in found
        if each["impact"] in ("serious", "critical")
    ]


@pytest.mark.proof
def test_axe_finds_nothing_serious_in_either_theme(address: str, page: Page) -> None:
    faults: list[str] = []
    laws = {"runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]}}
    for path in AXE:
        page.goto(f"{address}{path}")
        page.evaluate("document.documentElement.dataset.theme = 'light'")
        found = Axe().run(page, options=laws).response["violations"]
        faults += [f"{path}: {each}" for each in list_faults(found)]
        # Of the other theme, only the colours are others; axe is there already.
        page.evaluate("document.documentElement.dataset.theme = 'dark'")
        found = page.evaluate(
            "axe.run({ runOnly: ['color-contrast'] }).then((it) => it.violations)"
        )
        faults += [f"dark {path}: {each}" for each in list_faults(found)]
    assert faults == []


@pytest.mark.proof
def test_what_anybody_wrote_is_neither_run_nor_too_wide_for_a_phone(
    odd_app: App, odd_address: str, page: Page
) -> None:
    asked: list[str] = []
    wide: list[str] = []

    def refuse(dialog: Dialog) -> None:
        asked.append(dialog.message)
        dialog.dismiss()

    def note(request: Request) -> None:
        if not request.url.startswith(odd_address):
            asked.append(request.url)

    page.on("dialog", refuse)
    page.on("request", note)
    page.set_viewport_size({"width": 390, "height": 844})
    for path in list_kinds(odd_app.store):
        page.goto(f"{odd_address}{path}")
        if path in ("/", "/runs", "/runs/rntwo?view=side", "/challenges/maze", "/attempts/a1"):
            page.wait_for_selector("#tip", state="attached")  # by the last of its scripts
        if page.evaluate("document.documentElement.scrollWidth") > 390:
            wide.append(path[:120])
    assert (wide, asked) == ([], [])


def test_the_docs_are_searched_as_is_typed_and_their_code_is_copied(
    address: str, page: Page
) -> None:
    page.goto(f"{address}/docs/formulas")
    page.wait_for_selector(".sample button")
    press(page, "/")
    page.keyboard.type("frozen boa")
    page.wait_for_selector("#docs-found mark")
    page.click("#docs-found .docs-hits a")
    page.wait_for_selector(".docs-text")
    assert not page.url.endswith("/docs/formulas")


def test_a_formula_is_answered_as_it_is_typed(address: str, page: Page) -> None:
    page.goto(f"{address}/formula?run=rntwo")
    page.fill("#formula", "success_pct + succes")
    page.wait_for_selector("[data-column='15']")
    assert page.get_attribute("#formula", "aria-invalid") == "true"
    page.fill("#formula", "success_pct / 2")
    page.wait_for_selector(".total >> text=25.00")
    assert "formula=success_pct+%2F+2" in page.url
    assert page.get_attribute("#formula", "aria-invalid") == "false"


def test_what_a_long_term_lost_is_seen_without_scrolling(address: str, page: Page) -> None:
    rule = "succeeded * max(0, 1000 - 100 * (number - 1) - elapsed_s / 10)"
    page.goto(f"{address}/attempts/a5?{urlencode({'formula': rule})}")
    table = page.locator("#by-rule .tree")
    assert "Lost" in table.inner_text()
    box = table.locator("xpath=..")
    for width in (1280, 1440, 390):
        page.set_viewport_size({"width": width, "height": 900})
        assert box.evaluate("box => box.scrollWidth - box.clientWidth") <= 0, width


def test_a_long_name_pushes_no_score_off_the_wall(tmp_path: Path, page: Page) -> None:
    def fill(store: Store) -> None:
        store.challenges.publish(a_maze(), NO_FILES, at=NOW - DAY)
        play(store, "maze", "w" * 40, 900.0, at=NOW - 60)

    with closing(open_app(tmp_path / "tally.db", fill)) as app, serve(app) as found:
        page.goto(f"{found}/challenges/maze?tv=1")
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        assert "900" in page.locator(".tv-board .score").inner_text()
        page.goto("about:blank")  # before its server ends


def test_the_theme_is_kept(address: str, page: Page) -> None:
    page.goto(f"{address}/keys")
    page.click("[data-theme-button]")
    chosen = page.evaluate("document.documentElement.dataset.theme")
    page.goto(f"{address}/runs")
    assert page.evaluate("document.documentElement.dataset.theme") == chosen == "dark"


HURRY = """for (const name of ["setTimeout", "setInterval"]) {
  const wait = window[name];
  window[name] = (act, ms = 0, ...more) => wait(act, ms / 10, ...more);
}"""
"""Pages wait before they try again: in tests a tenth of it."""


def press(page: Page, *keys: str) -> None:
    """Keys that a page listens to once its script is there."""
    page.wait_for_selector("#tip", state="attached")
    for key in keys:
        page.keyboard.press(key)


PLACES = {
    "g h": "/", "g r": "/runs", "g c": "/challenges", "g a": "/agents", "g t": "/ratings",
    "g f": "/formula", "g o": "/organiser", "g d": "/docs",
}  # fmt: skip


@pytest.mark.proof
def test_every_key_of_the_map_does_what_it_says(address: str, page: Page) -> None:
    tried = set(PLACES)
    page.goto(f"{address}/keys")
    for keys, path in PLACES.items():
        if path not in {each.path for each in PAGES}:
            continue
        press(page, *keys.split(" "))
        page.wait_for_url(f"{address}{path}")
    press_each(address, page, tried)
    assert tried == set(KEYS)


def press_each(address: str, page: Page, tried: set[str]) -> None:
    page.goto(f"{address}/runs")
    press(page, "/")
    assert page.evaluate("document.activeElement.type") == "search"
    press(page, "t", "Escape")  # typed into the field, and left
    assert page.evaluate("document.activeElement === document.body")
    press(page, "j", "x", "j", "x", "k")
    page.wait_for_selector("text=Compare 2")
    assert page.evaluate("document.activeElement.closest('[data-row]').rowIndex") == 1
    press(page, "c")
    page.wait_for_url("**/compare?**")
    assert page.url.count("run=") == 2
    page.goto(f"{address}/runs")
    press(page, "j", "Enter")
    page.wait_for_url("**/runs/rn*")
    press(page, "t")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    press(page, "y")
    page.wait_for_selector("text=Link copied")
    assert page.evaluate("navigator.clipboard.readText()") == page.url
    press(page, "?")
    page.wait_for_url("**/keys")
    tried |= {"/", "Esc", "j", "k", "x", "c", "Enter", "t", "y", "?"}
    page.goto(f"{address}/challenges/maze")
    press(page, "w")
    page.wait_for_selector("#what-if form input:focus")
    tried |= {"w", "p", "f", "m"}  # the last three by whoever reviews cases, below


def test_single_keys_can_be_switched_off(address: str, page: Page) -> None:
    page.goto(f"{address}/keys")
    page.click("text=Single keys work")
    page.goto(f"{address}/runs")
    press(page, "?")
    assert page.url == f"{address}/runs"


@pytest.mark.proof
def test_a_page_says_that_its_server_is_away_and_goes_on_when_it_is_back(
    app: App, browser: Browser
) -> None:
    context = browser.new_context(reduced_motion="reduce")
    page = context.new_page()
    with serve(app) as address:
        page.goto(f"{address}/formula?run=rntwo")
        page.wait_for_selector("#tip", state="attached")
        context.set_offline(True)
        page.fill("#formula", "success_pct")
        page.wait_for_selector("text=No connection. Shown as of")
        context.set_offline(False)
        page.wait_for_selector("text=The server is back.")
    context.close()


def test_charts_of_a_board_come_after_it(address: str, page: Page) -> None:
    page.goto(f"{address}/challenges/maze")
    page.wait_for_selector("text=Attempts a day")


def test_of_ten_thousand_spans_only_what_is_seen_is_drawn(
    app: App, address: str, page: Page
) -> None:
    store = app.store
    record = keep_run(store, "rnlong", "sample-long", [True, True], at=NOW - 5 * 86_400)
    result = next(store.results(record.id, with_traces=True))
    store.delete_run(record.id)
    store.create_run(record)
    store.add_results(record.id, [replace(result, trace=a_trace(10_000))])
    page.goto(f"{address}/runs/rnlong/cases/case-0")
    page.wait_for_selector(".fall-box")
    count = "document.querySelectorAll('#trace *').length"
    assert page.evaluate(count) < 500
    page.evaluate("document.querySelector('.fall-box').scrollTop = 28 * 9_990")
    page.wait_for_selector("td:has-text('step 9999')")
    assert page.evaluate(count) < 500
    store.delete_run(record.id)


def test_what_failed_in_production_becomes_a_test_that_runs(
    address: str, page: Page, tmp_path: Path
) -> None:
    page.goto(f"{address}/traces?q=status:error")
    page.locator("input[name=trace]").first.check()
    page.click("text=Make a test from these")
    assert page.inner_text("h1") == "1 case from production"
    assert "1 case of it checks nothing" in page.inner_text("main")
    (tmp_path / "suite.yaml").write_text(page.locator("pre code").inner_text(), encoding="utf-8")
    done = Tally(tmp_path)("run", "suite.yaml", "-m", "echo/desk", "--json")
    (run,) = json.loads(done.stdout)["runs"]
    assert (run["suite"], run["status"], run["total"]) == (
        *("from-production", "completed"),
        1,
    )


def test_a_challenge_is_made_mended_published_and_frozen(
    page: Page, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with (
        closing(App(str(tmp_path_factory.mktemp("made") / "tally.db"))) as app,
        serve(app) as address,
    ):
        page.goto(f"{address}/")
        page.click("nav >> text=Organiser")
        page.click("text=New challenge")
        page.click("text=Reported")
        field = page.locator("textarea[name=text-0]")
        written = field.input_value()
        field.fill(f"{written}goul: x\n")
        page.click("button[value=check]")
        assert "Not ready: 1 problem" in page.inner_text("h1")
        assert "goul" in page.inner_text("#findings")
        page.locator("textarea[name=text-0]").fill(written)
        page.click("button[value=publish]")
        page.fill("#freeze-why", "the last hour")
        page.click("text=Freeze")
        assert "stands still" in page.inner_text("[role=status]")
        assert app.store.challenges.find("my-reported").held_at is not None


def test_a_running_run_is_seen_live_and_comes_to_its_end(
    app: App, address: str, page: Page
) -> None:
    store = app.store
    store.create_run(
        RunRecord(id="rlive", suite="live", model="m", status="running", total=3, created_at=NOW)
    )
    page.goto(f"{address}/runs/rlive")
    page.wait_for_selector("text=0 of 3 results so far")
    store.add_results("rlive", [a_result(0, passed=True)])
    page.wait_for_selector("text=1 of 3 results so far")
    page.wait_for_selector("#run-cases >> text=case-0")
    store.add_results("rlive", [a_result(1, passed=True), a_result(2, passed=False)])
    store.save_run(replace(store.run("rlive"), status="completed", passed=2, failed=1, score=66.0))
    page.wait_for_selector("text=66.00")
    assert page.locator("[data-live]").count() == 0
    store.delete_run("rlive")


@pytest.mark.proof
def test_a_running_run_goes_on_when_its_server_is_back(tmp_path: Path, browser: Browser) -> None:
    path = str(tmp_path / "tally.db")
    going = RunRecord(
        id="rlive", suite="live", model="m", status="running", total=2, created_at=NOW
    )
    with open_store(path) as worker, closing(App(path)) as app, closing(browser.new_page()) as page:
        page.add_init_script(HURRY)
        worker.create_run(going)
        worker.add_results("rlive", [a_result(0, passed=True)])
        with serve(app) as address:
            with page.expect_response("**/events"):  # before that, no script would miss the server
                page.goto(f"{address}/runs/rlive")
            page.wait_for_selector("text=1 of 2 results so far")
            page.evaluate("window.loadedOnce = true")
        page.wait_for_selector("text=Reconnecting")
        port = int(address.rpartition(":")[2])
        with serve(app, port):
            page.wait_for_selector(".live:not(.off):has-text('Running')")
            worker.add_results("rlive", [a_result(1, passed=True)])
            page.wait_for_selector("text=2 of 2 results so far")
        page.wait_for_selector("text=Reconnecting")
        # It ends while nobody serves it, and without another result.
        worker.update_run("rlive", status="completed", passed=2, score=100.0)
        with serve(app, port):
            page.wait_for_selector(".tile >> text=100.00")
            assert page.evaluate("window.loadedOnce")


@pytest.mark.proof
def test_a_session_that_ends_loses_nothing_that_was_typed(
    tmp_path: Path,
    browser: Browser,
) -> None:
    with closing(open_app(tmp_path / "tally.db", fill_beans)) as app:
        service = make_service(app)
        service.live._checking_s = 0.1
        with serve_service(service) as address, closing(browser.new_context()) as context:
            key = make_key(service, "organiser", owner="alice")
            page, board = context.new_page(), context.new_page()
            page.set_default_timeout(15_000)
            use_key(page, address, key)
            page.goto(f"{address}/organiser/challenges/bean-counter")
            page.wait_for_selector("#tip", state="attached")
            page.fill("#freeze-why", "the last hour")
            board.goto(f"{address}/challenges/bean-counter")
            board.wait_for_selector("[data-live='live']")
            service.accounts.sign_out_everywhere(
                Caller("default", "viewer", "alice", owner="alice")
            )
            board.wait_for_selector("[data-live='signed out'] >> text=Sign in")
            page.click("button:has-text('Freeze')")
            page.wait_for_selector("text=You are signed out.")
            assert app.store.challenges.find("bean-counter").held_at is None
            with context.expect_page() as opened:
                page.click("text=Sign in again")
            use_key(opened.value, address, key)
            page.bring_to_front()
            page.click("button:has-text('Freeze')")
            page.wait_for_selector("text=stands still")
            assert app.store.challenges.find("bean-counter").held_at is not None
            assert app.store.audit_log.entries()[0].note == {"reason": "the last hour"}


def fill_beans(store: Store) -> None:
    publish_beans(store)


def use_key(page: Page, address: str, key: str) -> None:
    page.goto(f"{address}/sign-in?next=/account")
    page.fill("[name=key]", key)
    page.click("main >> button")
    page.wait_for_selector("text=Sign out everywhere")


def test_cases_are_reviewed_by_keyboard(app: App, address: str, page: Page) -> None:
    page.goto(f"{address}/review?run=rnone")
    page.wait_for_selector("#tip", state="attached")
    first = page.text_content("h2 a")
    page.keyboard.press("m")
    page.keyboard.type("fp")  # what is typed is no verdict
    page.keyboard.press("Tab")
    page.keyboard.press("f")
    page.wait_for_selector(f"h2 a:not(:has-text('{first}'))")
    page.wait_for_selector("#tip", state="attached")
    page.keyboard.press("p")
    page.wait_for_selector("#agreement")
    found = {each.says: each.comment for each in app.store.reviews.all(run="rnone")}
    assert found["fail"] == "fp"
    page.wait_for_selector("#tip", state="attached")
    page.keyboard.press("k")
    page.wait_for_selector("text=(you)")
    for each in app.store.reviews.all(run="rnone"):
        app.store.reviews.withdraw(each.id, "owner", at=NOW)


def test_an_answer_that_cannot_be_sent_says_why_and_loses_nothing(
    tmp_path: Path, browser: Browser
) -> None:
    def fill(store: Store) -> None:
        publish_beans(store)
        store.attempts.enter("bean-counter", "bob", at=NOW - 30, seed=1)

    with closing(open_app(tmp_path / "tally.db", fill)) as app, serve(app) as address:
        context = browser.new_context()
        page = context.new_page()
        page.set_default_timeout(15_000)
        page.goto(f"{address}/attempts/a1/answer")
        # By the server's clock, which in the samples is another than the browser's.
        page.wait_for_function("/^16 min/.test(document.querySelector('.clock').textContent)")
        page.fill("#text", '{"total": 27')
        large = FilePayload(name="huge.json", mimeType="text/plain", buffer=b"1" * 1_000_001)
        page.set_input_files("#file", files=[large])
        page.click("text=Check only")
        page.wait_for_selector("#findings >> text=huge.json has 1,000,001 bytes")
        page.set_input_files("#file", files=[])
        page.click("text=Check only")
        page.wait_for_selector("#findings >> text=is not JSON")
        page.fill("#text", '{"total": 2727}')
        context.set_offline(True)
        page.click("button:has-text('Submit')")
        page.wait_for_selector("#findings >> text=could not be reached")
        context.set_offline(False)
        page.reload()
        kept = '{"total": 2727}'
        page.wait_for_function("kept => document.querySelector('#text').value === kept", arg=kept)
        page.click("button:has-text('Submit')")
        page.wait_for_url("**/attempts/a000000000001")
        assert app.store.attempts.get("a1").state == "scored"
        context.close()


@pytest.mark.proof
def test_a_trajectory_of_ten_thousand_steps_draws_only_what_is_seen(
    tmp_path: Path, page: Page
) -> None:
    def fill(store: Store) -> None:
        publish_beans(store)
        sent = store.attempts.enter("bean-counter", "bob", at=NOW - 30, seed=1)
        steps = json.dumps(a_trace(10_000).to_dict())
        store.attempts.submit(sent.id, "bob", Payload(submission={}, trajectory=steps), at=NOW - 9)

    with closing(open_app(tmp_path / "tally.db", fill)) as app, serve(app) as address:
        page.goto(f"{address}/attempts/a1")
        page.wait_for_selector(".fall-box")
        count = "document.querySelectorAll('#trace *').length"
        assert page.evaluate(count) < 500
        page.evaluate("document.querySelector('.fall-box').scrollTop = 28 * 9_990")
        page.wait_for_selector("td:has-text('step 9999')")
        assert page.evaluate(count) < 500
        page.goto("about:blank")  # it waits for a score, and would ask a server that is gone
