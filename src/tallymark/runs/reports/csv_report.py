"""CSV: a row for every result, safe to open in a spreadsheet."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence

from tallymark.runs.problems import list_problems, name_case
from tallymark.runs.record import CaseResult, RunRecord
from tallymark.runs.report_formats import ReportKind
from tallymark.runs.run import Run
from tallymark.text import format_cell

COLUMNS = (
    "run", "suite", "model", "prompt", "case", "name", "epoch", "status", "latency", "cost",
    "input_tokens", "output_tokens", "tokens_counted_by", "tries",
    "checks", "checks_passed", "problems", "input", "output",
)  # fmt: skip


def csv_report(runs: Sequence[Run]) -> str:
    """All results of all runs, with a header. An unknown number is an empty cell."""
    return "".join(stream_csv(runs))


def stream_csv(runs: Sequence[Run]) -> Iterator[str]:
    """The rows of the report, one at a time."""
    row = io.StringIO(newline="")
    writer = csv.writer(row)
    writer.writerow(COLUMNS)
    for run in runs:
        for result in run.results:
            writer.writerow(_make_row(run.record, result))
            yield row.getvalue()
            row.seek(0)
            row.truncate()
    yield row.getvalue()


def _make_row(record: RunRecord, result: CaseResult) -> list[str | float | None]:
    why = "\n".join(f"{title}: {reason}" for title, reason in list_problems(result))
    return [
        format_cell(record.id),
        format_cell(record.suite),
        format_cell(record.model),
        format_cell(str(record.tags.get("prompt", ""))),
        format_cell(result.case),
        format_cell(name_case(result)),
        result.epoch,
        result.status,
        result.latency,
        result.cost,
        result.input_tokens,
        result.output_tokens,
        result.tokens_counted_by,
        result.tries,
        len(result.checks),
        sum(check.passed for check in result.checks),
        format_cell(why),
        format_cell(result.input),
        format_cell(result.output),
    ]


REPORT = ReportKind(
    write=csv_report,
    reader="spreadsheets",
    gives="a row for each result; text that a spreadsheet would take for a formula gets a "
    "`'` in front",
    stream=stream_csv,
)
