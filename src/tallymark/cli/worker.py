"""`tally worker`: does the jobs of a server, on this machine or any other that has the database."""

from __future__ import annotations

import os
import signal
import threading
from typing import TYPE_CHECKING, Annotated

import typer

from tallymark.cli.app_session import Db, LogFormat, tell_store
from tallymark.text import format_count, say

if TYPE_CHECKING:
    from types import FrameType


def worker(
    db: Db = None,
    count: Annotated[
        int,
        typer.Option("--count", min=1, max=1000, help="Scorings, and as many long jobs, at once."),
    ] = 2,
    kinds: Annotated[
        list[str] | None,
        typer.Option("--kind", metavar="KIND", help="Only jobs of this kind; may be repeated."),
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="End when there is nothing left to do.")
    ] = False,
    log_format: LogFormat = None,
) -> None:
    """Do jobs: score what was submitted, run suites, rescore. More of them may run anywhere.

    Ctrl-C or SIGTERM ends it within 10 seconds: what runs ends, or goes back to the queue.
    """
    from contextlib import ExitStack, closing

    from tallymark.service.app import App
    from tallymark.service.own_traces import start_tracing
    from tallymark.service.server_logs import set_up_logs
    from tallymark.service.workers import KINDS, Workers

    set_up_logs(log_format, os.environ)
    told = threading.Event()

    def stop(_: int, __: FrameType | None) -> None:
        told.set()
        # Whoever is in a hurry says it twice.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)

    tell_store(db)
    with closing(App(db)) as app, ExitStack() as left:
        left.callback(start_tracing(os.environ))
        workers = Workers(app, count, kinds or tuple(KINDS))
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, stop)
        say(f"{format_count(count, 'worker')} for {app.database}; Ctrl-C ends them", err=True)
        with workers:
            if once:
                workers.wait_until_idle(told)
            else:
                told.wait()
            app.end_soon()
            say("ending: what does not end soon goes back to the queue", err=True)
