"""`tally score`: stored traces by scorers, or Python suites against their agents."""

from __future__ import annotations

import sys
from collections import defaultdict
from contextlib import AbstractContextManager, closing, nullcontext, redirect_stdout
from dataclasses import dataclass
from functools import partial
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec.structs import replace

from tallymark.cli.case_choice import FailedOf, Only, Tag, read_choice
from tallymark.cli.options import Db, EngineName, FieldMapping, Json, Quiet, Server, Workers
from tallymark.cli.progress import show_progress
from tallymark.cli.run_output import (
    EXIT_CODES,
    Alpha,
    Baseline,
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
from tallymark.cli.streams import read_text
from tallymark.cli.workplace import open_checkpoint
from tallymark.engine.engine_choice import choose_engine
from tallymark.errors import CutShort, InvalidInput, TraceError
from tallymark.runs.gates import (
    find_shortfall,
    find_unscored,
    find_weak_scorers,
    require_mean,
)
from tallymark.runs.problems import name_model
from tallymark.runs.result_files import open_result_file
from tallymark.runs.run import Run
from tallymark.scoring import load_scorer
from tallymark.suites import ScoredTraces
from tallymark.suites.python_suites.eval_files import load_agent, load_suites
from tallymark.suites.python_suites.suite_document import parse_for_scorers, parse_formula
from tallymark.suites.scored_traces import JudgedTraces, name_trace, read_expectations
from tallymark.text import format_count, format_number, say
from tallymark.traces import read_traces
from tallymark.traces.flat_records import read_field_map

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from tallymark.cli.progress import ProgressUpdate
    from tallymark.engine.engine_choice import EngineChoice
    from tallymark.runs.record import CaseResult, RunRecord
    from tallymark.runs.result_files import WriteResult
    from tallymark.runs.run import Run
    from tallymark.scoring import Expected, Scorer
    from tallymark.service.app import App
    from tallymark.suites import ScoredTraces, Suite, Test
    from tallymark.suites.chosen_cases import CaseChoice
    from tallymark.traces import Trace

EPILOG = EXIT_CODES
_NAMES_REMEMBERED = 1_000
"""Names of skipped traces that are remembered for a hint."""
_WAY_OUT = "--skip-broken skips such records"
_SHOWN = 5
"""Broken records that are shown; the others are counted."""


@dataclass(frozen=True)
class _ScoreOptions:
    paths: list[str]
    scorer: list[str]
    formula: str | None
    output: Path | None
    format: str | None
    fields: dict[str, str]
    expected: Path | None
    threshold: float | None
    timeout: float | None
    fail_under: float | None
    limit: int | None
    choice: CaseChoice | None
    skip_broken: bool
    function: str | None
    keep: bool
    whole: bool
    """Every result is wanted at the end, by a report or a baseline."""
    engine: EngineChoice | None
    """Engine that scores traces; None for this process."""


def score(  # noqa: PLR0913, PLR0917 (the options of a command)
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="TRACES...",
            help="Files or folders of traces, - for stdin; or Python suites (*_eval.py).",
        ),
    ],
    scorer: Annotated[
        list[str] | None,
        typer.Option(
            "--scorer",
            "-s",
            metavar="REF",
            help="Scorer: name, file.py:name or module:name, with options as in "
            "'contains(values=[\"refund\"])'. Repeatable.",
        ),
    ] = None,
    formula: Annotated[
        str | None,
        typer.Option(
            help="Formula for the score of the run, over scorer names and metrics of the run."
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Write every result to a .jsonl, .csv or .parquet file."
        ),
    ] = None,
    format: Annotated[  # noqa: A002 (the word users expect)
        str | None, typer.Option(help="Format of the traces, if it is not recognised.")
    ] = None,
    fields: FieldMapping = None,
    expected: Annotated[
        Path | None,
        typer.Option(
            help='File of expected values: JSON lines such as {"trace_id": "t-1", "output": ""}.'
        ),
    ] = None,
    threshold: Annotated[
        float | None, typer.Option(help="Value at which a scorer passes, for every scorer.")
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option(help="Timeout of each call of an agent or a slow scorer, in seconds."),
    ] = None,
    fail_under: Annotated[
        float | None,
        typer.Option(
            help="Exit with 1 if the score (or without a formula, the mean of a scorer) is lower."
        ),
    ] = None,
    only: Only = None,
    tag: Tag = None,
    failed_of: FailedOf = None,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit",
            "-n",
            min=1,
            help="Score only the first N traces, or run the first N tests of a suite.",
        ),
    ] = None,
    skip_broken: Annotated[
        bool, typer.Option("--skip-broken", help="Skip records that cannot be read.")
    ] = False,
    function: Annotated[
        str | None,
        typer.Option(
            metavar="REF",
            help="For suites: the function under test, as file.py:name or module:name.",
        ),
    ] = None,
    report: ReportPaths = None,
    baseline: Baseline = None,
    fail_on_regression: FailOnRegression = False,
    alpha: Alpha = 0.05,
    tolerance: Tolerance = "1%",
    strict: Strict = False,
    max_errors: MaxErrors = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
    no_keep: Annotated[
        bool, typer.Option("--no-keep", help="Show the run without storing it.")
    ] = False,
    engine: EngineName = None,
    workers: Workers = None,
    db: Db = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Score stored traces, or run suites written in Python. The runs are stored.

    With --server, the server stores them.
    """
    gates = Gates(fail_under, fail_on_regression or strict, alpha, tolerance, strict, max_errors)
    gates.check(baseline)
    check_reports(report or [])
    suites = [path.endswith(".py") for path in paths]
    for path in paths:
        if path.endswith((".yaml", ".yml")):
            raise InvalidInput(f"{path} is a suite", hint=f"run it with: tally run {path}")
    if any(suites) != all(suites):
        raise InvalidInput("give either traces or Python suites, not both")
    # What a user's code prints must not get into our JSON document.
    with open_resources(db, server) as tally, open_checkpoint(tally) as work:
        app = work.app
        if not no_keep:
            work.check()
        before = tally.runs.load(baseline) if baseline is not None else None
        choice = read_choice(tally, only, tag, failed_of, as_json=as_json)
        options = _ScoreOptions(
            paths, scorer or [], formula, output, format, read_field_map(fields or ()), expected,
            threshold, timeout, fail_under, limit, choice, skip_broken, function, not no_keep,
            whole=bool(report) or baseline is not None,
            engine=choose_engine(engine, workers),
        )  # fmt: skip
        with redirect_stdout(sys.stderr) if as_json else nullcontext():
            outcome = _run_suites(options, app) if all(suites) else _score_stored(options, app)
        kept = not options.keep or hand_over(work, outcome.runs)
        there = name_server(tally, server) if kept else None
        if before is not None and gates.fail_on_regression:
            outcome.gates[0] += _find_no_model(before.record, outcome.runs)
        end = RunEnd(report or [], before, gates, as_json, quiet, verbose, there)
        if outcome.interrupted:
            end.show(outcome.runs, outcome.facts)
            done = "finished results are stored" if options.keep else "nothing is stored"
            if options.keep and options.engine is not None:
                done += "; run the same command again to continue"
            for path in [*([] if options.output is None else [options.output]), *(report or ())]:
                done += f"; {path} is not written"
            say(f"tally: stopped; {done}", err=True)
            raise typer.Exit(130)
        end.tell(
            outcome.runs,
            outcome.gates,
            outcome.facts,
            undone=outcome.undone,
            whole=outcome.whole,
        )
    if not kept:
        raise typer.Exit(3)


def _find_no_model(before: RunRecord, runs: Sequence[Run]) -> list[str]:
    """Report that none of several runs is of the model of the baseline."""
    wanted, models = name_model(before), [name_model(run.record) for run in runs]
    if len(runs) == 1 or runs[0].record.group is None or wanted in models:
        return []
    return [f"the baseline {before.id} is of {wanted}, and these runs are of {', '.join(models)}"]


@dataclass(frozen=True)
class _ScoreOutcome:
    """Runs of a command, with failed gates and undone work."""

    runs: list[Run]
    gates: list[list[str]]
    """Failed gates of each run."""
    undone: list[list[str]]
    """Undone work of each run."""
    facts: dict[str, Any]
    interrupted: bool = False
    whole: Sequence[Run] = ()
    """The same runs with all results, if they are needed and `runs` hold only some."""


def _score_stored(options: _ScoreOptions, app: App) -> _ScoreOutcome:

    _refuse({"--function": options.function}, "can only be used with Python suites")
    if not options.scorer:
        hint = "as in: tally score traces.jsonl --scorer 'contains(values=[\"refund\"])'"
        raise InvalidInput("name at least one scorer", hint=hint)
    scorers = [load_scorer(reference) for reference in options.scorer]
    names = [name for each in scorers for name in each.score_names]
    if options.formula is not None:  # before anything is read
        parse_for_scorers(options.formula, names)
    elif options.fail_under is not None:
        require_mean(options.fail_under)
    expected = _read_expectations(options.expected)
    broken = _BrokenRecords(skip=options.skip_broken)
    writer = _open_writer(options.output, names)
    with show_progress("scoring") as update:
        seen = dict[str, None]()
        choice = options.choice
        how: dict[str, Any] = {
            "name": _name_sources(options.paths),
            "formula": options.formula,
            "threshold": options.threshold,
            "timeout": options.timeout,
            "expected": expected,
            "store": app.run_keeper if options.keep else None,
            "on_broken": broken.note,
            "chosen_by": "" if choice is None else choice.by,
        }
        read = partial(_read_chosen, options, seen, broken, update)
        scored, scoring_there = _open_scoring(options, app, read, scorers, how, broken, update)
        with scoring_there as forget_blocks:
            results, interrupted = _take_results(scored, writer, options, seen)
            if not interrupted:  # and the file has its name: the same again is another run
                forget_blocks()
            runs = scored.runs
    broken.tell()
    if scored.goes_on:
        said = "continued the run that the same command began earlier"
        say(f"tally: {said}", err=True)
    if scored.same_ids:
        _warn_of_same_ids(scored.same_ids)
    if scored.unmet and options.limit is None:
        note = f"{scored.unmet:,} of {len(expected):,} lines match no trace"
        say(f"tally: {options.expected}: {note}", err=True)
    gates: list[list[str]] = [[] for _ in runs]
    if options.fail_under is not None and options.formula is None:
        gates = [find_weak_scorers(run, options.fail_under) for run in runs]
    elif options.fail_under is not None:
        found = [find_shortfall(run, options.fail_under) for run in runs]
        gates = [[] if each is None else [each] for each in found]
    # A run of many traces holds only some results in memory; the store has all.
    whole: list[Run] = []
    if options.whole and not interrupted:
        kept, ids = options.keep, [run.record.id for run in runs]
        whole = [
            app.load_run(name) if kept else Run(run.record, results[name], kept=False)
            for name, run in zip(ids, runs, strict=True)
        ]
    undone = [find_unscored(run) for run in runs]
    return _ScoreOutcome(runs, gates, undone, {"broken": broken.count}, interrupted, whole)


def _warn_of_same_ids(found: Mapping[str, int]) -> None:
    """Warn of traces with the same id: a trace scored twice by mistake narrows the intervals."""
    count = sum(found.values())
    counted = f"{format_count(count, 'trace')} {'has' if count == 1 else 'have'}"
    names = ", ".join(islice(found, _SHOWN)) + (", ..." if len(found) > _SHOWN else "")
    said = f"{counted} the same name and id as another; each is a separate case: {names}"
    say(f"tally: warning: {said}", err=True)


def _take_results(
    scored: ScoredTraces,
    writer: AbstractContextManager[WriteResult],
    options: _ScoreOptions,
    seen: Mapping[str, None],
) -> tuple[Mapping[str, list[CaseResult]], bool]:
    """Writes all results; by run those that the end wants and no store has; whether Ctrl-C came."""
    results: dict[str, list[CaseResult]] = defaultdict(list)
    try:  # Ctrl-C goes through the writer: a file that is there is complete
        with writer as write:
            with closing(iter(scored)) as scoring:
                for result in scoring:
                    write(result)
                    if options.whole and not options.keep:
                        results[scored.run_id].append(result)
            if not any(run.tally.finished for run in scored.runs):
                raise _explain_nothing(options, seen)
    except KeyboardInterrupt:
        return results, True
    return results, False


def _explain_nothing(options: _ScoreOptions, seen: Mapping[str, None]) -> InvalidInput:
    """Why there is no result."""
    choice = options.choice
    if choice is None or not seen:
        return InvalidInput(f"there are no traces in {', '.join(options.paths)}")
    from tallymark.suites.chosen_cases import hint_at  # noqa: PLC0415 (loads all checks)

    hint = hint_at(next(iter(choice.only), ""), seen)
    return InvalidInput(f"no trace is chosen by {choice.by}", hint=hint)


def _read_chosen(
    options: _ScoreOptions,
    seen: dict[str, None],
    broken: _BrokenRecords,
    update: ProgressUpdate | None,
) -> Iterator[Trace]:
    """The traces that are wanted; `seen` takes some names of those that were passed."""
    traces = read_traces(
        [sys.stdin.buffer if path == "-" else path for path in options.paths],
        format=options.format,
        fields=options.fields,
        skip_broken=True,
        on_progress=update,
        on_broken=broken.note,  # which may end it
    )
    if options.choice is not None:
        traces = _choose_traces(traces, options.choice, seen)
    return islice(traces, options.limit)


def _open_scoring(  # noqa: PLR0913, PLR0917 (called once)
    options: _ScoreOptions,
    app: App,
    read: Callable[[], Iterator[Trace]],
    scorers: Sequence[Scorer],
    how: dict[str, Any],
    broken: _BrokenRecords,
    update: ProgressUpdate | None,
) -> tuple[ScoredTraces, AbstractContextManager[Callable[[], object]]]:
    """The traces as they are scored here, or by the workers of an engine while a context lasts.

    The context gives what is called when all that comes of them is where it belongs.
    """
    if options.engine is not None:
        from tallymark.service.trace_blocks import TraceInput, TraceScoring, judge_on_engine  # noqa: PLC0415 (only with --engine)

        some = options.choice is not None or options.limit is not None
        given = TraceInput(
            options.paths, options.format, read, some, options.limit, update, options.fields
        )
        if not given.is_small:
            judged = JudgedTraces(scorers, **how)
            work = TraceScoring(
                tuple(options.scorer),
                options.threshold,
                options.timeout,
                how["expected"],
                options.skip_broken,
            )
            return judged, judge_on_engine(
                options.engine,
                work,
                given,
                judged,
                app=app if options.keep else None,
                on_broken=broken.note,
            )
    return ScoredTraces(read(), scorers, **how), nullcontext(lambda: None)


def _choose_traces(
    traces: Iterable[Trace], choice: CaseChoice, seen: dict[str, None]
) -> Iterator[Trace]:
    """Yield the chosen traces; one without an id is named by its number among all."""
    from tallymark.suites.chosen_cases import Candidate  # noqa: PLC0415 (loads all checks)

    for number, trace in enumerate(traces, start=1):
        named = trace if trace.trace_id else replace(trace, trace_id=str(number))
        tags = trace.metadata.get("tags")
        known = map(str, tags) if isinstance(tags, list | tuple) else ()
        candidate = Candidate(name_trace(named), tuple(known))
        if len(seen) < _NAMES_REMEMBERED:
            seen[candidate.eval] = None
        if choice.takes(candidate):
            yield named


def _name_sources(paths: list[str]) -> str:
    """Name of a run of traces, from its files."""
    names = ["stdin" if path == "-" else Path(path).name or path for path in paths]
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


class _BrokenRecords:
    """Records that are passed over, the first shown and all counted; or the one that ends it."""

    def __init__(self, *, skip: bool) -> None:
        self.count = 0
        self._skip = skip

    def note(self, error: TraceError) -> None:
        if not self._skip and not isinstance(error, CutShort):
            raise _name_way_out(error)
        self.count += 1
        if self.count <= _SHOWN:
            word = "warning:" if isinstance(error, CutShort) else "skipped"
            say(f"tally: {word} {error.render()}", err=True)

    def tell(self) -> None:
        if self.count > _SHOWN:
            say(f"tally: skipped {self.count - _SHOWN:,} more", err=True)


def _name_way_out(error: TraceError) -> TraceError:
    """Add a hint about --skip-broken to the error of one record."""
    (problem, *_) = error.problems
    known = problem.hint or ""
    # One of the whole file has no line; one that was read here for workers comes back from them.
    if problem.place is None or problem.place.line is None or _WAY_OUT in known:
        return error
    hint = f"{known}; {_WAY_OUT}" if known else _WAY_OUT
    return TraceError(problem.message, place=problem.place, hint=hint)


def _run_suites(options: _ScoreOptions, app: App) -> _ScoreOutcome:
    suites = _choose_suites(options)
    runs = _run_each(suites, options, app)
    # After Ctrl-C, some suites have no run.
    gates = [_judge_suite(*each, options) for each in zip(suites, runs, strict=False)]
    passed = all(run.passed for run in runs)
    return _ScoreOutcome(
        runs, gates, [[] for _ in runs], {"passed": passed}, interrupted=runs[-1].interrupted
    )


def _judge_suite(suite: Suite, run: Run, options: _ScoreOptions) -> list[str]:
    """Why a suite's run is not good enough."""
    least = options.fail_under
    if least is None:
        return []
    if options.formula is None and suite.formula is None:
        # If the agent always failed, a scorer was never called, and the run has none.
        never = [name for name in suite.scorer_names if name not in run.scorers]
        unasked = [f"{name} had nothing to score (needs {format_number(least)})" for name in never]
        return [*find_weak_scorers(run, least), *unasked]
    said = find_shortfall(run, least)
    return [] if said is None else [said]


