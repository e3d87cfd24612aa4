"""Pages in Chromium: how soon they are painted at size, what they weigh, who sees what, by how few
links, and what axe finds.

    python -m scripts.prove_pages [PART OF A NAME ...]
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, Response, sync_playwright
from scripts.screenshots import (
    CHROMIUM,
    SHOTS,
    Role,
    find_places,
    look,
    open_page,
    open_servers,
    serve,
    sign_in,
)

from tallymark.challenges.attempt import Attempt, Metrics, Outcome
from tallymark.challenges.challenge import Challenge, DimensionWeight, Evaluator, ScoringRule
from tallymark.runs.record import CaseResult, CheckResult, RunRecord
from tallymark.runs.run import outcome
from tallymark.runs.tally import Tally
from tallymark.service.app import App
from tallymark.service.demo import Demo
from tallymark.service.settings import ServiceSettings

ATTEMPTS = int(os.environ.get("PROVE_ATTEMPTS", "1000000"))
CASES = int(os.environ.get("PROVE_CASES", "100000"))
AGENTS = 100_000
LOOKS = 9
LATER_MS = 200
HEAVIEST = 60_000
BLANK = "/nothing?part=blank"
"""A sentence of the same server, without style and script."""
FIRST_PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"


# First paint


def make_attempts() -> Iterator[Attempt]:
    """Attempts of agents drawn at random, with dimensions as boards show them."""
    dice = random.Random(7)
    for number in range(ATTEMPTS):
        at = time.time() - ATTEMPTS + number
        right, quick = float(dice.randrange(1001)), float(dice.randrange(1001))
        score = float(int(0.6 * right + 0.4 * quick))
        yield Attempt(
            id="",
            challenge="crowd",
            version="1",
            agent=f"agent-{dice.randrange(AGENTS):06}",
            number=0,
            state="scored",
            seed=number,
            entered_at=at - 60,
            expires_at=at + 3540,
            submitted_at=at,
            outcome=Outcome(
                score=score,
                ranks=True,
                result="win" if score >= 700 else "draw" if score >= 400 else "loss",
                metrics=Metrics(succeeded=True, tokens_total=dice.randrange(9_000)),
                dimensions={"correctness": right, "speed": quick},
            ),
        )


CROWD = Challenge(
    name="crowd",
    title="A crowd",
    goal="Be one of a million.",
    version="1",
    visibility="public",
    evaluator=Evaluator(type="reported"),
    scoring=ScoringRule(
        dimensions=(
            DimensionWeight(key="correctness", weight=0.6),
            DimensionWeight(key="speed", weight=0.4),
        )
    ),
)


def make_results() -> Iterator[CaseResult]:
    """Cases of a long run, of which a tenth failed."""
    dice = random.Random(11)
    for number in range(CASES):
        passed = dice.random() < 0.9
        check = CheckResult(kind="match", passed=passed, reason="" if passed else "another number")
        yield CaseResult(
            case=f"sums[{number}]",
            status="passed" if passed else "failed",
            input=f"What is {number} and {number}? Answer with a number, and with nothing else.",
            output=str(2 * number if passed else number),
            checks=(check,),
            latency=dice.uniform(0.2, 3.0),
            cost=0.0001,
            input_tokens=20,
            output_tokens=3,
        )


def fill_large(db: str) -> None:
    """A board and a run at the sizes that are promised."""
    with closing(App(db)) as app:
        store = app.store
        store.prepare()
        store.challenges.publish(CROWD, b"", at=time.time() - 2 * ATTEMPTS)
        store.attempts.load("crowd", make_attempts(), at=time.time(), rated=False)
        results = list(make_results())
        tally = Tally(results)
        now = time.time()
        record = RunRecord(
            id="rlarge",
            suite="sums",
            model="sample/long",
            status="completed",
            created_at=now,
            started_at=now,
            finished_at=now + 60,
            total=len(results),
            **outcome(tally.formula("success_pct - 10 * total_cost"), tally),
        )
        store.create_run(record)
        with store.open_writer(record.id) as writer:
            for each in results:
                writer.put(each)


def prove_paint(browser: Browser, folder: Path) -> str:
    """A board with a million attempts, a run with 100,000 cases, against a blank page."""
    db = os.environ.get("PROVE_LARGE") or str(folder / "large.db")
    if not Path(db).exists():
        fill_large(db)
    pages = {"board": "/challenges/crowd", "run": "/runs/rlarge", "home": "/"}
    took: dict[str, list[float]] = {name: [] for name in ("blank", *pages)}
    with serve(ServiceSettings(db=db, own=True, workers=0)) as served:
        for nth in range(LOOKS + 1):
            for name, path in {"blank": BLANK, **pages}.items():
                found = measure_paint(browser, served.address + path)
                if nth:  # the first made the server read its templates and its columns
                    took[name].append(found)
    medians = {name: statistics.median(found) for name, found in took.items()}
    told = [f"blank {medians['blank']:.0f} ms"]
    for name in pages:
        later = medians[name] - medians["blank"]
        told.append(f"{name} {later:+.0f} ms")
        if name != "home":
            words = (
                f"{name} is painted {later:.0f} ms after a blank page ({medians['blank']:.0f} ms)"
            )
            _require(later <= LATER_MS, words)
    return f"{ATTEMPTS:,} attempts, {CASES:,} cases: {', '.join(told)}, at most +{LATER_MS}"


def measure_paint(browser: Browser, address: str) -> float:
    """Milliseconds to the first contentful paint, with nothing cached."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.goto(address)
    while (found := page.evaluate(FIRST_PAINT)) is None:
        page.wait_for_timeout(20)
    context.close()
    return float(found)


