"""Table of report formats: file ending to module.

The modules are imported when a report is written: some are heavy, and `tally --help` lists the
endings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tallymark.runs.comparison import Comparison
    from tallymark.runs.run import Run


class ReportFormat(NamedTuple):
    """A line of the table."""

    module: str
    """With its `REPORT`."""
    called: str = ""
    """Name of the format, if it differs from its ending."""


class ReportKind(NamedTuple):
    """A report as its own file describes it."""

    write: Callable[..., str]
    """A pure function from runs to text, and from comparisons of them where it `compares`."""
    reader: str
    """For the docs: who reads it."""
    gives: str
    """For the docs: what stands in it."""
    stream: Callable[..., Iterator[str]] | None = None
    """Write a report with every result in small pieces."""
    compares: bool = False
    """True if the format shows comparisons."""

    def list_pieces(self, runs: Sequence[Run], comparisons: Sequence[Comparison]) -> Iterable[str]:
        """The text, in small pieces where it has every result."""
        given = (runs, comparisons) if self.compares else (runs,)
        return [self.write(*given)] if self.stream is None else self.stream(*given)


REPORT_FORMATS = {
    ".json": ReportFormat("tallymark.runs.reports.json_report"),
    ".csv": ReportFormat("tallymark.runs.reports.csv_report"),
    ".xml": ReportFormat("tallymark.runs.reports.junit_report", "JUnit"),
    ".md": ReportFormat("tallymark.runs.reports.markdown_report"),
    ".html": ReportFormat("tallymark.runs.reports.html_page"),
}
"""From the one for programs to the one for people."""


def load_report(ending: str) -> ReportKind:
    """The report that an ending of the table stands for."""
    found: ReportKind = import_module(REPORT_FORMATS[ending].module).REPORT
    return found