def _run_each(suites: Sequence[Suite], options: _ScoreOptions, app: App) -> list[Run]:
    """Their runs; after Ctrl-C those that were begun, and no file of results."""
    runs: list[Run] = []
    names = list(dict.fromkeys(name for suite in suites for name in suite.scorer_names))
    try:
        with show_progress("running") as update, _open_writer(options.output, names) as write:
            for suite in suites:
                runs.append(_run_suite(suite, options, app, update))
                for result in runs[-1].results if options.output else ():
                    write(result)
                if runs[-1].interrupted:
                    raise KeyboardInterrupt  # noqa: TRY301 (so that no file gets its name)
    except KeyboardInterrupt:
        if not runs or not runs[-1].interrupted:
            raise
    return runs


def _choose_suites(options: _ScoreOptions) -> list[Suite]:

    mine = {"--scorer": options.scorer, "--format": options.format, "--expected": options.expected}
    more = {"--map": options.fields, "--skip-broken": options.skip_broken}
    _refuse({**mine, **more}, "can only be used with traces, not with suites")
    suites = [suite for path in options.paths for suite in load_suites(Path(path))]
    if options.function is not None:
        agent = load_agent(options.function)
        suites = [suite.with_agent(agent) for suite in suites]
    if options.choice is not None:
        suites = _choose_tests(suites, options.choice)
    if options.limit is not None:
        by = f"--limit {options.limit}"
        suites = [suite.only(suite.tests[: options.limit], by=by) for suite in suites]
    if options.formula is not None:
        for suite in suites:  # before anything runs
            parse_formula(options.formula, suite)
    elif options.fail_under is not None and any(each.formula is None for each in suites):
        require_mean(options.fail_under)
    return suites


