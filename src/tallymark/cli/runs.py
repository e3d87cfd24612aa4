"""`tally runs` and `tally show`: stored runs."""

from __future__ import annotations

import shlex
import time
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Literal, get_args

import msgspec
import typer

from tallymark.cli.options import CommandGroup, Db, Json, Limit, Quiet, Server, float_option
from tallymark.cli.progress import show_progress
from tallymark.cli.run_output import ReportPaths, check_reports, print_runs, write_reports
from tallymark.cli.session import name_server, open_resources
from tallymark.cli.streams import confirm, print_json
from tallymark.errors import InvalidInput, NotFound, suggest
from tallymark.runs.problems import name_model, name_suite, show_result
from tallymark.text import (
    StyledLine,
    Table,
    complete_command,
    format_moment,
    format_money,
    format_score,
    list_some,
    say,
    wrap_lines,
)

if TYPE_CHECKING:
    from tallymark.runs.record import RunRecord
    from tallymark.runs.run import CaseView, Run

# Written out again here: importing them would load the database for `tally --help`.
SortOption = Literal["created_at", "started_at", "finished_at", "score", "suite", "model", "status"]
RunReason = Annotated[str, typer.Option("--reason", help="Reason, stored in the log.")]
StatusOption = Literal[
    "queued", "running", "completed", "partial_failure", "failed", "cancelled", "interrupted"
]


def _list_values(option: object) -> str:
    """The values of an option, as `a, b or c`."""
    *others, last = get_args(option)
    return f"{', '.join(others)} or {last}"


app = typer.Typer(cls=CommandGroup)


@app.callback(invoke_without_command=True)
def runs(  # noqa: PLR0913, PLR0917 (the options of a command)
    context: typer.Context,
    suite: Annotated[str | None, typer.Option(help="Only runs of this suite.")] = None,
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="Only runs of this model.")
    ] = None,
    status: Annotated[
        StatusOption | None,
        typer.Option(
            metavar="STATUS", help=f"Only runs with this status: {_list_values(StatusOption)}."
        ),
    ] = None,
    group: Annotated[
        str | None, typer.Option(help="Only runs of one command, by its id or the start of it.")
    ] = None,
    days: Annotated[float | None, float_option(min=0, help="Only runs of the last N days.")] = None,
    min_score: Annotated[
        float | None, typer.Option(help="Only runs with at least this score.")
    ] = None,
    sort: Annotated[
        SortOption, typer.Option(metavar="COLUMN", help=f"Sort by {_list_values(SortOption)}.")
    ] = "created_at",
    ascending: Annotated[
        bool, typer.Option("--ascending", help="Show the lowest or oldest first.")
    ] = False,
    limit: Limit = 20,
    db: Db = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """List runs, newest first; delete or rename one that has ended."""
    if (command := context.invoked_subcommand) is not None:
        _refuse_options(context, command)
        return
    since = None if days is None else time.time() - days * 86_400
    order: Literal["asc", "desc"] = "asc" if ascending else "desc"
    with open_resources(db, server) as tally:
        found = list(
            islice(
                tally.runs.list(
                    suite,
                    model,
                    status=status,
                    group=group,
                    since=since,
                    min_score=min_score,
                    sort=sort,
                    order=order,
                ),
                limit,
            )
        )
    if as_json:
        print_json({"runs": msgspec.to_builtins(found)})
    elif found:
        say(_make_table(found))
    elif any(each is not None for each in (suite, model, status, group, days, min_score)):
        say("no run matches; list all: tally runs", wrap=True)
    else:
        say("no runs; start one with: tally run suite.yaml", wrap=True)


def _refuse_options(context: typer.Context, command: str) -> None:
    """Refuse options before the name of a subcommand, which would be ignored."""
    for option in context.command.params:
        source = context.get_parameter_source(option.name or "")
        if source is not None and source.name == "COMMANDLINE":
            raise InvalidInput(
                f"{option.opts[-1]} stands before {command!r}",
                hint=f"write it after {command!r}",
            )


@app.command()
def delete(
    run: Annotated[list[str], typer.Argument(help="Runs, by id, the start of an id, or name.")],
    reason: RunReason = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    db: Db = None,
    server: Server = None,
) -> None:
    """Delete runs that have ended, with their results. The log keeps a record of it."""
    with open_resources(db, server) as tally:
        for record in [tally.runs.get(each) for each in run]:
            called = f"{record.id}, {record.suite} with {record.model}"
            if confirm(f"Delete the run {called}?", yes=yes):
                tally.runs.delete(record.id, reason)
                say(f"deleted {called}")


