"""Screenshots of every page at five widths, light and dark: `make screenshots`.

A page is a line of `SHOTS`: its name, its address and who looks. They look at the store of `tally
serve --demo`, while it plays on. What breaks the layout or the policy or does not answer is told
at the end. With `--docs` only the pictures of README and docs are made again.
"""

from __future__ import annotations

import argparse
import shutil
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import quote

import uvicorn
from playwright.sync_api import Browser, ConsoleMessage, Page, sync_playwright
from scripts.edge_case_store import LONG, TRACE, fill_edges

from tallymark.server import make_server, name_hosts
from tallymark.service.app import App
from tallymark.service.callers import SESSION_COOKIE
from tallymark.service.demo import Demo
from tallymark.service.demo.demo import COMPETITOR
from tallymark.service.demo.sample_field import BEANS
from tallymark.service.keys import Keys
from tallymark.service.service import Service
from tallymark.service.settings import ServiceSettings
from tallymark.store import Store
from tallymark.traces.trace_query import parse_query

CHROMIUM = "/usr/bin/chromium"
ROOT = Path(__file__).parents[1]
SIZES = ((1280, 900), (390, 844), (768, 1024), (1366, 768), (1920, 1080))
PICTURE = (1040, 720)
PICTURES = {"home": "home", "run": "run", "board": "challenge", "traces": "traces-compare"}
"""The pictures of the docs, by the page that each shows."""
Role = Literal["guest", "organiser", "competitor", "stranger", "frozen", "new", "edge"]
"""Who looks: anybody at the demo, two with keys for it, a stranger where it is no demo,
or where a board is frozen, the owner of an empty store, and of one at its edges."""
Act = Literal["", "loading", "offline", "keyboard", "print"]
"""What is done to a page: parts do not come, the server is away, Tab is pressed, it is printed."""


# Run in a page, it returns a sentence for each fault of the layout.
_FIND_LAYOUT_FAULTS = """() => {
  const faults = [], shown = (it) => it.checkVisibility({ visibilityProperty: true });
  const say = (it) => `<${it.tagName.toLowerCase()} class="${it.getAttribute("class") ?? ""}">`;
  const wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  if (wide > 0) faults.push(`the page is ${wide} px too wide`);
  for (const card of document.querySelectorAll(".card, .tile, .podium li, .suites > li, .notice")) {
    const frame = card.getBoundingClientRect();
    for (const part of card.querySelectorAll("*")) {
      const box = part.getBoundingClientRect();
      const out = Math.max(box.right - frame.right, frame.left - box.left);
      if (out <= 1 || !box.width || !shown(part)) continue;
      // What scrolls or is clipped inside the card is not seen outside of it.
      let holder = part;
      while (holder !== card && getComputedStyle(holder).overflowX === "visible"
             && !holder.matches(".spoken, svg *")) holder = holder.parentElement;
      if (holder === card) {
        faults.push(`${say(part)} is ${Math.round(out)} px outside of its ${say(card)}`);
        break;
      }
    }
  }
  for (const name of document.querySelectorAll(".who span"))
    if (name.scrollWidth > name.clientWidth) faults.push(`the name ${name.textContent} is cut`);
  // A focus ring is drawn around the boxes of an element: around an empty one it cannot be seen.
  for (const link of document.querySelectorAll("a[href], button, summary, [tabindex='0']"))
    if (shown(link) && [...link.getClientRects()].some((box) => !box.width || !box.height))
      faults.push(`the focus of ${say(link)} (${link.textContent.trim().slice(0, 30)}) is unseen`);
  return faults;
}"""
_EXPECTED = ("the server responded with a status", "ERR_INTERNET_DISCONNECTED")


class Shot(NamedTuple):
    """A page to look at; `{names}` in its address are those of `find_places`."""

    name: str
    address: str
    role: Role = "guest"
    status: int = 200
    act: Act = ""


