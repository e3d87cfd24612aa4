"""The runs of one command side by side, for the terminal."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from tallymark.runs.comparison import compare_all
from tallymark.runs.problems import list_problems, name_case, name_model
from tallymark.runs.reports.case_report import MARKS, STYLES
from tallymark.runs.reports.comparison_report import comparison_lines, comparisons_lines
from tallymark.runs.run import Run
from tallymark.runs.score_matrix import ScoreMatrix, find_best, make_matrix
from tallymark.runs.tally import CaseCounts
from tallymark.text import (
    StyledLine,
    Table,
    clean,
    clean_line,
    format_count,
    format_money,
    format_percent,
    format_score,
    format_seconds,
    get_columns,
    wrap_lines,
)

_MOST_CASES = 30
"""Rows of the table of cases; the others are counted."""
_MOST_WRONG = 5
"""Cases of a run whose reasons are shown."""


def group_lines(runs: Sequence[Run], *, brief: bool = False) -> Iterator[StyledLine | Table]:
    """All against the first, then a row for each; with several prompts, by prompt and model too.

    Brief, where no summary of each run stands before it, it begins with a table of cases by model.
    """
    if brief:
        yield from _write_cases(runs)
        for run in runs:
            yield from _write_wrong(run)
        yield StyledLine("")
    first = runs[0].tally.cases.keys()
    like = [run for run in runs if not first.isdisjoint(run.tally.cases)]
    if len(like) > 1:
        yield from (*_compare_runs(like), StyledLine(""))
    best = find_best(runs)
    matrix = make_matrix(runs)
    crossed = matrix is not None and len(matrix.models) > 1
    yield StyledLine(f"=== {'Prompts and Models' if crossed else 'Runs'} ===", "bold")
    if matrix is not None and crossed:
        yield from (_make_scores(matrix, best), StyledLine(""))
    yield _make_table(runs, best)
    if best:
        note = "* the highest score; the 95 % intervals say how sure that is"
        yield from wrap_lines(note, "dim")
    for run in runs:
        yield from _write_notes(run, brief=brief)


def _write_cases(runs: Sequence[Run]) -> Iterator[StyledLine | Table]:
    """Cases down, models across; of many cases, those first that did not pass everywhere."""
    counted = [run.tally.cases for run in runs]
    names = list(dict.fromkeys(name for cases in counted for name in cases))
    if len(names) > _MOST_CASES:
        names.sort(key=lambda name: all(_mark(cases.get(name)) == "✓" for cases in counted))
    shown = names[:_MOST_CASES]
    results = {
        name: case.results[0]
        for run in reversed(runs)
        for name, case in run.read_cases(shown).items()
    }
    rows = [
        (
            clean_line(name_case(results[name]) if name in results else name, 40),
            *(_mark(cases.get(name)) for cases in counted),
        )
        for name in shown
    ]
    totals = [run.tally.all for run in runs]
    rows.append(("passed", *(f"{each.passed:,}/{each.ran:,}" for each in totals)))
    rows.append(("score", *(format_score(run.score) for run in runs)))
    models = [name_model(run.record) for run in runs]
    if len(set(models)) < len(models):
        models = [f"{model} {run.record.id}" for model, run in zip(models, runs, strict=True)]
    yield StyledLine("=== Cases ===", "bold")
    yield Table(("case", *models), rows, right=models, cut=models)
    if len(names) > len(shown):
        yield StyledLine(f"and {format_count(len(names) - len(shown), 'more case')}", "dim")


def _mark(counts: CaseCounts | None) -> str:
    """`✓`, `✗`, `!` for an error, `2/3` over epochs, `-` where it did not run."""
    if counts is None or not counts.results:
        return "-"
    if counts.results > 1:
        return f"{counts.passed}/{counts.results}"
    return MARKS["error" if not counts.ran else "passed" if counts.passed else "failed"]


def _write_wrong(run: Run) -> Iterator[StyledLine]:
    """The cases of a run that failed or could not run, a line each with the first reason."""
    wrong = [*run.of_status("failed", _MOST_WRONG), *run.of_status("error", _MOST_WRONG)]
    if not wrong:
        return
    yield StyledLine("")
    yield from wrap_lines(clean_line(name_model(run.record), 100), "bold")
    for case in wrong[:_MOST_WRONG]:
        result = next(each for each in case.results if each.status == case.status)
        title, why = list_problems(result)[0]
        said = f"{MARKS[case.status]} {name_case(result, 40)}: {why or title}"
        yield StyledLine(f"  {clean_line(said, get_columns() - 2)}", STYLES[case.status])
    left = run.count_cases("failed") + run.count_cases("error") - _MOST_WRONG
    if left > 0:
        yield StyledLine(f"  and {left:,} more: tally show {run.record.id}", "dim")


def _write_notes(run: Run, *, brief: bool) -> Iterator[StyledLine]:
    """Notes that do not fit into a row of the table."""
    name = run.record.id
    if run.unrun is not None:
        yield from wrap_lines(f"{name}: {clean(run.unrun)}", "yellow")
    if run.unscored_cost is not None:
        yield from wrap_lines(f"{name}: and {run.unscored_cost}", "dim")
    if not brief:
        return
    if run.score is None:
        yield from wrap_lines(f"{name} has no score: {clean(run.explain_no_score())}", "red")
    if run.part is not None:
        yield from wrap_lines(f"{name}: {clean(run.part)}", "yellow")
    for note in run.rescore_notes:
        yield from wrap_lines(f"{name}: {clean(note)}", "yellow")
    if run.gates is not None:
        told = "; ".join(map(clean, run.gates))
        style = "red" if told else "green"
        gate = f"failed: {told}" if told else "passed"
        yield from wrap_lines(f"{name}: gate {gate}", style)


def _compare_runs(runs: Sequence[Run]) -> Iterator[StyledLine | Table]:
    """Two in full; of more, a line for each."""
    compared = compare_all(runs)
    if len(compared) == 1:
        yield from comparison_lines(compared[0])
        return
    yield StyledLine("=== Comparison ===", "bold")
    yield from comparisons_lines(compared)
    note = "each with the first run, over the cases that both ran; p worse is adjusted for "
    yield from wrap_lines(f"{note}{len(compared)} comparisons (Holm)", "dim")


def _make_scores(matrix: ScoreMatrix, best: Collection[str]) -> Table:
    rows = [
        (prompt, *("-" if run is None else _mark_score(run, best) for run in row))
        for prompt, row in zip(matrix.prompts, matrix.cells, strict=True)
    ]
    heads = ("SCORE", *matrix.models)
    return Table(heads, rows, right=matrix.models, cut=(*matrix.models, "SCORE"))


def _make_table(runs: Sequence[Run], best: Collection[str]) -> Table:
    prompt = ("PROMPT",) if any("prompt" in run.record.tags for run in runs) else ()
    numbers = ("SCORE", "95 % INTERVAL", "SUCCESS", "COST", "AVG LATENCY")
    rows = [
        (
            run.record.id,
            *(str(run.record.tags.get("prompt")) for _ in prompt),
            run.record.model,
            _mark_score(run, best),
            "-" if run.interval is None else " to ".join(map(format_score, run.interval)),
            format_percent(run.metrics["success_pct"]),
            format_money(run.metrics["total_cost"]),
            format_seconds(run.metrics["avg_latency"]),
        )
        for run in runs
    ]
    heads = ("RUN", *prompt, "MODEL", *numbers)
    cut, drop = (*prompt, "MODEL"), ("AVG LATENCY", "COST", "SUCCESS", "95 % INTERVAL")
    return Table(heads, rows, right=numbers, cut=cut, drop=drop)


def _mark_score(run: Run, best: Collection[str]) -> str:
    return f"{'* ' if run.record.id in best else ''}{format_score(run.score)}"
