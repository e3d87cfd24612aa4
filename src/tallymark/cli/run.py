"""`tally run`: a suite against models."""

from __future__ import annotations

import sys
from contextlib import nullcontext, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tallymark.cli.app_session import Db, open_app
from tallymark.cli.report_files import check_reports, write_reports
from tallymark.cli.streams import print_json
from tallymark.errors import InvalidInput

if TYPE_CHECKING:
    from tallymark.app.app import App
    from tallymark.app.runs import RunOptions
    from tallymark.cli.run_watch import PlainWatch
    from tallymark.runs.record import Run, RunRecord


@dataclass(frozen=True)
class _RunGates:
    fail_under: float | None
    baseline: str | None
    fail_on_regression: bool


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
    report: Annotated[
        list[Path] | None,
        typer.Option("--report", "-r", help="Write a .html, .md, .xml (JUnit), .csv or .json."),
    ] = None,
    fail_under: Annotated[
        float | None, typer.Option(help="Exit with 1 when a score is lower, or undefined.")
    ] = None,
    baseline: Annotated[
        str | None, typer.Option(metavar="RUN", help="A run to compare the first model with.")
    ] = None,
    fail_on_regression: Annotated[
        bool, typer.Option("--fail-on-regression", help="Exit with 1 when worse than --baseline.")
    ] = False,
    db: Db = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Run a suite against one or more models, and score the runs by its formula."""
    from tallymark.app.runs import RunOptions
    from tallymark.cli.run_watch import choose_watch
    from tallymark.suites.suite_evaluation import RunLimits

    if (suite is None) == (resume is None):
        raise InvalidInput("give a suite, or a run to resume", hint="as in: tally run suite.yaml")
    if fail_on_regression and baseline is None:
        raise InvalidInput("--fail-on-regression needs --baseline", hint="add --baseline RUN")
    check_reports(report or [])
    options = RunOptions(
        RunLimits(
            epochs, limit, threads, None if retries is None else retries + 1, timeout, budget
        ),
        _read_values(var or [], env_file),
        judge,
        record,
        cache,
    )
    gates = _RunGates(fail_under, baseline, fail_on_regression)
    # What a user's code prints must not get into our JSON document.
    with open_app(db) as app, redirect_stdout(sys.stderr) if as_json else nullcontext():
        before = app.runs.load_run(baseline) if baseline is not None else None
        watch = choose_watch()
        records = _run_suite(app, suite, resume, model or [], options, watch)
        runs = [app.runs.load_run(each.id) for each in records]
        write_reports(report or [], runs)
        document, text, failures = _sum_up(runs, before, gates)
    if as_json:
        print_json(document)
    else:
        typer.echo(text)
    for failure in failures:
        typer.echo(f"tally: {failure}", err=True)
    if failures:
        raise typer.Exit(1)
    if all(each.status == "failed" for each in records):
        typer.echo("tally: no case could be run; see the errors above", err=True)
        raise typer.Exit(3)


def _run_suite(
    app: App,
    suite: Path | None,
    resume: str | None,
    models: list[str],
    options: RunOptions,
    watch: PlainWatch,
) -> list[RunRecord]:
    from tallymark.suites.suite_file import load_suite

    try:
        if resume is not None:
            return [app.runs.resume(resume, options, watch)]
        return app.runs.run(load_suite(suite or Path()), models, options, watch)
    except KeyboardInterrupt:
        known = f"tally run --resume {watch.current}" if watch.current else "tally run"
        typer.echo(f"\ntally: stopped; what is done is kept; go on with: {known}", err=True)
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


def _sum_up(
    runs: list[Run], before: Run | None, gates: _RunGates
) -> tuple[dict[str, object], str, list[str]]:
    """The JSON document, the text, and which gates failed."""
    from tallymark.runs.reports import run_document, summary

    text = "\n\n".join(summary(record, results) for record, results in runs)
    document: dict[str, object] = {"runs": [run_document(*each) for each in runs]}
    failures = [
        said for record, _ in runs if (said := _explain_shortfall(record, gates.fail_under))
    ]
    if len(runs) < 2 and before is None:
        return document, text, failures
    from tallymark.runs.comparison import compare, verdict
    from tallymark.runs.reports.comparison_report import comparison_text

    for each in runs[1:]:
        text += "\n\n" + comparison_text(compare(runs[0], each))
    if before is not None:
        comparison = compare(before, runs[0])
        judged = verdict(comparison)
        document["comparison"] = comparison.to_dict()
        text += "\n\n" + comparison_text(comparison)
        if gates.fail_on_regression and judged.regression:
            failures.append(f"worse than the baseline {before[0].id}: {judged.reason}")
    return document, text, failures


def _explain_shortfall(record: RunRecord, least: float | None) -> str | None:
    if least is None or (record.score is not None and record.score >= least):
        return None
    if record.score is None:
        return f"{record.model} has no score, which counts as under {least:g}: {record.score_error}"
    return f"{record.model} scored {record.score:g}, under {least:g}"