FORMULA = quote("success_pct * 0.8 - total_cost * 1000")
TOTAL = quote("total - elapsed_s / 2")
WRONG = quote("succes_pct * (2")
MOVES = "?by=weights&w-correctness=0.1&w-speed=0.6&w-methodology=0.15&w-completeness=0.15"
SHOTS = (
    Shot("home", "/"),
    Shot("home-organiser", "/", "organiser"),
    Shot("home-competitor", "/", "competitor"),
    Shot("home-stranger", "/", "stranger"),
    Shot("runs", "/runs"),
    Shot("runs-none", "/runs?q=nothing-like-this"),
    Shot("run", "/runs/{run}"),
    Shot("run-side", "/runs/{run}?view=side"),
    Shot("run-running", "/runs/{running}"),
    Shot("case", "/runs/{run}/cases/{case}"),
    Shot("compare", "/compare?run={before}&run={run}"),
    Shot("compare-four", "/compare?{four}"),
    Shot("formula", f"/formula?run={{run}}&formula={FORMULA}"),
    Shot("formula-wrong", f"/formula?run={{run}}&formula={WRONG}"),
    Shot("formula-board", f"/formula?challenge=bean-counter&formula={TOTAL}"),
    Shot("review", "/review"),
    Shot("challenges", "/challenges"),
    Shot("what-if", f"/challenges/bean-counter?formula={TOTAL}"),
    Shot("challenge", "/challenges/bean-counter?around=sample-bold"),
    Shot("challenge-competitor", "/challenges/bean-counter", "competitor"),
    Shot("challenge-formula", "/challenges/fewest-words"),
    Shot("challenge-frozen", "/challenges/bean-counter", "frozen"),
    Shot("wall", "/challenges/bean-counter?tv=1"),
    Shot("versus", "/challenges/red-blue-guard"),
    Shot("versus-organiser", "/challenges/red-blue-guard", "organiser"),
    Shot("versus-submission", "/challenges/red-blue-guard/submissions/1", "organiser"),
    Shot("attempt", "/attempts/{attempt}"),
    Shot("attempt-mine", "/attempts/{mine}", "competitor"),
    Shot("attempt-formula", "/attempts/{words}"),
    Shot("attempt-tried", f"/attempts/{{attempt}}?formula={TOTAL}#by-rule"),
    Shot("agents", "/agents"),
    Shot("agent", "/agents/sample-careful"),
    Shot("agent-fit", "/agents/sample-careful#fit"),
    Shot("agent-elo", "/agents/sample-careful#elo"),
    Shot("ratings", "/ratings"),
    Shot("ratings-stranger", "/ratings", "stranger"),
    Shot("search", "/search?q=sample"),
    Shot("keys", "/keys"),
    Shot("docs", "/docs", "stranger"),
    Shot("docs-page", "/docs/formulas", "stranger"),
    Shot("docs-pictures", "/docs/readme", "stranger"),
    Shot("docs-commands", "/docs/cli", "stranger"),
    Shot("docs-decisions", "/docs/decisions", "stranger"),
    Shot("docs-search", "/docs/search?q=interval", "stranger"),
    Shot("docs-search-none", "/docs/search?q=zzzz", "stranger"),
    Shot("docs-missing", "/docs/nothing", "stranger", 404),
    Shot("docs-print", "/docs/formulas", "stranger", act="print"),
    Shot("account", "/account", "competitor"),
    Shot("sign-in", "/sign-in", "stranger"),
    Shot("not-found", "/runs/nothing", status=404),
    Shot("forbidden", "/runs", "competitor", 403),
    Shot("signed-out", "/runs", "stranger", 401),
    Shot("what-if-weights", "/challenges/bean-counter?weights=correctness:20,speed:80"),
    Shot("what-if-wrong", f"/challenges/bean-counter?formula={quote('correctness + sped')}"),
    Shot("enter", "/challenges/bean-counter/enter", "competitor"),
    Shot("agent-against", "/agents/sample-careful?against=sample-bold"),
    Shot("organiser", "/organiser", "organiser"),
    Shot("organiser-new", "/organiser/challenges", "organiser"),
    Shot("organiser-starter", "/organiser/challenges?starter=script", "organiser"),
    Shot("organiser-challenge", "/organiser/challenges/bean-counter", "organiser"),
    Shot("organiser-files", "/organiser/challenges/bean-counter/files", "organiser"),
    Shot("organiser-rescore", "/organiser/challenges/bean-counter/rescore", "organiser"),
    Shot("organiser-attempt", "/organiser/attempts/{attempt}", "organiser"),
    Shot("organiser-agent", "/organiser/agents/sample-careful", "organiser"),
    Shot("organiser-keys", "/organiser/keys", "organiser"),
    Shot("organiser-audit", "/organiser/audit", "organiser"),
    Shot(
        "organiser-rescore-moves", f"/organiser/challenges/bean-counter/rescore{MOVES}", "organiser"
    ),
    Shot("review-organiser", "/review", "organiser"),
    Shot("case-judged", "/runs/{judged}/cases/where-is-it", "organiser"),
    Shot("traces", "/traces"),
    Shot("traces-errors", "/traces?q=status:error&by=service&measure=error"),
    Shot("traces-wrong", "/traces?q=staus:error"),
    Shot("trace", "/traces/{trace}"),
    Shot("trace-report", "/traces/{report}", "organiser"),
    Shot("trace-session", "/traces/sessions/{session}"),
    Shot("traces-compare", "/traces/compare?first=version:2.3.0&second=version:2.4.0"),
    Shot("rules", "/rules"),
    Shot("rules-organiser", "/rules", "organiser"),
    Shot("rule", "/rules/steps-went-well"),
    Shot("rule-organiser", "/rules/polite", "organiser"),
    Shot("loading", "/challenges/fewest-words", act="loading"),
    Shot("offline", "/challenges/bean-counter", act="offline"),
    Shot("offline-run", "/runs/{running}", act="offline"),
    Shot("keyboard", "/challenges/bean-counter", act="keyboard"),
    Shot("print", "/runs/{run}", act="print"),
    Shot("print-board", "/challenges/bean-counter", act="print"),
    Shot("wall-frozen", "/challenges/bean-counter?tv=1", "frozen"),
    Shot("edge-challenges", "/challenges", "edge"),
    Shot("edge-crowd", "/challenges/crowd?limit=200", "edge"),
    Shot("edge-crowd-wall", "/challenges/crowd?tv=1", "edge"),
    Shot("edge-alone", "/challenges/alone", "edge"),
    Shot("edge-nobody", "/challenges/nobody", "edge"),
    Shot("edge-soon", "/challenges/soon", "edge"),
    Shot("edge-over", "/challenges/over", "edge"),
    Shot("edge-missed", "/challenges/missed", "edge"),
    Shot("edge-nobody-wall", "/challenges/nobody?tv=1", "edge"),
    Shot("edge-versus", "/challenges/siege", "edge"),
    Shot("edge-agents", "/agents", "edge"),
    Shot("edge-agent", "/agents/{long}", "edge"),
    Shot("edge-runs", "/runs", "edge"),
    Shot("edge-run-errors", "/runs/rnerrors", "edge"),
    Shot("edge-run-one", "/runs/rnone", "edge"),
    Shot("edge-run-many", "/runs/rnmany", "edge"),
    Shot("edge-run-long", "/runs/rnlong", "edge"),
    Shot("edge-trace", f"/traces/{TRACE}", "edge"),
    Shot("empty-review", "/review", "new"),
    Shot("empty-rules", "/rules", "new"),
    Shot("empty-organiser", "/organiser", "new"),
    Shot("empty-search", "/search?q=nothing-like-this", "new"),
    Shot("empty-traces", "/traces", "new"),
    Shot("empty-home", "/", "new"),
    Shot("empty-runs", "/runs", "new"),
    Shot("empty-challenges", "/challenges", "new"),
    Shot("empty-agents", "/agents", "new"),
    Shot("empty-ratings", "/ratings", "new"),
    Shot("empty-formula", "/formula", "new"),
)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--out", type=Path, default=ROOT / "screenshots")
    options.add_argument(
        "--only", nargs="+", default=[""], help="only pages whose names have these"
    )
    options.add_argument(
        "--docs", action="store_true", help="the pictures of the docs, and no more"
    )
    chosen = options.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    problems = []
    with open_servers() as servers, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--headless"]
        )
        places = find_places(servers["guest"].service.app.store)
        if chosen.docs:
            take_pictures(browser, servers, places)
        for shot in SHOTS if not chosen.docs else ():
            if any(each in shot.name for each in chosen.only):
                problems += photograph(browser, servers[shot.role], shot, places, chosen.out)
        browser.close()
    for problem in problems:
        sys.stderr.write(f"{problem}\n")
    sys.exit(1 if problems else 0)


