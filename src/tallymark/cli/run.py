"""`tally run`: a suite against models."""

from __future__ import annotations

import re
import sys
from contextlib import closing, nullcontext, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tallymark.cli.app_session import Db
from tallymark.cli.report_files import ReportPaths, check_reports
from tallymark.cli.run_ending import (
    Alpha,
    Baseline,
    FailOnRegression,
    MaxErrors,
    RunEnd,
    Strict,
    Tolerance,
    check_max_errors,
    require_baseline,
)
from tallymark.errors import InvalidInput
from tallymark.text import say

if TYPE_CHECKING:
    from tallymark.app.app import App
    from tallymark.app.runs import RunOptions
    from tallymark.runs.run import Run

_SPENDS = re.compile("(?!echo[/:])").match
"""A model that may cost something; an echo never does."""


def run(  # noqa: PLR0913, PLR0917 (the options of a command)
    suite: Annotated[
        Path | None, typer.Argument(metavar="SUITE", help="A suite in YAML.", show_default=False)
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model", "-m", help="provider/name, replay/NAME, http://..., cmd/... Repeat it."
        ),
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option(metavar="RUN", help="Go on with a run: only what is missing is asked."),
    ] = None,
    var: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="A value for {{var('NAME')}}.")
    ] = None,
    env_file: Annotated[
        Path | None, typer.Option(help="Lines of NAME=VALUE, for variables and secrets.")
    ] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="Ask every case so often.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first cases.")] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Most requests at once.")] = None,
    timeout: Annotated[float | None, typer.Option(min=0.001, help="Seconds for a request.")] = None,
    retries: Annotated[int | None, typer.Option(min=0, help="Tries after the first.")] = None,
    budget: Annotated[
        float | None, typer.Option(min=0, metavar="USD", help="Stop before more is spent.")
    ] = None,
    judge: Annotated[str | None, typer.Option(help="The model for llm_judge checks.")] = None,
    record: Annotated[
        Path | None, typer.Option(help="Append every answer to a file that replay/ reads.")
    ] = None,
    cache: Annotated[
        Path | None, typer.Option(help="A file of answers that are not asked for again.")
    ] = None,
    report: ReportPaths = None,
    fail_under: Annotated[
        float | None, typer.Option(help="Exit with 1 when a score is lower, or undefined.")
    ] = None,
    baseline: Baseline = None,
    fail_on_regression: FailOnRegression = False,
    alpha: Alpha = 0.05,
    tolerance: Tolerance = 0.0,
    strict: Strict = False,
    max_errors: MaxErrors = None,
    db: Db = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Run a suite against one or more models, and score the runs by its formula."""
    from tallymark.app.runs import RunOptions
    from tallymark.runs.gates import find_shortfall
    from tallymark.suites.suite_evaluation import RunLimits

    if (suite is None) == (resume is None):
        raise InvalidInput("give a suite, or a run to resume", hint="as in: tally run suite.yaml")
    if fail_on_regression:
        require_baseline(baseline)
    if strict:
        require_baseline(baseline, "--strict")
    if max_errors is not None:
        check_max_errors(max_errors)
    elif fail_on_regression or fail_under is not None:
        max_errors = "0"  # a gate never passes on what did not run
    if report:
        check_reports(report)
    options = RunOptions(
        RunLimits(
            epochs, limit, threads, None if retries is None else retries + 1, timeout, budget
        ),
        _read_values(var or [], env_file) if var or env_file else {},
        judge,
        record,
        cache,
    )
    # What a user's code prints must not get into our JSON document.
    from tallymark.app.app import App

    with closing(App(db)) as app, redirect_stdout(sys.stderr) if as_json else nullcontext():
        before = app.load_run(baseline) if baseline is not None else None
        runs = _run_suite(app, suite, resume, model or [], options)
    least = fail_under
    failures = (
        [] if least is None else [each for run in runs if (each := find_shortfall(run, least))]
    )
    rule = (alpha, tolerance, strict)
    RunEnd(report or [], before, fail_on_regression, as_json, rule, max_errors).tell(runs, failures)
    if all(each.record.status == "failed" for each in runs):
        say("tally: no case could be run; see the errors above", err=True)
        raise typer.Exit(3)


def _run_suite(
    app: App,
    suite: Path | None,
    resume: str | None,
    models: list[str],
    options: RunOptions,
) -> list[Run]:
    from tallymark.cli.run_watch import BarWatch, PlainWatch
    from tallymark.suites.suite_file import load_suite

    # A bar when someone looks at the terminal, else lines.
    watch = BarWatch() if sys.stderr.isatty() else PlainWatch()
    try:
        if resume is not None:
            return [app.runs.resume(resume, options, watch)]
        definition = load_suite(suite or Path())
        for warning in definition.warnings:
            say(f"tally: {warning}", err=True)
        chosen = models or definition.models
        if "_cost" in definition.formula and any(map(_SPENDS, chosen)):
            from tallymark.suites.unknown_prices import HINT, find_unknown_prices

            for message in find_unknown_prices(definition, chosen):
                say(f"tally: {message}; {HINT}", err=True)
        return app.runs.run(definition, models, options, watch)
    except KeyboardInterrupt:
        known = f"tally run --resume {watch.current}" if watch.current else "tally run"
        say(f"\ntally: stopped; what is done is kept; go on with: {known}", err=True)
        raise typer.Exit(130) from None


def _read_values(given: list[str], env_file: Path | None) -> dict[str, str]:
    from tallymark.suites.env_file import read_env_file

    values = read_env_file(env_file) if env_file is not None else {}
    for each in given:
        name, equals, value = each.partition("=")
        if not equals or not name.strip():
            hint = "write --var name=value"
            raise InvalidInput(f"--var {each!r} does not give a name a value", hint=hint)
        values[name.strip()] = value
    return values
