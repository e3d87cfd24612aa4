"""`tally show`: one run with its cases and its score explained, or one case with its answer."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated

import typer

from tallymark.cli.app_session import Db, Server, name_server, open_resources
from tallymark.cli.progress import show_progress
from tallymark.cli.report_files import ReportPaths, check_reports, print_runs, write_reports
from tallymark.cli.run_ending import Quiet
from tallymark.cli.streams import print_json
from tallymark.errors import NotFound, suggest
from tallymark.text import StyledLine, complete_command, list_some, say, wrap_lines

if TYPE_CHECKING:
    from tallymark.runs.run import CaseView, Run


def show(  # noqa: PLR0913, PLR0917 (the options of a command)
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="An id, its beginning, a name, latest or latest~1.")
    ] = "latest",
    case: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Show this case: prompt, whole answer, every check."),
    ] = None,
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
            from tallymark.runs.reports.summary_report import closing_line

            say(closing_line([loaded], there))
        else:
            _show_run(loaded, limit, there or "")
        write_reports(report or [], [loaded])


def _show_run(run: Run, limit: int, there: str) -> None:
    from tallymark.runs.reports.summary_report import summary_lines

    lines = summary_lines(run, most=limit, whole=True)
    some = run.of_status("failed", 1) or run.of_status("error", 1) or run.of_status("passed", 1)
    if some:
        typed = f"tally show {run.record.id} --case {shlex.quote(some[0].name)}{there}"
        hint = complete_command(f"look closer: {typed}")
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
    from tallymark.runs.problems import show_result
    from tallymark.runs.reports.case_report import case_lines
    from tallymark.scoring.score import make_json_safe

    if as_json:
        results = [make_json_safe(show_result(each)) for each in case.results]
        print_json({"run": run.record.id, "case": case.name, "results": results})
    else:
        say(*case_lines(run, case))