def take_pictures(
    browser: Browser, servers: Mapping[Role, Served], places: Mapping[str, str]
) -> None:
    """What README and docs show, as it is when a page is opened."""
    shots = {each.name: each for each in SHOTS}
    for picture, name in PICTURES.items():
        shot = shots[name]
        served = servers[shot.role]
        with open_page(browser, served, PICTURE) as page:
            list(look(page, served.address + shot.address.format(**places), shot))
            page.screenshot(path=ROOT / "docs" / f"{picture}.png")


class Served(NamedTuple):
    """A server as one kind of visitor knows it."""

    address: str
    service: Service
    session: str | None = None


@contextmanager
def open_servers() -> Iterator[dict[Role, Served]]:
    """The demo as it lives, the same store without being a demo, and an empty one."""
    with ExitStack() as left:
        demo = left.enter_context(Demo())
        demo.fill()
        empty = Path(left.enter_context(tempfile.TemporaryDirectory())) / "empty.db"
        frozen = demo.folder / "frozen.db"
        shutil.copy(demo.db, frozen)
        lively = left.enter_context(serve(ServiceSettings(db=demo.db, demo=demo, workers=1)))
        closed = left.enter_context(serve(ServiceSettings(db=demo.db, workers=0)))
        still = left.enter_context(serve(ServiceSettings(db=str(frozen), workers=0)))
        still.service.app.store.challenges.freeze(
            BEANS, at=time.time() - 600, reason="the last hour"
        )
        new = left.enter_context(serve(ServiceSettings(db=str(empty), own=True, workers=0)))
        sessions: dict[Role, str] = {
            "organiser": sign_in(lively.service, "organiser"),
            "competitor": sign_in(lively.service, "agent", COMPETITOR),
        }
        signed: dict[Role, Served] = {
            role: lively._replace(session=session) for role, session in sessions.items()
        }
        wait_for_run(lively.service.app.store)
        edges = Path(left.enter_context(tempfile.TemporaryDirectory())) / "edges.db"
        with closing(App(str(edges))) as app:
            fill_edges(app)
        edge = left.enter_context(serve(ServiceSettings(db=str(edges), own=True, workers=0)))
        others: dict[Role, Served] = {"stranger": closed, "frozen": still, "new": new}
        yield {"guest": lively, "edge": edge, **others, **signed}


