"""`tally run`: a suite against models, here or at a server."""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, redirect_stdout
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallymark.cli.case_choice import FailedOf, Only, Tag, read_choice, refuse_choice, tell_missing
from tallymark.cli.ci_job import BRANCH, Baseline, CiEnd, Comment, find_branch_run, read_labels
from tallymark.cli.options import (
    Db,
    EngineName,
    Json,
    Quiet,
    Server,
    Workers,
    choose_for_cases,
    float_option,
)
from tallymark.cli.progress import BarWatch, PlainWatch, QuietWatch, show_progress
from tallymark.cli.run_output import (
    EXIT_CODES,
    Alpha,
    FailOnRegression,
    Gates,
    MaxErrors,
    ReportPaths,
    RunEnd,
    Strict,
    Tolerance,
    Verbose,
    check_reports,
    hand_over,
)
from tallymark.cli.session import name_server, open_resources
from tallymark.cli.workplace import open_checkpoint
from tallymark.errors import InvalidInput, Place, Problem, TallymarkError, WorkFailed
from tallymark.runs.gates import find_shortfall
from tallymark.runs.tally import Tally
from tallymark.service.suite_runs import RunOptions
from tallymark.suites.env_file import DOTENV, find_keys, read_env_file, set_environment
from tallymark.suites.suite_evaluation import RunLimits
from tallymark.suites.suite_file import load_suite
from tallymark.suites.templates import refuse_unknown
from tallymark.text import format_count, format_money, format_share, say

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tallymark.cli.workplace import Work
    from tallymark.runs.record import RunRecord
    from tallymark.runs.run import Run
    from tallymark.service.resources import Resources
    from tallymark.service.suite_runs import RunOptions
    from tallymark.suites.suite_definition import SuiteDefinition

EPILOG = EXIT_CODES

_SPENDS = re.compile("(?!echo[/:])").match
"""A model that may cost something; an echo never does."""


