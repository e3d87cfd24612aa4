"""`Demo`: a temporary store with a past, and a field that plays on while it is served."""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Self

from tallymark.errors import WorkFailed
from tallymark.sandbox.policy import choose_policy
from tallymark.service.app import App
from tallymark.service.competition import Competition
from tallymark.service.demo.example_files import lay_out
from tallymark.service.demo.sample_field import SampleField, Table
from tallymark.service.demo.sample_reviews import review_past
from tallymark.service.demo.sample_runs import SampleRuns, make_agents, run_on, run_past
from tallymark.service.demo.sample_traffic import SampleTraffic
from tallymark.service.keys import Invitations, Keys
from tallymark.service.stop_signals import StopSignal

if TYPE_CHECKING:
    from tallymark.service.service import Service

COMPETITOR = "sample-nimble"
"""Accounts that a visitor may use."""
_TURN_S = (1.5, 3.5)
_SENT_EVERY_S = (3.0, 9.0)


class Demo:
    """A context manager that makes the files of the demo and removes everything at its end."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="tally-demo-"))
        self.db = str(self.folder / "example.db")
        self.no_sandbox = _find_missing()
        self._field = SampleField(self.folder / "challenges", has_sandbox=not self.no_sandbox)
        self._traffic = SampleTraffic()
        self._stop = StopSignal()
        self._stopped = threading.Event()
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends what goes on, and removes what was made."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def fill(self, now: float | None = None) -> None:
        """The past: challenges, attempts, runs and traces of some days."""
        now = time.time() if now is None else now
        lay_out(self.folder, now)
        with closing(App(self.db)) as app, ThreadPoolExecutor() as threads:
            app.store.prepare()
            # At once: the one waits for sandboxes, the others for the disk.
            others = [
                threads.submit(self._play_past, app, now),
                threads.submit(self._traffic.pass_by, app.store, now),
            ]
            run_past(self._open_runs(app), self.folder / "suites", now)
            review_past(app.store, now)
            for each in others:
                each.result()

    def _play_past(self, app: App, now: float) -> None:
        """By a clock and with seeds of its own."""
        table = Table()
        competition = Competition(app.store, clock=lambda: table.now, draw=lambda: table.seed)
        with closing(competition):
            self._field.play_past(competition, table, now)

    def make_competitor_key(self, service: Service) -> str:
        """A key of a sample agent, to see the pages as it does."""
        keys = Keys(service.tenant(service.app.tenant))
        return str(keys.add(COMPETITOR, "agent", agent=COMPETITOR, owner="demo").secret)

    def make_invitation(self, service: Service) -> str:
        """Key for the visitor's own agents."""
        return str(Invitations(service.tenant(service.app.tenant)).add(uses=100).code)

    def start(self, service: Service) -> None:
        """Lets the field play on, with the services that everybody's requests use."""
        self._stop, self._stopped = StopSignal(), threading.Event()
        for work in (self._play, self._run, self._send):
            thread = threading.Thread(target=work, args=(service,), name="tally-demo")
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        """Returns when nothing of it goes on."""
        self._stop.set("shutdown")
        self._stopped.set()
        for thread in self._threads:
            thread.join()
        self._threads.clear()

    def _play(self, service: Service) -> None:
        competition = service.tenant(service.app.tenant).competition
        while not self._stopped.wait(self._field.chance.uniform(*_TURN_S)):
            self._field.take_turn(competition)

    def _run(self, service: Service) -> None:
        run_on(self._open_runs(service.app), self.folder / "suites", self._stop)

    def _send(self, service: Service) -> None:
        intake = service.tenant(service.app.tenant).trace_intake
        while not self._stopped.wait(self._traffic.chance.uniform(*_SENT_EVERY_S)):
            self._traffic.send_some(intake)

    def _open_runs(self, app: App) -> SampleRuns:
        return SampleRuns(app, agents=make_agents(self.folder / "suites"))


def _find_missing() -> str:
    """Reason why foreign code cannot run here; empty if it can."""
    try:
        choose_policy()
    except WorkFailed as error:
        return str(error)
    return ""