def sign_in(service: Service, role: str, agent: str | None = None) -> str:
    """The token of a new session."""
    named: Any = {"role": role, "owner": agent or "robin", "agent": agent}
    made = Keys(service.tenant("default")).add("screenshots", **named)
    return service.accounts.sign_in(str(made.secret)).token or ""


def wait_for_run(store: Store) -> None:
    """Until the run that goes on has something to show."""
    while not any(each.passed for each in store.runs(status="running")):
        time.sleep(0.1)


def find_places(store: Store) -> dict[str, str]:
    """What addresses of the demo name."""
    swift = store.runs(suite="support-desk", model="sample/swift", status="completed", limit=2)
    worst, before = swift
    failed = store.page_results(worst.id, status="failed", limit=1)[0]
    desk = store.runs(suite="support-desk", status="completed", limit=4)
    boards = store.boards
    failed_trace = store.traces.page(parse_query("service:shop-desk status:error", now=0), limit=1)
    reports = store.traces.page(parse_query("service:report-writer", now=0), limit=9).items
    (trace,) = failed_trace.items
    return {
        "judged": store.runs(suite="desk-tone", limit=1)[0].id,
        "trace": trace.id,
        "report": max(reports, key=lambda each: each.spans).id,
        "session": quote(trace.session or "", safe=""),
        "long": LONG,
        "run": worst.id,
        "before": before.id,
        "running": next((each.id for each in store.runs(status="running")), ""),
        "case": quote(failed.case, safe=""),
        "four": "&".join(f"run={each.id}" for each in desk),
        "attempt": str(boards.top("bean-counter", limit=2)[1].attempt),
        "words": str(boards.top("fewest-words", limit=3)[2].attempt),
        "mine": store.contest_stats.attempts_of(COMPETITOR, limit=1)[0].id,
    }


