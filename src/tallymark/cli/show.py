"""`tally show`: one run, with its cases and its score explained."""

from __future__ import annotations

from typing import Annotated

import typer

from tallymark.cli.app_session import Db, Server, open_desk
from tallymark.cli.progress import show_progress
from tallymark.cli.report_files import ReportPaths, check_reports, print_runs, write_reports
from tallymark.cli.run_ending import Quiet
from tallymark.text import say


def show(  # noqa: PLR0913, PLR0917 (the options of a command)
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="An id, its beginning, latest or latest~1.")
    ],
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=0, help="Show at most this many cases of each kind.")
    ] = 20,
    report: ReportPaths = None,
    quiet: Quiet = False,
    db: Db = None,
    server: Server = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Show a run: its score, how it came about, and its cases."""
    from tallymark.runs.reports.summary_report import closing_line, summary_lines

    check_reports(report or [])
    with open_desk(db, server) as desk:
        with show_progress("loading"):
            loaded = desk.runs.load(run, traces=bool(report) or as_json)
        if as_json:
            print_runs(loaded)
        elif quiet:
            say(closing_line([loaded], desk.there))
        else:
            say(*summary_lines(loaded, most=limit))
        write_reports(report or [], [loaded])
