"""Writing reports: the kind is told by the file's ending."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallymark.errors import InvalidInput, Problem, TallymarkError, WorkFailed
from tallymark.runs.report_formats import REPORT_FORMATS, load_report
from tallymark.text import escape, say

if TYPE_CHECKING:
    from tallymark.runs.comparison import Comparison
    from tallymark.runs.run import Run


def _describe_endings() -> str:
    """Such as `.html, .xml (JUnit) or .json`, what people read first."""
    words = [
        f"{ending} ({each.called})" if each.called else ending
        for ending, each in REPORT_FORMATS.items()
    ]
    first, *others = words
    return f"{', '.join(reversed(others))} or {first}"


ReportPaths = Annotated[
    list[Path] | None,
    typer.Option("--report", "-r", help=f"Write a {_describe_endings()}."),
]
"""The option of every command that writes reports."""


def check_reports(paths: Sequence[Path]) -> None:
    """Refuses what stands for no report or can be no file, before any work is done."""
    for path in paths:
        if path.suffix not in REPORT_FORMATS:
            called = ", ".join(f"{k} is {v.called}" for k, v in REPORT_FORMATS.items() if v.called)
            hint = f"end it with one of {', '.join(REPORT_FORMATS)} ({called})"
            raise InvalidInput(f"--report {path} has no ending that names a report", hint=hint)
        from tallymark.runs.result_files import check_place

        check_place(path)


def print_runs(document: Any) -> None:
    """One JSON document on stdout, in which runs stand; they are written result by result."""
    from tallymark.runs.reports.json_report import stream_document

    for piece in stream_document(document):
        sys.stdout.write(escape(piece))
    sys.stdout.write("\n")


def write_reports(
    paths: Sequence[Path], runs: Sequence[Run], comparisons: Sequence[Comparison] = ()
) -> None:
    """Writes each report whole or not at all; the places were looked at before."""
    problems: list[Problem] = []
    for path in paths:
        from tallymark.runs.result_files import open_whole_file

        kind = load_report(path.suffix)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with open_whole_file(path) as file:
                for piece in kind.list_pieces(runs, comparisons):
                    file.write(piece.encode())
        except TallymarkError as error:
            problems += error.problems
        except OSError as error:
            problems.append(Problem(f"cannot write {path}: {error.strerror or error}"))
        else:
            say(f"wrote {path}", err=True)
    if problems:
        raise WorkFailed(problems)
