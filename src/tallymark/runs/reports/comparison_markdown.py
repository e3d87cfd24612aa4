"""Comparison of two runs as Markdown: numbers, verdict, and changed cases.

As in the summary of a CI job, texts of others are in code spans.
"""

from __future__ import annotations

from collections.abc import Iterator

from tallymark.runs.comparison import CHANGE_KINDS, ComparedRun, Comparison, verdict
from tallymark.runs.reports.comparison_report import HEADER, list_rows
from tallymark.runs.reports.markdown_report import write_code_span
from tallymark.text import clean_line

MOST_CASES = 10
"""Maximum number of cases of each kind of change."""


def write_section(comparison: Comparison) -> Iterator[str]:
    """With a heading that names both runs, and the formula that scores them."""
    first, second = comparison.first, comparison.second
    yield from ("", f"### {_name_run(second)} against {_name_run(first)}", "")
    formula = write_code_span(clean_line(comparison.formula, 1000))
    yield from (f"Over the cases that both ran: {comparison.shared:,}. Score: {formula}", "")
    yield from write_comparison(comparison)


def write_comparison(
    comparison: Comparison, sides: tuple[str, str] = (HEADER[1], HEADER[2])
) -> Iterator[str]:
    """A table with a column for each of the two sides, the verdict, and what changed."""
    yield f"| {' | '.join((HEADER[0], *sides, *HEADER[3:]))} |"
    yield f"|:--|{'--:|' * (len(HEADER) - 1)}"
    for row in list_rows(comparison):
        yield f"| {' | '.join(row)} |"
    said = verdict(comparison)
    yield from ("", f"**{said.title}**: {clean_line(said.reason, 500)}")
    yield from (f"Careful: {clean_line(each, 500)}" for each in comparison.warnings)
    for kind, title in CHANGE_KINDS.items():
        changes = comparison.of_kind(kind)
        if changes:
            yield from ("", f"{title}: {len(changes):,}")
        for change in changes[:MOST_CASES]:
            why = f": {write_code_span(clean_line(change.reason, 200))}" if change.reason else ""
            yield f"- {write_code_span(clean_line(change.name, 100))}{why}"
        if len(changes) > MOST_CASES:
            yield f"- and {len(changes) - MOST_CASES:,} more"


def _name_run(run: ComparedRun) -> str:
    return f"{write_code_span(clean_line(run.title, 60))} ({write_code_span(run.id)})"