# What pages weigh, and what axe says


def prove_weight(browser: Browser, folder: Path) -> str:  # noqa: ARG001
    """No page asks for more than 60 KB of our own style and script, as it is sent."""
    heaviest, name = 0, ""
    with open_servers() as servers:
        places = find_places(servers["guest"].service.app.store)
        for shot in SHOTS:
            served = servers[shot.role]
            with open_page(browser, served) as page:
                sizes: list[int] = []
                page.on("response", partial(_weigh, sizes))
                list(look(page, served.address + shot.address.format(**places), shot))
                page.wait_for_load_state("load")
            if sum(sizes) > heaviest:
                heaviest, name = sum(sizes), shot.name
    _require(heaviest <= HEAVIEST, f"{name} has {heaviest:,} bytes of style and script")
    return f"{len(SHOTS)} pages, the heaviest ({name}) with {heaviest:,} bytes, of {HEAVIEST:,}"


def _weigh(sizes: list[int], answer: Response) -> None:
    if "/static/" in answer.url and answer.url.endswith((".css", ".js")):
        sizes.append(int(answer.headers.get("content-length", 0)))


def prove_axe(browser: Browser, folder: Path) -> str:  # noqa: ARG001
    """Nothing serious on any page, in either theme."""
    faults: list[str] = []
    with open_servers() as servers:
        places = find_places(servers["guest"].service.app.store)
        for shot in SHOTS:
            served = servers[shot.role]
            for theme in ("light", "dark"):
                with open_page(browser, served, theme=theme) as page:
                    list(look(page, served.address + shot.address.format(**places), shot))
                    faults += [f"{shot.name} ({theme}): {each}" for each in list_faults(page)]
    _require(not faults, *faults)
    return f"{len(SHOTS)} pages in two themes, nothing serious"


def list_faults(page: Page) -> list[str]:
    """What axe calls serious, with where."""
    found: list[dict[str, Any]] = Axe().run(page).response["violations"]
    return [
        f"{each['id']}: {each['nodes'][0]['html'][:120]}"
        for each in found
        if each["impact"] in ("serious", "critical")
    ]


# Who sees what

TEAM = ("viewer", "reporter", "organiser", "admin")
ORGANISERS = ("organiser", "admin")
ROLES = ("anonymous", "agent", *TEAM)
MAIN: dict[str, tuple[str, tuple[str, ...]]] = {
    "home": ("/", ROLES),
    "run": ("/runs/{run}", TEAM),
    "compare": ("/compare?run={before}&run={run}", TEAM),
    "board": ("/challenges/bean-counter", ROLES),
    "attempt": ("/attempts/{attempt}", ROLES),
    "organiser": ("/organiser", ORGANISERS),
}
"""The main pages, and who may see them; all others are told why not."""


