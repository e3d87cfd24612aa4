"""Comparisons of runs as plain text for the terminal, as wide as it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tallymark.runs.comparison import (
    CHANGE_KINDS,
    CaseChange,
    ChangeKind,
    ComparedMeasure,
    Comparison,
    verdict,
)
from tallymark.runs.reports.summary_report import MOST
from tallymark.text import (
    StyledLine,
    Table,
    clean,
    clean_line,
    format_count,
    format_difference,
    format_money,
    format_p_value,
    format_percent,
    format_points,
    format_score,
    format_seconds,
    get_columns,
    wrap_lines,
)

_STYLES: dict[ChangeKind, str] = {
    "broken": "red",
    "worse": "red",
    "error_now": "yellow",
    "fixed": "green",
    "better": "green",
    "recovered": "green",
}
_INTERVAL = "95 % interval"
HEADER = ("", "first", "second", "difference", _INTERVAL, "p worse")
FormatNumber = Callable[[float | None], str]
TableRow = tuple[str, ...]


def comparison_text(comparison: Comparison, *, most: int = MOST) -> str:
    """Two runs side by side."""
    return "\n".join(map(str, comparison_lines(comparison, most=most)))


def comparison_lines(comparison: Comparison, *, most: int = MOST) -> list[StyledLine | Table]:
    """Lines with their styles; at most `most` cases of each kind are named."""
    rows = list(list_rows(comparison))
    lines: list[StyledLine | Table] = [StyledLine("=== Comparison ===", "bold")]
    lines += [*_write_sides(comparison), StyledLine("")]
    lines.append(Table(HEADER, rows, right=HEADER[1:], drop=(_INTERVAL, HEADER[-1])))
    note = f"over the {format_count(comparison.shared, 'case')} that both ran"
    note += "; p worse: chance of a drop this large if nothing changed"
    if comparison.compared > 1:
        note += f" (the score's adjusted for {comparison.compared} comparisons, by Holm)"
    lines += wrap_lines(note, "dim")
    for kind, title in CHANGE_KINDS.items():
        lines += _write_changes(comparison.of_kind(kind), title, _STYLES.get(kind, ""), most)
    lines += [StyledLine(""), StyledLine(f"Unchanged: {comparison.unchanged:,}")]
    lines += wrap_lines(*verdict_line(comparison))
    for warning in comparison.warnings:
        lines += wrap_lines(f"Careful: {clean(warning)}", "yellow")
    return lines


def verdict_line(comparison: Comparison) -> StyledLine:
    """The verdict on the second run, with its reason."""
    said = verdict(comparison)
    style = "bold red" if said.outcome == "worse" else "bold" if said.passes else "bold yellow"
    return StyledLine(f"{said.title}: {said.reason}", style)


def _write_sides(comparison: Comparison) -> Iterator[StyledLine]:
    for title, side in (("First", comparison.first), ("Second", comparison.second)):
        counts = f"{side.passed:,} passed, {side.failed:,} failed"
        errors = f", {format_count(side.errors, 'error')}" if side.errors else ""
        errors += f", {side.missing:,} not run" if side.missing else ""
        model, run = clean_line(side.title, 60), clean_line(side.id, 40)
        yield from wrap_lines(f"{title + ':':<8}{run} on {model} ({counts}{errors})")
    yield from wrap_lines(f"Score:  {clean_line(comparison.formula, 400)}")
    for side in (comparison.first, comparison.second):
        if side.score is None:
            told = clean(side.score_error or "it was not scored")
            yield from wrap_lines(f"  {side.id} has no score: {told}", "yellow")


def list_rows(comparison: Comparison) -> Iterator[TableRow]:
    """Each number that is compared, under `HEADER`."""
    score = list(_make_row("Score", comparison.score, format_score))
    score[-1] = format_p_value(comparison.p_value) if score[-1] != "-" else "-"
    yield tuple(score)
    if comparison.formula != "success_pct":
        yield _make_row("Success rate", comparison.success_pct, format_percent, format_points)
    yield _make_row("Total cost", comparison.total_cost, format_money)
    yield _make_row("Avg latency", comparison.avg_latency, format_seconds)


def _make_row(
    title: str, measure: ComparedMeasure, write: FormatNumber, change: FormatNumber | None = None
) -> TableRow:
    """A number in both runs; `change` writes the difference where it is not of the same kind."""
    found, change = measure.difference, change or write
    cells = ("-", "-", "-")
    if found.value is not None:
        ends = found.interval
        interval = "-" if ends is None else f"{change(ends.low)} to {change(ends.high)}"
        cells = (format_difference(change, found.value), interval, format_p_value(found.p_value))
    return (title, write(measure.first), write(measure.second), *cells)


def _write_changes(
    changes: Sequence[CaseChange], title: str, style: str, most: int
) -> Iterator[StyledLine]:
    if not changes:
        return
    yield from (StyledLine(""), StyledLine(f"{title}: {len(changes):,}", f"bold {style}".strip()))
    for change in changes[:most]:
        moved = f"{change.first or '-'} → {change.second or '-'}"
        repeated = not {change.first, change.second} <= {"", "0/1", "1/1"}
        yield StyledLine(
            f"  {clean_line(change.name, 60)}{f'  {moved}' if repeated else ''}", style
        )
        if change.reason:
            yield StyledLine(f"      {clean_line(change.reason, get_columns() - 6)}", "dim")
    if len(changes) > most:
        yield StyledLine(f"  and {len(changes) - most:,} more", "dim")


def comparisons_lines(comparisons: Sequence[Comparison]) -> Iterator[StyledLine | Table]:
    """Several runs against the first: a row for each."""
    first = comparisons[0].first
    heads = ("run", "model", "score", "difference", _INTERVAL, "p worse", "broken", "fixed")
    rows: list[TableRow] = [(first.id, first.title, format_score(first.score), *["-"] * 5)]
    for each in comparisons:
        _, _, _, change, interval, p_value = next(list_rows(each))
        lost, won = (
            str(sum(len(each.of_kind(kind)) for kind in kinds))
            for kinds in (("broken", "worse"), ("fixed", "better"))
        )
        score = format_score(each.second.score)
        named = (each.second.id, each.second.title)
        rows.append((*named, score, change, interval, p_value, lost, won))
    warned: dict[str, list[str]] = {}
    for each in comparisons:
        for warning in each.warnings:
            warned.setdefault(warning, []).append(each.second.id)
    notes = [
        clean(said if len(of) == len(comparisons) > 1 else f"{', '.join(of)}: {said}")
        for said, of in warned.items()
    ]
    yield Table(
        heads, rows, right=heads[2:], cut=("model",), drop=(_INTERVAL, "p worse", "fixed", "broken")
    )
    if notes:
        yield StyledLine("")
    for note in notes:
        yield from wrap_lines(f"Careful: {note}")
