"""`tally run`: a suite against models, and what is seen of it meanwhile."""

from __future__ import annotations

import logging
import re
import sys
import time
from contextlib import closing, nullcontext, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallymark.cli.app_session import Db
from tallymark.cli.case_choice import FailedOf, Only, Tag, read_choice, refuse_choice, tell_missing
from tallymark.cli.ci_job import BRANCH, CiEnd, Comment, find_branch_run, read_labels
from tallymark.cli.progress import show_progress
from tallymark.cli.report_files import ReportPaths, check_reports
from tallymark.cli.run_ending import (
    Alpha,
    Baseline,
    FailOnRegression,
    Gates,
    MaxErrors,
    Quiet,
    RunEnd,
    Strict,
    Tolerance,
    Verbose,
)
from tallymark.errors import InvalidInput
from tallymark.text import clean_line, format_count, format_money, format_score, format_share, say

if TYPE_CHECKING:
    from tallymark.app.app import App
    from tallymark.app.runs import RunOptions
    from tallymark.formula import Formula
    from tallymark.runs.record import CaseResult, RunRecord
    from tallymark.runs.run import Run
    from tallymark.runs.tally import Tally

_EVERY = 5.0
"""Seconds between lines that say how far it is."""
_FAILURES_SHOWN = 20
"""Failures that are told as they come; the summary has them all."""

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
    prompt: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only this one of the suite's prompts. Repeat it."),
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option(metavar="RUN", help="Go on with a run or `latest`: what is missing is asked."),
    ] = None,
    var: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="A value for {{var('NAME')}}.")
    ] = None,
    env_file: Annotated[
        Path | None, typer.Option(help="Lines of NAME=VALUE, for variables and secrets.")
    ] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="Ask every case so often.")] = None,
    only: Only = None,
    tag: Tag = None,
    failed_of: FailedOf = None,
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
    comment: Comment = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    db: Db = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Run a suite against one or more models, and score the runs by its formula."""
    from tallymark.app.runs import RunOptions
    from tallymark.runs.gates import find_shortfall
    from tallymark.suites.suite_evaluation import RunLimits

    if (suite is None) == (resume is None):
        hint = "not both" if resume else "as in: tally run suite.yaml"
        raise InvalidInput("give a suite, or a run to resume", hint=hint)
    if suite is not None and suite.suffix == ".py":
        raise InvalidInput(
            f"{suite} is a suite in Python", hint=f"run it with: tally score {suite}"
        )
    if resume is not None:
        refuse_choice({"--only": only, "--tag": tag, "--failed-of": failed_of, "--prompt": prompt})
    gates = Gates(fail_under, fail_on_regression, alpha, tolerance, strict, max_errors)
    gates.check(baseline)
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
        prompts=tuple(prompt or ()),
        labels=read_labels(),
    )
    # Programs that are stopped with a run are no news, though asyncio would tell.
    logging.getLogger("asyncio").addHandler(logging.NullHandler())
    # What a user's code prints must not get into our JSON document.
    from tallymark.app.app import App
    from tallymark.desk.runs import LocalRuns
    from tallymark.desk.webhooks import LocalWebhooks

    with closing(App(db)) as app:
        if baseline is not None and baseline.startswith(BRANCH):
            baseline = find_branch_run(LocalRuns(app), baseline, _find_suite(app, suite, resume))
        before = app.load_run(baseline) if baseline is not None else None
        if only or tag or failed_of:
            choice = read_choice(app, only, tag, failed_of, as_json=as_json)
            options = replace(options, choice=choice)
        with redirect_stdout(sys.stderr) if as_json else nullcontext():
            # A bar when someone looks at the terminal, else lines.
            lines = BarWatch() if sys.stderr.isatty() else PlainWatch()
            watch = QuietWatch() if quiet else lines
            runs = _run_suite(app, suite, resume, model or [], options, watch)
        least = fail_under
        failures = (
            [] if least is None else [each for run in runs if (each := find_shortfall(run, least))]
        )
        end = RunEnd(report or [], before, gates, as_json, quiet, verbose)
        end.tell(runs, failures, also=CiEnd(LocalWebhooks(app), comment).tell)
    if all(each.record.status == "failed" for each in runs):
        say("tally: no case could be run; see the errors above", err=True)
        raise typer.Exit(3)


def _run_suite(
    app: App,
    suite: Path | None,
    resume: str | None,
    models: list[str],
    options: RunOptions,
    watch: PlainWatch,
) -> list[Run]:
    from tallymark.suites.suite_file import load_suite

    try:
        if resume is not None:
            return [app.runs.resume(resume, options, watch)]
        with show_progress("loading"):
            definition = load_suite(suite or Path())
        if options.choice is not None:
            tell_missing(options.choice, definition)
        for warning in definition.warnings:
            say(f"tally: {warning}", err=True)
        chosen = models or definition.models
        if "_cost" in definition.formula and any(map(_SPENDS, chosen)):
            from tallymark.suites.unknown_prices import HINT, find_unknown_prices

            for message in find_unknown_prices(definition, chosen):
                say(f"tally: {message}; {HINT}", err=True)
        return app.runs.run(definition, models, options, watch)
    except KeyboardInterrupt as stopped:
        for note in getattr(stopped, "__notes__", ()):
            say(f"\ntally: {note}", err=True)
        known = f"tally run --resume {watch.current}" if watch.current else "tally run"
        say(f"\ntally: stopped; what is done is kept; go on with: {known}", err=True)
        raise typer.Exit(130) from None


def _find_suite(app: App, suite: Path | None, resume: str | None) -> str:
    """What the suite is called that will run."""
    if suite is None:
        return app.store.run(resume or "").suite
    from tallymark.suites.suite_file import load_suite

    return load_suite(suite).name


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


class PlainWatch:
    """What is seen of a run while it goes on: a line now and then, and one for each failure.

    All of it goes to stderr; stdout is for results.
    """

    every: float | None = _EVERY
    current: str | None = None
    """The run that goes on, or went on last."""
    formula: Formula | None = None
    total = 0
    told = 0
    last = 0.0

    def started(self, record: RunRecord, tally: Tally, formula: Formula) -> None:
        """A run begins, or goes on."""
        self.current, self.formula = record.id, formula
        self.total, self.told, self.last = record.total, 0, time.monotonic()
        from tallymark.runs.problems import name_model

        already = f", {tally.finished:,} done before" if tally.finished else ""
        # With epochs, a case has several results.
        counted = format_count(record.total, "result" if record.repeats else "case")
        what = f"{record.suite} against {name_model(record)}, {counted}{already}"
        say(f"{record.id}: {what}", err=True)

    def moved(self, result: CaseResult, tally: Tally) -> None:
        """A case is done."""
        if result.status != "passed":
            from tallymark.runs.problems import list_problems, name_case

            self.told += 1
            if self.told <= _FAILURES_SHOWN:
                why = clean_line(result.error or list_problems(result)[0][1], 100)
                say(f"  {result.status}: {name_case(result, 40)}: {why}", err=True)
            elif self.told == _FAILURES_SHOWN + 1:
                say("  more follow; the summary has them all", err=True)
        if self.every and time.monotonic() - self.last >= self.every:
            self.last = time.monotonic()
            say(f"  {self.describe(tally)}", err=True)

    def ended(self, record: RunRecord) -> None:
        """A run is over; its summary says how."""

    def describe(self, tally: Tally) -> str:
        """`120/200  score 71.20, 80.0% passed, 2 errors, $0.0177`."""
        score = tally.score(self.formula).score if self.formula is not None else None
        total = tally.all
        parts = [f"score {format_score(score)}"] if score is not None else []
        parts += [f"{format_share(total.success)} passed"] if total.success is not None else []
        parts += [format_count(tally.errors, "error")] if tally.errors else []
        parts += [format_money(total.cost.total)] if total.cost.known else []
        return f"{tally.finished:,}/{self.total:,}  {', '.join(parts)}"


class QuietWatch(PlainWatch):
    """Nothing is seen; it only knows which run goes on."""

    def started(self, record: RunRecord, _tally: Tally, _formula: Formula) -> None:
        """A run begins, or goes on."""
        self.current = record.id

    def moved(self, _result: CaseResult, _tally: Tally) -> None:
        """A case is done."""


class BarWatch(PlainWatch):
    """A bar with the numbers so far. While it is shown, rich puts what is said above it."""

    every = None
    bar: Any = None
    task: Any = None
    drawn = 0.0

    def started(self, record: RunRecord, tally: Tally, formula: Formula) -> None:
        """Show the bar."""
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        from tallymark.runs.problems import name_model

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[standing]}"),
            TimeRemainingColumn(),
        )
        self.bar = Progress(*columns, console=Console(stderr=True), transient=True)
        self.bar.start()
        self.task = self.bar.add_task(name_model(record), total=record.total, standing="")
        super().started(record, tally, formula)

    def moved(self, result: CaseResult, tally: Tally) -> None:
        """Move the bar, ten times a second at most."""
        super().moved(result, tally)
        if time.monotonic() - self.drawn < 0.1 and tally.finished < self.total:
            return
        self.drawn = time.monotonic()
        self.bar.update(self.task, completed=tally.finished, standing=self.describe(tally))

    def ended(self, record: RunRecord) -> None:
        """Take the bar away."""
        super().ended(record)
        self.bar.stop()
