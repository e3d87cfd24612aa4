"""`tally run`: a suite against models, and what is seen of it meanwhile."""

from __future__ import annotations

import logging
import os
import re
import sys
import time
from contextlib import nullcontext, redirect_stdout
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallymark.cli.app_session import Db, Server, name_server, open_resources
from tallymark.cli.case_choice import FailedOf, Only, Tag, read_choice, refuse_choice, tell_missing
from tallymark.cli.ci_job import BRANCH, Baseline, CiEnd, Comment, find_branch_run, read_labels
from tallymark.cli.engine_option import EngineName, Workers, choose_for_cases
from tallymark.cli.float_option import float_option
from tallymark.cli.progress import show_progress
from tallymark.cli.report_files import ReportPaths, check_reports
from tallymark.cli.run_ending import (
    EXIT_CODES,
    Alpha,
    FailOnRegression,
    Gates,
    MaxErrors,
    Quiet,
    RunEnd,
    Strict,
    Tolerance,
    Verbose,
    hand_over,
)
from tallymark.cli.workplace import open_work
from tallymark.errors import InvalidInput
from tallymark.text import clean_line, format_count, format_money, format_score, format_share, say

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallymark.cli.workplace import Work
    from tallymark.formula import Formula
    from tallymark.runs.record import CaseResult, RunRecord
    from tallymark.runs.run import Run
    from tallymark.runs.tally import Tally
    from tallymark.service.resources import Resources
    from tallymark.service.suite_runs import RunOptions
    from tallymark.suites.suite_definition import SuiteDefinition

EPILOG = EXIT_CODES
_EVERY = 5.0
"""Seconds between lines that say how far it is."""
_FAILURES_SHOWN = 20
"""Failures that are told as they come; the summary has them all."""

_SPENDS = re.compile("(?!echo[/:])").match
"""A model that may cost something; an echo never does."""