def prove_roles(browser: Browser, folder: Path) -> str:  # noqa: ARG001
    """The six main pages in every role and signed out."""
    looked, wrong = 0, list[str]()
    with Demo() as demo:
        demo.fill()
        with serve(ServiceSettings(db=demo.db, workers=0)) as served:
            places = find_places(served.service.app.store)
            for role in ROLES:
                agent = "sample-nimble" if role == "agent" else None
                session = None if role == "anonymous" else sign_in(served.service, role, agent)
                for name, (address, may) in MAIN.items():
                    right = 200 if role in may else 401 if role == "anonymous" else 403
                    with open_page(browser, served._replace(session=session)) as page:
                        found = page.goto(served.address + address.format(**places))
                        told = page.inner_text("h1")
                    looked += 1
                    if found is None or found.status != right or not told:
                        wrong.append(f"{name} as {role}: {found and found.status}, not {right}")
    _require(not wrong, *wrong)
    return f"{len(MAIN)} pages, {len(ROLES)} kinds of visitors: {looked} looks"


# Within three links


def prove_links(browser: Browser, folder: Path) -> str:  # noqa: ARG001
    """What people ask, clicked from the first page."""
    told = []
    with open_servers() as servers:
        for question, role, links, answer in QUESTIONS:
            with open_page(browser, servers[role]) as page:
                page.goto(servers[role].address)
                for link in links:
                    page.locator(link).first.click()
                    page.wait_for_load_state("load")
                page.wait_for_selector(answer)
            _require(len(links) <= 3, f"{question} takes {len(links)} links")
            told.append(f"{question} ({len(links)})")
    return ", ".join(told)


QUESTIONS: tuple[tuple[str, Role, tuple[str, ...], str], ...] = (
    ("why a run lost points", "guest", ("text=Why it lost points",), "text=Where points were lost"),
    (
        "what a formula would do to a board",
        "guest",
        ("h2 >> text=The bean counter", "main >> text=What if?"),
        "text=What if:",
    ),
    (
        "who may see a challenge",
        "guest",
        ("h2 >> text=The bean counter",),
        "text=anybody may read this page",
    ),
    (
        "what made a score on a board",
        "guest",
        ("h2 >> text=The bean counter", "a.board-score"),
        "tr.sum >> text=Total",
    ),
    ("what made an Elo", "guest", ("nav >> text=Ratings", "a[href$='#elo']"), "text=It began at"),
    (
        "what made a fitted rating",
        "guest",
        ("nav >> text=Ratings", "a[href$='#fit']"),
        "text=is the pull towards 1000",
    ),
    (
        "what made a floor",
        "guest",
        ("nav >> text=Ratings", "a[href$='#floor']"),
        "text=as far above what is expected as luck goes",
    ),
)
"""What is asked, by whom, what is clicked, and what then answers it."""


def _require(holds: bool, *facts: str) -> None:
    if not holds:
        raise AssertionError("; ".join(facts))


PROOFS: dict[str, Callable[[Browser, Path], str]] = {
    "first paint": prove_paint,
    "weight": prove_weight,
    "roles": prove_roles,
    "three links": prove_links,
    "axe": prove_axe,
}


def judge_pages(names: list[str] | None = None) -> tuple[bool, str]:
    """Whether all of it holds, and a table of what was found."""
    holds, table = True, "| what | found | seconds |\n|---|---|---|\n"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--headless"]
        )
        for name, prove in PROOFS.items():
            if names and not any(each in name for each in names):
                continue
            began = time.monotonic()
            with tempfile.TemporaryDirectory(prefix="tally-proof-") as folder:
                try:
                    found = prove(browser, Path(folder))
                except (AssertionError, RuntimeError, OSError) as error:
                    holds, found = False, f"DOES NOT HOLD: {error}"
            table += f"| {name} | {found} | {time.monotonic() - began:.0f} |\n"
            sys.stdout.write(f"{name}: {found}\n")
            sys.stdout.flush()
        browser.close()
    return holds, table


def main() -> int:
    """Tells what was found; 1 when something does not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="parts of the names of proofs; all without any")
    holds, _ = judge_pages(parser.parse_args().names)
    return int(not holds)


if __name__ == "__main__":
    sys.exit(main())