def _choose_tests(suites: list[Suite], choice: CaseChoice) -> list[Suite]:
    """The suites that have a test of the choice, with these tests."""
    from tallymark.suites.chosen_cases import Candidate  # noqa: PLC0415 (loads all checks)

    def name(test: Test) -> Candidate:
        return Candidate(test.name, test.tags)

    choice.choose([name(test) for suite in suites for test in suite.tests])
    chosen = [(each, [test for test in each.tests if choice.takes(name(test))]) for each in suites]
    return [suite.only(tests, by=choice.by) for suite, tests in chosen if tests]


def _run_suite(
    suite: Suite, options: _ScoreOptions, app: App, update: ProgressUpdate | None
) -> Run:
    from tallymark.suites import run  # noqa: PLC0415 (loads asyncio and OpenTelemetry)

    done = count(1)
    total = len(suite.tests) * suite.epochs
    return run(
        suite,
        threshold=options.threshold,
        timeout=options.timeout,
        formula=options.formula,
        store=app.run_keeper if options.keep else None,
        on_result=None if update is None else lambda _: update(next(done), total),
    )


def _refuse(given: dict[str, object], why: str) -> None:
    for option, value in given.items():
        if value:
            raise InvalidInput(f"{option} {why}")


def _read_expectations(path: Path | None) -> Mapping[str, Expected]:

    return {} if path is None else read_expectations(read_text(path).split("\n"), str(path))


def _open_writer(path: Path | None, scorers: list[str]) -> AbstractContextManager[WriteResult]:

    return nullcontext(lambda _: None) if path is None else open_result_file(path, scorers)