@app.command()
def rename(
    run: Annotated[str, typer.Argument(help="Run: its id, the start of it, or its present name.")],
    name: Annotated[
        str, typer.Argument(help="New name, which commands accept in place of the id.")
    ],
    reason: RunReason = "",
    db: Db = None,
    server: Server = None,
) -> None:
    """Name a run that has ended."""
    with open_resources(db, server) as tally:
        found = tally.runs.rename(run, name, reason)
    say(f"{found.id} is now called {_read_name(found)}")


def _describe_passed(record: RunRecord) -> str:
    """`3/4`, and `2/2 of 4` where not all ran."""
    ran = record.passed + record.failed
    total = max(record.total, ran + record.errors)
    return f"{record.passed:,}/{ran:,}{f' of {total:,}' if ran < total else ''}"


def _make_table(found: list[RunRecord]) -> Table:

    # Few runs have a name: the column is there when one has.
    name = ["NAME"] if any(_read_name(each) for each in found) else []
    heads = ("RUN", *name, "STARTED (UTC)", "SUITE", "MODEL", "SCORE", "PASSED", "COST", "STATUS")
    rows = []
    for each in found:
        cost = each.metrics.get("total_cost")
        rows.append(
            (
                each.id,
                *(_read_name(each) for _ in name),
                format_moment(each.created_at),
                name_suite(each),
                name_model(each),
                "-" if each.score is None else format_score(each.score),
                _describe_passed(each),
                "-" if cost is None else format_money(cost),
                each.status,
            )
        )
    return Table(
        heads,
        rows,
        right=("SCORE", "PASSED", "COST"),
        cut=(*name, "SUITE", "MODEL"),
        drop=("COST", "STATUS", "STARTED (UTC)"),
    )


def _read_name(record: RunRecord) -> str:
    """Name given to a run, or an empty string."""
    return str(record.tags.get("name", ""))


def show(  # noqa: PLR0913, PLR0917 (the options of a command)
    run: Annotated[
        str,
        typer.Argument(
            metavar="RUN", help="Run: an id, the start of an id, a name, latest or latest~1."
        ),
    ] = "latest",
    case: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Show one case: prompt, full answer, every check."),
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=0, help="Show at most N cases of each kind.")
    ] = 20,
    report: ReportPaths = None,
    quiet: Quiet = False,
    db: Db = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Show a run: its score, how it was computed, and its cases."""
    check_reports(report or [])
    with open_resources(db, server) as tally:
        there = name_server(tally, server)
        with show_progress("loading"):
            loaded = tally.runs.load(run, traces=bool(report) or as_json)
        if case is not None:
            _show_case(loaded, _find_case(loaded, case), as_json=as_json)
        elif as_json:
            print_runs(loaded)
        elif quiet:
            from tallymark.runs.reports.summary_report import closing_line  # noqa: PLC0415 (a list of runs does without it)

            say(closing_line([loaded], there))
        else:
            _show_run(loaded, limit, there or "")
        write_reports(report or [], [loaded])


def _show_run(run: Run, limit: int, there: str) -> None:
    from tallymark.runs.reports.summary_report import summary_lines  # noqa: PLC0415 (a list of runs does without it)

    lines = summary_lines(run, most=limit, whole=True)
    some = run.of_status("failed", 1) or run.of_status("error", 1) or run.of_status("passed", 1)
    if some:
        typed = f"tally show {run.record.id} --case {shlex.quote(some[0].name)}{there}"
        hint = complete_command(f"details: {typed}")
        lines += [StyledLine(""), *wrap_lines(hint, "bold")]
    say(*lines)


def _find_case(run: Run, name: str) -> CaseView:
    found = run.read_cases([name])
    if found:
        return found[name]
    names = list(run.outcomes)
    near = suggest(name, names)
    hint = f"did you mean {near!r}?" if near else f"its cases are {list_some(names)}"
    raise NotFound(f"the run {run.record.id} has no case {name!r}", hint=hint)


def _show_case(run: Run, case: CaseView, *, as_json: bool) -> None:
    from tallymark.runs.reports.case_report import case_lines  # noqa: PLC0415 (a list of runs does without it)
    from tallymark.scoring.score import make_json_safe  # noqa: PLC0415 (loads the scorers)

    if as_json:
        results = [make_json_safe(show_result(each)) for each in case.results]
        print_json({"run": run.record.id, "case": case.name, "results": results})
    else:
        say(*case_lines(run, case))
