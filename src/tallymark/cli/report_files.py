"""Writing reports: the kind is told by the file's ending."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tallymark.errors import InvalidInput, WorkFailed

if TYPE_CHECKING:
    from tallymark.runs.run import Run

REPORT_ENDINGS = (".json", ".csv", ".xml", ".md", ".html")


def check_reports(paths: Sequence[Path]) -> None:
    """Refuses endings that stand for no report, before any work is done."""
    for path in paths:
        if path.suffix not in REPORT_ENDINGS:
            hint = f"end it with one of {', '.join(REPORT_ENDINGS)} (.xml is JUnit)"
            raise InvalidInput(f"--report {path} has no ending that names a report", hint=hint)


def write_reports(paths: Sequence[Path], runs: Sequence[Run]) -> None:
    """Writes each report whole or not at all."""
    for path in paths:
        text = _choose_report(path.suffix)(runs)
        part = path.with_name(f"{path.name}.part")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            part.write_text(text, encoding="utf-8")
            part.replace(path)
        except OSError as error:
            part.unlink(missing_ok=True)
            raise WorkFailed(f"cannot write {path}: {error.strerror or error}") from None


def _choose_report(ending: str) -> Callable[[Sequence[Run]], str]:
    if ending == ".html":
        from tallymark.runs.reports.html_page import html_report

        return html_report
    from tallymark.runs import reports

    return {
        ".json": reports.json_report,
        ".csv": reports.csv_report,
        ".xml": reports.junit_report,
        ".md": reports.markdown_report,
    }[ending]
