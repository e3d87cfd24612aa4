"""Reports as text for people: plain tables, at most 80 columns where names allow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallymark.text import (
    UNDEFINED,
    align_numbers,
    format_count,
    format_milliseconds,
    shorten_utf8_line,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tallymark.runs.metrics import FormulaScore
    from tallymark.runs.scorer_summary import ScorerSummary
    from tallymark.suites.python_suites.suite_report import Report, TestResult
    from tallymark.suites.scored_traces import StoredSummary

WIDTH = 80
TESTS_SHOWN = 10
"""Tests of one kind that are shown in full; the others are counted."""
TRACES_SHOWN = 5
"""Stored traces that are shown in full."""


def render_report(report: Report) -> str:
    """A run of a suite: how many passed, what each scorer came to, what went wrong."""
    counts = report.counts
    parts = [f"{counts['passed']} of {len(report.results)} passed"]
    parts += [f"{counts['failed']} failed"] if counts["failed"] else []
    parts += [f"{counts['error']} in error"] if counts["error"] else []
    parts += [format_milliseconds(report.duration_ms)]
    if report.interrupted:
        parts.append(f"stopped before {report.planned - len(report.results)} more")
    lines = [f"{report.suite}: {', '.join(parts)}", "", *_make_scorer_table(report.scorers)]
    for title, status in (("failed", "failed"), ("could not be judged", "error")):
        found = [result for result in report.results if result.status == status]
        lines += _list_section(title, found)
    return "\n".join(lines)


def render_stored(summary: StoredSummary) -> str:
    """Stored traces: how many passed, what each scorer came to, and the worst of them."""
    share = f"{100 * summary.passed / summary.traces:.0f} %" if summary.traces else "none"
    lines = [
        f"{format_count(summary.traces, 'trace')}, {summary.passed:,} passed ({share})",
        "",
        *_make_scorer_table(summary.scorers),
    ]
    errors = [
        shorten_utf8_line(f"unscored: {attribute_error(name, each.first_error)}", WIDTH)
        for name, each in summary.scorers.items()
        if each.first_error is not None
    ]
    lines += ["", *errors] if errors else []
    if summary.formula is not None:
        lines += ["", formula_line(summary.formula)]
    bad = summary.traces - summary.passed
    if bad:
        lines += ["", f"did not pass: {bad:,}" + (", the worst first" if bad > 1 else "")]
        for result in summary.worst[:TRACES_SHOWN]:
            lines += _list_problems(result, _name_trace(result))
        if bad > TRACES_SHOWN:
            lines.append(f"  and {bad - TRACES_SHOWN:,} more; -o FILE has them all")
    return "\n".join(lines)


def _name_trace(result: TestResult) -> str:
    known = [part for part in (result.trace.trace_id, result.name) if part]
    return " ".join(known) or "a trace without id and name"


def _list_problems(result: TestResult, title: str) -> list[str]:
    lines = [f"  {shorten_utf8_line(title, WIDTH - 2)}"]
    return lines + [f"    {shorten_utf8_line(problem, WIDTH - 4)}" for problem in result.problems()]


def _list_section(title: str, results: Sequence[TestResult]) -> list[str]:
    if not results:
        return []
    lines = ["", title]
    for result in results[:TESTS_SHOWN]:
        epoch = f", epoch {result.epoch}" if result.epoch > 1 else ""
        lines += _list_problems(result, result.name + epoch)
    if len(results) > TESTS_SHOWN:
        lines.append(f"  and {len(results) - TESTS_SHOWN:,} more")
    return lines


def _make_scorer_table(scorers: Mapping[str, ScorerSummary]) -> list[str]:
    """A line for every scorer, and under them how often each label was given."""
    rows = [("scorer", "mean", "95 % interval", "scored", "unscored")]
    labels = []
    for name, each in scorers.items():
        interval = "-" if each.low is None else f"{each.low:.3f} to {each.high:.3f}"
        mean = "-" if each.mean is None else f"{each.mean:.3f}"
        rows.append((name, mean, interval, f"{each.scored:,}", f"{each.unscored:,}"))
        if each.labels:
            told = ", ".join(f"{label} {count:,}" for label, count in each.labels.items())
            labels.append(shorten_utf8_line(f"{name}: {told}", WIDTH))
    return [*align_numbers(rows), *(["", *labels] if labels else [])]


def formula_line(found: FormulaScore) -> str:
    """The formula with its score, or why it has none."""
    if found.score is None:
        return f"{found.formula} is {UNDEFINED}\n  {found.error}"
    return f"{found.formula} = {found.score:g}"


def attribute_error(scorer: str, error: str) -> str:
    """An error with the scorer's name, which most errors have already."""
    return error if error.startswith(scorer) else f"{scorer}: {error}"