def run(  # noqa: PLR0913, PLR0917 (the options of a command)
    suite: Annotated[
        Path | None, typer.Argument(metavar="SUITE", help="Suite file (YAML).", show_default=False)
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model", "-m", help="provider/name, replay/NAME, http://..., cmd/... Repeatable."
        ),
    ] = None,
    prompt: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only this prompt of the suite. Repeatable."),
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option(
            metavar="RUN", help="Continue a run (or `latest`): run the cases that are missing."
        ),
    ] = None,
    var: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Value for {{var('NAME')}}. Repeatable."),
    ] = None,
    env_file: Annotated[
        Path | None,
        typer.Option(help="File of NAME=VALUE lines: variables, secrets, keys. Default: .env."),
    ] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="Repeat every case N times.")] = None,
    only: Only = None,
    tag: Tag = None,
    failed_of: FailedOf = None,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=1, help="Run only the first N cases.")
    ] = None,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Maximum number of concurrent requests.")
    ] = None,
    timeout: Annotated[
        float | None, float_option(min=0.001, help="Timeout of a request, in seconds.")
    ] = None,
    retries: Annotated[
        int | None, typer.Option(min=0, help="Retries after a failed request.")
    ] = None,
    budget: Annotated[
        float | None,
        float_option(
            positive=True, min=0, metavar="USD", help="Stop before the run costs more than this."
        ),
    ] = None,
    judge: Annotated[str | None, typer.Option(help="Model for llm_judge checks.")] = None,
    record: Annotated[
        Path | None, typer.Option(help="Append every answer to this file, which replay/ can read.")
    ] = None,
    cache: Annotated[
        Path | None, typer.Option(help="Cache of answers: a stored answer is not requested again.")
    ] = None,
    report: ReportPaths = None,
    fail_under: Annotated[
        float | None, typer.Option(help="Exit with 1 if a score is lower than this, or undefined.")
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
        bool, typer.Option("--remote", help="Run on the server; Ctrl-C stops the run there.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Run a suite against one or more models, and score the runs.

    With --server, it runs here and the server stores the run; with --remote, the server runs it.
    """
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
    # asyncio would warn about programs that are stopped with a run.
    logging.getLogger("asyncio").addHandler(logging.NullHandler())
    # What a user's code prints must not get into our JSON document.
    with open_resources(db, server) as tally, open_checkpoint(tally) as work:
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
        rest = "finished cases are stored; continue with: tally run --resume latest"
        say(
            f"\ntally: stopped; {work.tell_rest(watch.current) if watch.current else rest}",
            err=True,
        )
        raise typer.Exit(130) from None


def _find_suite(tally: Resources, suite: Path | None, resume: str | None) -> str:
    """Name of the suite that will run."""
    if suite is None:
        return tally.runs.get(resume or "").suite

    return load_suite(suite).name


def _load(suite: Path, models: list[str], options: RunOptions, gates: Gates) -> SuiteDefinition:
    """Load the suite, and print its warnings."""
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
        from tallymark.suites.unknown_prices import HINT, find_unknown_prices  # noqa: PLC0415 (loads the price table)

        for message in find_unknown_prices(definition, chosen, has_budget=has_budget):
            say(f"tally: {message}; {HINT}", err=True)
    return definition


def _read_env_file(path: Path | None) -> dict[str, str]:
    if path is None:
        return {}

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
    ambient: dict[str, str] = {}
    if env_file is None and Path(DOTENV).is_file():
        try:
            ambient = _read_env_file(Path(DOTENV))
        except InvalidInput as error:  # .env is optional
            say(f"tally: {DOTENV} is not read: {error.problems[0]}", err=True)
    keys = set_environment(given or ambient, os.environ, keys_only=env_file is None)
    if keys and not quiet:
        say(f"tally: read from {env_file or DOTENV}: {', '.join(keys)}", err=True)
    urls = [name for name in ambient if name.endswith(("_BASE_URL", "_HOST", "_ENDPOINT"))]
    if ignored := [name for name in urls if name not in os.environ]:
        what = f"{DOTENV} does not set {', '.join(ignored)}, which sets where keys are sent"
        say(f"tally: {what}; add --env-file {DOTENV} if you trust it", err=True)
    return replace(options, ambient=ambient, hidden=find_keys(os.environ))


def refuse_for_remote(given: Mapping[str, object]) -> None:
    """Refuses options of which a server knows nothing."""
    for option, value in given.items():
        if value is not None and value != []:
            hint = "leave out one of them; without --remote it runs here"
            raise InvalidInput(f"--remote does not go with {option}", hint=hint)


def run_there(  # noqa: PLR0913, PLR0917 (all that a run needs)
    tally: Resources,
    there: str,
    suite: Path,
    definition: SuiteDefinition,
    models: list[str],
    options: RunOptions,
    watch: PlainWatch,
) -> list[Run]:
    """Have the server run the suite, show its progress, and return the runs when they are over."""
    limits = options.limits
    with name_file(suite):
        started = tally.runs.create(
            suite=suite.read_text(encoding="utf-8"),
            models=models,
            name=definition.name,
            limit=limits.cases,
            epochs=limits.epochs,
            threads=limits.threads,
            timeout=limits.timeout,
            budget=limits.budget,
            judge=options.judge,
            vars=dict(options.values) or None,
        )
    shown = f"tally show {started.run.id}{there}"
    try:
        return [_follow(tally, tally.runs.read_record(each.id), watch) for each in started.runs]
    except KeyboardInterrupt:
        for record in started.runs:
            _cancel(tally, record)
        say(f"\ntally: stopped, and stopped there; what is done: {shown}", err=True)
        raise typer.Exit(130) from None
    except WorkFailed as error:
        raise WorkFailed(str(error), hint=f"the run may continue on the server: {shown}") from None


@contextmanager
def name_file(path: Path) -> Iterator[None]:
    """Name the file where a server names a line of the suite that was sent."""
    try:
        yield
    except TallymarkError as error:
        error.problems = tuple(_place(each, path) for each in error.problems)
        raise


def _place(problem: Problem, path: Path) -> Problem:
    place = problem.place
    if place is None or place.line is None:
        return problem
    at = Place(str(path), place.line, place.column, place.length, place.text)
    return Problem(problem.message, at, problem.hint)


def _follow(tally: Resources, record: RunRecord, watch: PlainWatch) -> Run:

    watch.started(record, Tally(), None)
    try:
        status = "queued"
        while status in ("queued", "running"):
            # A proxy may end the stream before the run has ended.
            for event in tally.runs.events(record.id):
                watch.progressed(_count(event.data), _describe(event.data))
            status = tally.runs.get(record.id).status
        done = tally.runs.load(record.id, traces=True)
        counted = Tally()
        for result in done.results:
            counted.add(result)
            watch.moved(result, counted)
    finally:
        watch.ended(record)
    return done


def _count(now: Mapping[str, Any]) -> int:
    return int(now["passed"] + now["failed"] + now["errors"])


def _describe(now: Mapping[str, Any]) -> str:
    """`80.0% passed, 2 errors, $0.0177`."""
    ran = now["passed"] + now["failed"]
    parts = [f"{format_share(now['passed'] / ran)} passed"] if ran else []
    parts += [format_count(now["errors"], "error")] if now["errors"] else []
    parts += [format_money(now["cost"])] if now["cost"] else []
    return ", ".join(parts) or now["status"]


def _cancel(tally: Resources, record: RunRecord) -> None:
    try:
        tally.runs.cancel(record.id)
    except InvalidInput:  # it is over
        return
    except WorkFailed as error:
        say(f"tally: {record.id} could not be stopped there: {error}", err=True)
