"""Writing reports: the kind is told by the file's ending."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tallymark.errors import InvalidInput, WorkFailed
from tallymark.runs.report_formats import REPORT_FORMATS, load_report

if TYPE_CHECKING:
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
    """Refuses endings that stand for no report, before any work is done."""
    for path in paths:
        if path.suffix not in REPORT_FORMATS:
            called = ", ".join(f"{k} is {v.called}" for k, v in REPORT_FORMATS.items() if v.called)
            hint = f"end it with one of {', '.join(REPORT_FORMATS)} ({called})"
            raise InvalidInput(f"--report {path} has no ending that names a report", hint=hint)


def write_reports(paths: Sequence[Path], runs: Sequence[Run]) -> None:
    """Writes each report whole or not at all."""
    for path in paths:
        text = load_report(path.suffix).write(runs)
        part = path.with_name(f"{path.name}.part")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            part.write_text(text, encoding="utf-8")
            part.replace(path)
        except OSError as error:
            part.unlink(missing_ok=True)
            raise WorkFailed(f"cannot write {path}: {error.strerror or error}") from None