@contextmanager
def serve(settings: ServiceSettings) -> Iterator[Served]:
    """A server on a port that is free."""
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    service = Service(settings)
    site = make_server(service, hosts=name_hosts(port) if settings.own else None)
    server = uvicorn.Server(
        uvicorn.Config(site, log_level="error", ws="none", timeout_graceful_shutdown=2)
    )
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield Served(f"http://localhost:{port}", service)
    finally:
        service.live.end()
        server.should_exit = True
        thread.join()


def photograph(
    browser: Browser, served: Served, shot: Shot, places: Mapping[str, str], out: Path
) -> list[str]:
    """One page in all sizes and themes; what is wrong with it, in sentences."""
    problems = []
    address = served.address + shot.address.format(**places)
    for size in SIZES:
        for theme in ("light", "dark"):
            with open_page(browser, served, size, theme) as page:
                told: list[str] = []
                page.on("console", partial(_keep, told))
                told += look(page, address, shot)
                told += list_layout_faults(page)
                do_act(page, shot.act)
                problems += [f"{shot.name} at {size[0]}: {each}" for each in told]
                page.screenshot(path=out / f"{shot.name}-{size[0]}-{theme}.png", full_page=True)
                page.unroute_all(behavior="ignoreErrors")
    return problems


@contextmanager
def open_page(
    browser: Browser, served: Served, size: tuple[int, int] = SIZES[0], theme: str = "light"
) -> Iterator[Page]:
    """A new window of whoever looks."""
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]},
        color_scheme="dark" if theme == "dark" else "light",
        reduced_motion="reduce",
    )
    if served.session:
        cookie = {"name": SESSION_COOKIE, "value": served.session, "url": served.address}
        context.add_cookies([cookie])  # type: ignore[list-item]
    try:
        yield context.new_page()
    finally:
        context.close()


def look(page: Page, address: str, shot: Shot) -> Iterator[str]:
    """Opens a page, waits for its parts, and says what is wrong with it."""
    if shot.act == "loading":
        page.route("**/*part=*", lambda _: None)
    answer = page.goto(address)
    if answer is None or answer.status != shot.status:
        yield f"{answer and answer.status} instead of {shot.status} at {address}"
    if shot.act != "loading":
        page.wait_for_selector("[aria-busy=true]", state="detached", timeout=15_000)
    page.wait_for_selector("#tip", state="attached")


def list_layout_faults(page: Page) -> list[str]:
    """What is too wide, leaves its card, is cut, or shows no keyboard focus, in sentences."""
    found: list[str] = page.evaluate(_FIND_LAYOUT_FAULTS)
    return found


def do_act(page: Page, act: Act) -> None:
    """What a shot wants to be done before it is taken."""
    if act == "offline":
        page.context.set_offline(True)
        page.wait_for_timeout(1500)
    elif act == "keyboard":
        for _ in range(12):
            page.keyboard.press("Tab")
    elif act == "print":
        page.emulate_media(media="print")


def _keep(told: list[str], message: ConsoleMessage) -> None:
    """What a browser complains of; that a page is refused is what some are here for."""
    if message.type == "error" and not any(each in message.text for each in _EXPECTED):
        told.append(message.text)


if __name__ == "__main__":
    main()
