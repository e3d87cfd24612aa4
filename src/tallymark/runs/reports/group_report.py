"""The runs of one command side by side, for the terminal."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from tallymark.runs.comparison import compare_all
from tallymark.runs.reports.comparison_report import comparison_lines, comparisons_lines
from tallymark.runs.run import Run
from tallymark.runs.score_matrix import ScoreMatrix, find_best, make_matrix
from tallymark.text import (
    StyledLine,
    Table,
    clean,
    format_money,
    format_percent,
    format_score,
    format_seconds,
    wrap_lines,
)


def group_lines(runs: Sequence[Run]) -> Iterator[StyledLine | Table]:
    """All against the first, then a row for each; with several prompts, by prompt and model too."""
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
    for run in runs:
        if run.unrun is not None:
            yield from wrap_lines(f"{run.record.id}: {clean(run.unrun)}", "yellow")
        if run.unscored_cost is not None:
            yield from wrap_lines(f"{run.record.id}: and {run.unscored_cost}", "dim")
    if best:
        note = "* the highest score; the 95 % intervals above say how sure that is"
        yield from wrap_lines(note, "dim")


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
    numbers = ("SCORE", "SUCCESS", "COST", "AVG LATENCY")
    rows = [
        (
            run.record.id,
            *(str(run.record.tags.get("prompt")) for _ in prompt),
            run.record.model,
            _mark_score(run, best),
            format_percent(run.metrics["success_pct"]),
            format_money(run.metrics["total_cost"]),
            format_seconds(run.metrics["avg_latency"]),
        )
        for run in runs
    ]
    heads = ("RUN", *prompt, "MODEL", *numbers)
    cut, drop = (*prompt, "MODEL"), ("AVG LATENCY", "COST", "SUCCESS")
    return Table(heads, rows, right=numbers, cut=cut, drop=drop)


def _mark_score(run: Run, best: Collection[str]) -> str:
    return f"{'* ' if run.record.id in best else ''}{format_score(run.score)}"
