"""`tally compare`: runs against the first of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tallymark.cli.options import Db, Json, Quiet, Server
from tallymark.cli.progress import show_progress
from tallymark.cli.run_output import (
    EXIT_CODES,
    Alpha,
    Gates,
    MaxErrors,
    Strict,
    Tolerance,
    check_reports,
    write_reports,
)
from tallymark.cli.session import open_resources
from tallymark.cli.streams import print_json
from tallymark.runs.comparison import RegressionRule, compare_all, score_alike, verdict
from tallymark.runs.reports.comparison_report import comparison_lines, verdict_line
from tallymark.text import StyledLine, say

EPILOG = EXIT_CODES.replace("--fail-under, ", "")


def compare(  # noqa: PLR0913, PLR0917 (options of a command)
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN RUN...", help="Two or more runs, by id or name; the first is the baseline."
        ),
    ],
    formula: Annotated[
        str | None, typer.Option(help="Score all runs by this formula instead of the first run's.")
    ] = None,
    fail_on_regression: Annotated[
        bool,
        typer.Option(
            "--fail-on-regression",
            help="Exit with 1 if a run is worse, or fell by more than --tolerance and the results"
            " are inconclusive.",
        ),
    ] = False,
    alpha: Alpha = 0.05,
    tolerance: Tolerance = "1%",
    strict: Strict = False,
    max_errors: MaxErrors = None,
    report: Annotated[
        list[Path] | None, typer.Option("--report", "-r", help="Write a report of all runs.")
    ] = None,
    quiet: Quiet = False,
    db: Db = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Compare runs case by case, and test whether one is worse than the first."""
    gates = Gates(None, fail_on_regression or strict, alpha, tolerance, strict, max_errors)
    gates.check(runs[0])
    check_reports(report or [])
    with open_resources(db, server) as tally:
        rule = RegressionRule(alpha, tolerance, strict)
        with show_progress("comparing"):
            loaded = [tally.runs.load(run, traces=bool(report)) for run in runs]
            ids = [run.record.id for run in loaded]
            if twice := next((each for each in ids if ids.count(each) > 1), None):
                say(f"tally: warning: {twice} is compared with itself", err=True)
            compared = compare_all(loaded, formula=formula, rule=rule)
        failures = [each for run in loaded[1:] for each in gates.find_unrun(run)]
        if as_json:
            print_json({"comparisons": [each.to_dict() for each in compared]})
        elif quiet:
            for each in compared:
                line, of = verdict_line(each), f"{each.second.id}: " if len(compared) > 1 else ""
                say(StyledLine(f"{of}{line.text}", line.style))
        else:
            parts = [
                part for each in compared for part in (StyledLine(""), *comparison_lines(each))
            ]
            say(*parts[1:])
        failures += [
            f"{each.second.id} {told}: {said.reason}"
            for each in (compared if gates.fail_on_regression else ())
            if not (said := verdict(each)).passes
            for told in ("is worse" if said.outcome == "worse" else "is inconclusive",)
        ]
        for failure in failures:
            say(f"tally: {failure}", err=True)
        if report:  # last: the verdict is shown even if the disk is full
            write_reports(report, score_alike(loaded, compared[0].formula), compared)
    if failures:
        raise typer.Exit(1)
