"""Markdown for the summary of a CI job: a table of runs, and problems in collapsible blocks.

Text of a model, a tool or a user is in a code span or escaped in a block of HTML, so it can neither
break the table nor add markup, links or mentions.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tallymark.runs.problems import (
    list_exchange,
    list_problems,
    name_case,
    name_model,
)
from tallymark.runs.report_formats import ReportKind
from tallymark.runs.run import CaseView, Run
from tallymark.runs.score_matrix import find_best, make_matrix
from tallymark.text import (
    clean_excerpt,
    clean_line,
    format_money,
    format_percent,
    format_score,
    format_seconds,
)

if TYPE_CHECKING:
    from tallymark.runs.comparison import Comparison

MOST_CASES_SHOWN = 50
"""Failed cases in all runs together that are shown; CI systems refuse more than a megabyte."""
_MOST_TEXT = 1_500


def markdown_report(views: Sequence[Run], comparisons: Sequence[Comparison] = ()) -> str:
    """A row for each run, how they compare, and the cases that failed or could not run."""
    names = _name_runs(views)
    suites = dict.fromkeys(clean_line(view.record.suite, 100) for view in views)
    lines = [
        f"## {', '.join(write_code_span(suite) for suite in suites)}",
        "",
        *_write_matrix(views),
        *_write_table(views, names),
        "",
    ]
    formulas = {view.record.score_formula for view in views}
    if len(formulas) == 1:
        lines += [f"Score: {_write_formula(views[0])}", ""]
    else:
        lines += [
            f"- {name} is scored by {_write_formula(view)}"
            for name, view in zip(names, views, strict=True)
        ]
    for name, view in zip(names, views, strict=True):
        lines += _write_notes(view, name)
    lines += _write_comparisons(comparisons)
    room = MOST_CASES_SHOWN
    for name, view in zip(names, views, strict=True):
        failed, unrun = (_list_cases(view, status) for status in ("failed", "error"))
        lines += _write_failures(view, name, failed, unrun, room)
        room = max(0, room - len(failed) - len(unrun))
    return "\n".join(lines).rstrip() + "\n"


def _write_matrix(views: Sequence[Run]) -> Iterator[str]:
    """Scores with prompts down and models across, where there are several of both."""
    matrix = make_matrix(views) if len(views) > 1 else None
    if matrix is None or len(matrix.models) < 2:
        return
    best = find_best(views)
    heads = (write_cell(model) for model in matrix.models)
    yield f"| Prompt | {' | '.join(heads)} |"
    yield f"|:--|{'--:|' * len(matrix.models)}"
    for prompt, row in zip(matrix.prompts, matrix.cells, strict=True):
        scores = (
            ("-", False) if v is None else (format_score(v.score), v.record.id in best) for v in row
        )
        cells = (f"**{score}**" if marked else score for score, marked in scores)
        yield f"| {write_cell(prompt)} | {' | '.join(cells)} |"
    yield ""


def write_cell(text: str) -> str:
    """Anything in a cell of a table."""
    return write_code_span(clean_line(text, 100)).replace("|", "\\|")


def _write_comparisons(comparisons: Sequence[Comparison]) -> Iterator[str]:
    if comparisons:
        from tallymark.runs.reports.comparison_markdown import (  # noqa: PLC0415 (numpy is heavy)
            write_section,
        )

        for each in comparisons:
            yield from write_section(each)


def _write_table(views: Sequence[Run], names: Sequence[str]) -> Iterator[str]:
    yield "| Model | Score | 95 % interval | Success | Cost | Avg latency | Errors |"
    yield "|:--|--:|:-:|--:|--:|--:|--:|"
    for view, name in zip(views, names, strict=True):
        tally, total = view.tally, view.tally.all
        passed = f"{total.passed:,}/{total.ran:,}"
        passed += f" of {view.record.total:,}" if view.missing else ""
        cells = (
            name.replace("|", "\\|"),
            f"**{format_score(view.record.score)}**",
            "-" if view.interval is None else str(view.describe_interval()),
            f"{format_percent(view.metrics['success_pct'])} ({passed})",
            format_money(view.metrics["total_cost"]),
            format_seconds(view.metrics["avg_latency"]),
            f"{tally.errors:,}",
        )
        yield f"| {' | '.join(cells)} |"


def _write_notes(view: Run, model: str) -> Iterator[str]:
    """Notes below the table: why there is no score, and that a run did not complete."""
    record = view.record
    if view.part is not None:
        yield f"- {model} ran a part of its cases: {write_code_span(clean_line(view.part, 500))}"
    for note in view.rescore_notes:
        yield f"- {model} was rescored: {write_code_span(clean_line(note, 500))}"
    if record.score is None:
        why = clean_line(view.explain_no_score(), 500)
        yield f"- {model} has no score: {write_code_span(why)}"
    if view.unscored_cost is not None:
        yield f"- {model} was paid {view.unscored_cost}, which is not in its cost"
    if judged := view.metrics.get("judge_cost"):
        yield f"- {model} was judged for {format_money(judged)}, which is not in its cost"
    if (unrun := view.unrun) is not None:
        yield f"- {model} was cut short: {write_code_span(clean_line(unrun, 500))}"
    elif record.error is not None:
        yield f"- {model} ended with an error: {write_code_span(clean_line(record.error, 500))}"


def _list_cases(view: Run, status: str) -> list[str]:
    return [name for name, outcome in view.outcomes.items() if outcome.status == status]


def _write_failures(
    view: Run, name: str, failed: Sequence[str], unrun: Sequence[str], most: int
) -> Iterator[str]:
    if not failed and not unrun:
        return
    counts = [f"{len(failed):,} failed"] if failed else []
    counts += [f"{len(unrun):,} could not run"] if unrun else []
    yield from ("", f"### {name}: {', '.join(counts)}", "")
    wrong = [*failed, *unrun]
    for case in view.read_cases(wrong[:most]).values():
        yield from _write_details(case)
    if len(wrong) > most:
        yield f"And {len(wrong) - most:,} more."


def _write_details(case: CaseView) -> Iterator[str]:
    """One folded block, all of it HTML without an empty line, which would end it."""
    mark = "❌" if case.status == "failed" else "⚠️"
    worst = next(result for result in case.results if result.status == case.status)
    repeated = f" ({case.passed}/{len(case.results)} passed)" if len(case.results) > 1 else ""
    name = _escape_code(clean_line(name_case(worst), 200))
    yield f"<details><summary>{mark} {name}{repeated}</summary>"
    yield "<ul>"
    for title, why in list_problems(worst):
        named, said = clean_line(title, 100), clean_line(why, 500)
        yield f"<li>{_escape_code(named)}: {_escape_code(said)}</li>"
    yield "</ul>"
    for verb, text in list_exchange(worst):
        shown = html.escape(clean_excerpt(text, _MOST_TEXT)).replace("\n", "&#10;")
        yield f"{verb}:<pre>{shown}</pre>"
    yield "</details>"
    yield ""


def _name_runs(views: Sequence[Run]) -> list[str]:
    """Display name of each run: its model, with its id if several have the same."""
    models = [clean_line(name_model(view.record), 100) for view in views]
    count = Counter(models)
    return [
        write_code_span(model) + (f" ({write_code_span(view.record.id)})" * (count[model] > 1))
        for view, model in zip(views, models, strict=True)
    ]


def _write_formula(view: Run) -> str:
    return write_code_span(clean_line(view.record.score_formula, 1000))


def write_code_span(line: str) -> str:
    """A code span around anything: more backticks than there are in it."""
    ticks = "`" * (1 + max(map(len, re.findall("`+", line)), default=0))
    pad = " " if "`" in line or not line else ""
    return f"{ticks}{pad}{line}{pad}{ticks}"


def _escape_code(line: str) -> str:
    return f"<code>{html.escape(line)}</code>"


REPORT = ReportKind(
    write=markdown_report,
    reader="a CI job's summary",
    gives="a table with a row for each run, how they compare, what went wrong in folded blocks",
    compares=True,
)
