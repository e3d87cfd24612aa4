"""Every page at 1280 and 390 pixels, light and dark, of an example store: `make screenshots`.

The store is made by the examples; with `--store` another is shown. What is too wide for its window,
or breaks the policy, is told at the end.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from urllib.parse import quote

import uvicorn
from playwright.sync_api import Browser, ConsoleMessage, sync_playwright

from tallymark.app.app import App
from tallymark.app.service import Service, ServiceSettings
from tallymark.server import make_server, name_hosts

CHROMIUM = "/usr/bin/chromium"
ROOT = Path(__file__).parents[1]
SIZES = ((1280, 900), (390, 844))
SUITES = ("support-desk", "capitals", "comprehensive-scoring", "weighted-cost-eval")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--out", type=Path, default=ROOT / "screenshots")
    options.add_argument("--store", type=Path, help="a store that is there already")
    options.add_argument("--only", default="", help="only pages whose name has this")
    chosen = options.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        store = chosen.store or make_example_store(Path(folder) / "example.db")
        empty = Path(folder) / "empty.db"
        problems = []
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=CHROMIUM, args=["--no-sandbox", "--headless"]
            )
            for database, prefix in ((store, ""), (empty, "empty-")):
                with closing(App(str(database))) as app, serve(app) as address:
                    pages = list_pages(app) if not prefix else EMPTY
                    for name, path in pages.items():
                        if chosen.only in prefix + name:
                            target = chosen.out / f"{prefix}{name}"
                            problems += photograph(browser, f"{address}{path}", target)
            browser.close()
    for problem in problems:
        sys.stderr.write(f"{problem}\n")
    sys.exit(1 if problems else 0)


def make_example_store(path: Path) -> Path:
    """Runs of the example suites on sample answers, and the example challenges as played."""
    environment = {**os.environ, "TALLY_DB": str(path)}
    folder = Path(sys.executable).parent
    for suite in SUITES:
        for sample in ("hasty", "careful"):
            command = ["run", f"examples/suites/{suite}.yaml", "-m", f"replay/{sample}", "-q"]
            subprocess.run(
                [folder / "tally", *command], cwd=ROOT, env=environment, check=False,
                capture_output=True,
            )  # fmt: skip
    again = ["run", "examples/suites/support-desk.yaml", "-m", "replay/careful", "--epochs", "3"]
    for command in (again, [*again[:3], "replay/hasty"]):
        subprocess.run(
            [folder / "tally", *command, "-q"], cwd=ROOT, env=environment, check=False,
            capture_output=True,
        )  # fmt: skip
    play = [sys.executable, "examples/challenges/play.py"]
    subprocess.run(play, cwd=ROOT, env=environment, check=True, capture_output=True)
    return path


EMPTY = {"home": "/", "runs": "/runs", "challenges": "/challenges", "agents": "/agents",
         "ratings": "/ratings", "formula": "/formula"}  # fmt: skip


def list_pages(app: App) -> dict[str, str]:
    """Names and addresses of every page of a store made by the examples."""
    desk = app.store.runs(suite="support-desk", limit=10)
    best, worst = (
        next(each.id for each in desk if each.model.endswith(name)) for name in ("careful", "hasty")
    )
    failed = app.store.page_results(worst, status="failed", limit=1)
    case = quote(failed[0].case, safe="") if failed else ""
    runs = "&".join(f"run={each.id}" for each in desk[:4])
    formula = quote("success_pct * 0.8 - total_cost * 1000")
    return {
        "home": "/",
        "runs": "/runs",
        "runs-none": "/runs?q=nothing-like-this",
        "run": f"/runs/{worst}",
        "run-side": f"/runs/{worst}?view=side",
        "case": f"/runs/{worst}/cases/{case}",
        "compare": f"/compare?run={best}&run={worst}",
        "compare-four": f"/compare?{runs}",
        "formula": f"/formula?run={worst}&formula={formula}",
        "formula-wrong": f"/formula?run={worst}&formula={quote('succes_pct * (2')}",
        "challenges": "/challenges",
        "challenge": "/challenges/log-detective?around=sample-bold",
        "challenge-formula": "/challenges/advanced-prompt-challenge",
        "wall": "/challenges/log-detective?tv=1",
        "versus": "/challenges/red-blue-guard",
        "attempt": "/attempts/a2",
        "attempt-formula": "/attempts/a11",
        "agents": "/agents",
        "agent": "/agents/sample-careful",
        "ratings": "/ratings",
        "search": "/search?q=sample",
        "keys": "/keys",
        "not-found": "/runs/nothing",
        "review": "/review",
        "formula-board": f"/formula?challenge=log-detective&formula={quote('total - elapsed_s')}",
    }


@contextmanager
def serve(app: App) -> Iterator[str]:
    """The pages on a port that is free."""
    import socket  # noqa: PLC0415

    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    service = Service(ServiceSettings(db=app.db, own=True, workers=0))
    site = make_server(service, hosts=name_hosts(port))
    server = uvicorn.Server(uvicorn.Config(site, log_level="error"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield f"http://localhost:{port}"
    finally:
        server.should_exit = True
        thread.join()


def photograph(browser: Browser, address: str, target: Path) -> list[str]:
    """One page in both sizes and themes; what is wrong with it, in sentences."""
    problems = []
    for width, height in SIZES:
        for theme in ("light", "dark"):
            context = browser.new_context(
                viewport={"width": width, "height": height},
                color_scheme="dark" if theme == "dark" else "light",
                reduced_motion="reduce",
            )
            page = context.new_page()
            told: list[ConsoleMessage] = []
            page.on("console", partial(_keep, told))
            page.goto(address, wait_until="networkidle")
            wide = page.evaluate("document.documentElement.scrollWidth")
            if wide > width:
                problems.append(f"{target.name}: {wide} px wide in {width}")
            problems += [
                f"{target.name}: {each.text}"
                for each in told
                if each.type == "error" and "404" not in each.text
            ]
            page.screenshot(path=f"{target}-{width}-{theme}.png", full_page=True)
            context.close()
    return problems


def _keep(told: list[ConsoleMessage], message: ConsoleMessage) -> None:
    told.append(message)


if __name__ == "__main__":
    main()