def run(  # noqa: PLR0913, PLR0915, PLR0917 (the options of a command)
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
        Path | None,
        typer.Option(help="Lines of NAME=VALUE: variables, secrets, keys; .env without it."),
    ] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="Repeat every case N times.")] = None,
    only: Only = None,
    tag: Tag = None,
    failed_of: FailedOf = None,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=1, help="Run only the first N cases.")
    ] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Most requests at once.")] = None,
    timeout: Annotated[float | None, float_option(min=0.001, help="Seconds for a request.")] = None,
    retries: Annotated[int | None, typer.Option(min=0, help="Tries after the first.")] = None,
    budget: Annotated[
        float | None,
        float_option(positive=True, min=0, metavar="USD", help="Stop before more is spent."),
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
    tolerance: Tolerance = "1%",
    strict: Strict = False,
    max_errors: MaxErrors = None,
    comment: Comment = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    engine: EngineName = None,
    workers: Workers = None,
    db: Db = None,
    server: Server = None,
    remote: Annotated[
        bool, typer.Option("--remote", help="Run it at the server too; Ctrl-C stops it there.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Run a suite against one or more models, and score the runs.

    With --server it runs here and is kept there; with --remote it also runs there.
    """
    from tallymark.runs.gates import find_shortfall
    from tallymark.service.suite_runs import RunOptions
    from tallymark.suites.suite_evaluation import RunLimits

    if (suite is None) == (resume is None):
        hint = "not both" if resume else "as in: tally run suite.yaml"
        raise InvalidInput("give a suite, or --resume RUN", hint=hint)
    if suite is not None and suite.suffix == ".py":
        raise InvalidInput(
            f"{suite} is Python; tally run takes a suite in YAML",
            hint=f"run a suite written in Python with: tally score {suite}; to ask an agent, name "
            f"it as a model: -m python/{suite}:FUNCTION",
        )
    if resume is not None:
        refuse_choice({"--only": only, "--tag": tag, "--failed-of": failed_of, "--prompt": prompt})
    kept_here: dict[str, object] = {"--record": record, "--cache": cache}
    if remote:
        from tallymark.cli.remote_run import refuse_for_remote

        given: dict[str, object] = {
            "--resume": resume,
            "--only": only,
            "--tag": tag,
            "--failed-of": failed_of,
            "--prompt": prompt,
            "--env-file": env_file,
            "--retries": retries,
        }
        refuse_for_remote({**given, **kept_here, "--engine": engine, "--workers": workers})
    gates = Gates(fail_under, fail_on_regression or strict, alpha, tolerance, strict, max_errors)
    gates.check(baseline)
    if report:
        check_reports(report)
    given_env = _read_env_file(env_file)
    options = RunOptions(
        RunLimits(
            epochs, limit, threads, None if retries is None else retries + 1, timeout, budget
        ),
        *_read_values(var or [], given_env),
        judge,
        record,
        cache,
        prompts=tuple(prompt or ()),
        engine=None
        if remote
        else choose_for_cases(engine, workers, {**kept_here, "--budget": budget}),
        labels=read_labels(),
    )
    if not remote:
        options = _set_environment(options, env_file, given_env, quiet=quiet)
    # Programs that are stopped with a run are no news, though asyncio would tell.
    logging.getLogger("asyncio").addHandler(logging.NullHandler())
    # What a user's code prints must not get into our JSON document.
    with open_resources(db, server) as tally, open_work(tally) as work:
        if baseline is not None and baseline.startswith(BRANCH):
            baseline = find_branch_run(tally, baseline, _find_suite(tally, suite, resume))
        before = tally.runs.load(baseline) if baseline is not None else None
        if only or tag or failed_of:
            choice = read_choice(tally, only, tag, failed_of, as_json=as_json)
            options = replace(options, choice=choice)
        load = partial(_load, suite or Path(), model or [], options, gates)
        with redirect_stdout(sys.stderr) if as_json else nullcontext():
            # A bar when someone looks at the terminal, else lines.
            lines = BarWatch() if sys.stderr.isatty() else PlainWatch()
            watch = QuietWatch() if quiet else lines
            if remote:
                from tallymark.cli.remote_run import run_there

                target = _name_remote(tally, server), suite or Path()
                runs = run_there(tally, *target, load(), model or [], options, watch)
            else:
                work.check()
                runs = _run_suite(work, load, resume, model or [], options, watch)
        kept = remote or hand_over(work, runs)
        short = [None if fail_under is None else find_shortfall(run, fail_under) for run in runs]
        there = name_server(tally, server) if kept else None
        end = RunEnd(report or [], before, gates, as_json, quiet, verbose, there)
        refusals = [[] if each is None else [each] for each in short]
        end.tell(runs, refusals, also=CiEnd(tally, comment).tell)
    if not kept:
        raise typer.Exit(3)


def _name_remote(tally: Resources, server: str | None) -> str:
    there = name_server(tally, server)
    if there is None:
        hint = "name one with --server or TALLY_SERVER, or leave --remote out"
        raise InvalidInput("--remote runs a suite at a server", hint=hint)
    return there


def _run_suite(
    work: Work,
    load: Callable[[], SuiteDefinition],
    resume: str | None,
    models: list[str],
    options: RunOptions,
    watch: PlainWatch,
) -> list[Run]:
    runs = work.app.runs
    try:
        if resume is not None:
            if (finished := work.find_finished(resume)) is not None:
                return [finished]
            return [runs.resume(resume, work.fill_in(options), watch)]
        definition = load()
        if definition.used_vars:
            options = work.fill_in(options)
            for problem in runs.find_unfilled(definition, options):
                say(f"tally: {problem}", err=True)
        return runs.run(definition, models, options, watch)
    except KeyboardInterrupt as stopped:
        for note in getattr(stopped, "__notes__", ()):
            say(f"\ntally: {note}", err=True)
        rest = "what is done is kept; go on with: tally run --resume latest"
        say(
            f"\ntally: stopped; {work.tell_rest(watch.current) if watch.current else rest}",
            err=True,
        )
        raise typer.Exit(130) from None


def _find_suite(tally: Resources, suite: Path | None, resume: str | None) -> str:
    """What the suite is called that will run."""
    if suite is None:
        return tally.runs.get(resume or "").suite
    from tallymark.suites.suite_file import load_suite

    return load_suite(suite).name


def _load(suite: Path, models: list[str], options: RunOptions, gates: Gates) -> SuiteDefinition:
    """The suite, and what is to be said of it before it runs."""
    from tallymark.suites.suite_file import load_suite
    from tallymark.suites.templates import refuse_unknown

    with show_progress("loading"):
        definition = load_suite(suite)
    refuse_unknown(definition, options.named, "--var")
    if options.choice is not None:
        tell_missing(options.choice, definition)
    for warning in definition.warnings:
        say(f"tally: {warning}", err=True)
    chosen = models or definition.models
    if gates.fail_on_regression and len(chosen) > 1:
        raise InvalidInput(
            f"--fail-on-regression compares one model with the baseline, not {len(chosen)}",
            hint="run one model at a time, each with a baseline of its own",
        )
    has_budget = options.limits.budget is not None
    if (has_budget or "_cost" in definition.formula) and any(map(_SPENDS, chosen)):
        from tallymark.suites.unknown_prices import HINT, find_unknown_prices

        for message in find_unknown_prices(definition, chosen, has_budget=has_budget):
            say(f"tally: {message}; {HINT}", err=True)
    return definition


def _read_env_file(path: Path | None) -> dict[str, str]:
    if path is None:
        return {}
    from tallymark.suites.env_file import read_env_file

    return read_env_file(path)


def _read_values(
    given: list[str], from_file: dict[str, str]
) -> tuple[dict[str, str], tuple[str, ...]]:
    """All values, and the names that were typed: a file may hold more than a suite asks for."""
    values, named = dict(from_file), []
    for each in given:
        name, equals, value = each.partition("=")
        if not equals or not name.strip():
            hint = "write --var name=value"
            raise InvalidInput(f"--var {each!r} does not give a name a value", hint=hint)
        values[name.strip()] = value
        named.append(name.strip())
    return values, tuple(named)


def _set_environment(
    options: RunOptions, env_file: Path | None, given: dict[str, str], *, quiet: bool
) -> RunOptions:
    """Takes keys of models from the env file that was named, or else from `.env` here."""
    from tallymark.suites.env_file import DOTENV, find_keys, set_environment

    ambient: dict[str, str] = {}
    if env_file is None and Path(DOTENV).is_file():
        try:
            ambient = _read_env_file(Path(DOTENV))
        except InvalidInput as error:  # nobody asked for it
            say(f"tally: {DOTENV} is not read: {error.problems[0]}", err=True)
    keys = set_environment(given or ambient, os.environ, keys_only=env_file is None)
    if keys and not quiet:
        say(f"tally: read from {env_file or DOTENV}: {', '.join(keys)}", err=True)
    urls = [name for name in ambient if name.endswith(("_BASE_URL", "_HOST", "_ENDPOINT"))]
    if ignored := [name for name in urls if name not in os.environ]:
        what = f"{DOTENV} does not set {', '.join(ignored)}, which says where keys are sent"
        say(f"tally: {what}; add --env-file {DOTENV} if you trust it", err=True)
    return replace(options, ambient=ambient, hidden=find_keys(os.environ))


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

    def started(self, record: RunRecord, tally: Tally, formula: Formula | None) -> None:
        """A run begins, or goes on."""
        self.current, self.formula = record.id, formula
        self.total, self.told, self.last = record.total, 0, time.monotonic()
        from tallymark.runs.problems import name_model

        already = f", {tally.finished:,} done before" if tally.finished else ""
        # With epochs, a case has several results.
        counted = format_count(record.total, "result" if record.may_repeat else "case")
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

    def progressed(self, done: int, standing: str) -> None:
        """So many results are there of a run that goes on elsewhere."""
        if self.every and time.monotonic() - self.last >= self.every:
            self.last = time.monotonic()
            say(f"  {done:,}/{self.total:,}  {standing}", err=True)

    def ended(self, record: RunRecord) -> None:
        """A run is over; its summary says how."""

    def describe(self, tally: Tally) -> str:
        """`120/200  score 71.20, 80.0% passed, 2 errors, $0.0177`."""
        score = tally.score(self.formula).score if self.formula is not None else None
        total = tally.all
        parts = [f"score {format_score(score)}"] if score is not None else []
        parts += [f"{format_share(total.success)} passed"] if total.success is not None else []
        parts += [format_count(tally.errors, "error")] if tally.errors else []
        paid = [each.total for each in (total.cost, tally.unscored_cost) if each.known]
        parts += [format_money(sum(paid))] if paid else []
        return f"{tally.finished:,}/{self.total:,}  {', '.join(parts)}"


class QuietWatch(PlainWatch):
    """Nothing is seen; it only knows which run goes on."""

    def started(self, record: RunRecord, _tally: Tally, _formula: Formula | None) -> None:
        """A run begins, or goes on."""
        self.current = record.id

    def moved(self, _result: CaseResult, _tally: Tally) -> None:
        """A case is done."""

    def progressed(self, _done: int, _standing: str) -> None:
        """So many results are there."""


class BarWatch(PlainWatch):
    """A bar with the numbers so far. While it is shown, rich puts what is said above it."""

    every = None
    bar: Any = None
    task: Any = None
    drawn = 0.0

    def started(self, record: RunRecord, tally: Tally, formula: Formula | None) -> None:
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

    def progressed(self, done: int, standing: str) -> None:
        """Move the bar."""
        shown = f"{done:,}/{self.total:,}  {standing}"
        self.bar.update(self.task, completed=done, standing=shown)

    def ended(self, record: RunRecord) -> None:
        """Take the bar away."""
        super().ended(record)
        self.bar.stop()
