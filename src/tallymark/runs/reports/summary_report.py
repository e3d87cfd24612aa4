"""The summary of one run for the terminal: plain text as wide as it is, colours apart."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Sequence

from tallymark.runs.ongoing_run import ENDING_WORDS
from tallymark.runs.problems import (
    list_exchange,
    list_problems,
    name_case,
    name_model,
    name_suite,
)
from tallymark.runs.record import CaseStatus
from tallymark.runs.repeats import Repeats
from tallymark.runs.reports.case_report import MARKS, STYLES
from tallymark.runs.run import CaseView, Run
from tallymark.runs.scorer_summary import LabelAgreement, ScorerSummary
from tallymark.text import (
    UNDEFINED,
    StyledLine,
    align_numbers,
    clean,
    clean_line,
    fit_line,
    format_count,
    format_mean,
    format_mean_ends,
    format_money,
    format_percent,
    format_score,
    format_seconds,
    format_share,
    get_columns,
    wrap_lines,
)

MOST = 20
"""Cases of each status that are shown; the others are counted."""
_SECTIONS: tuple[tuple[CaseStatus, str], ...] = (
    ("failed", "Failed"),
    ("error", "Errors"),
    ("passed", "Passed"),
)
_MOST_REASONS = 5
_MOST_TEXT = 124
"""Maximum lines of a prompt or answer; the other reports have all of it."""
_MOST_WHOLE_TEXT = 600
"""Maximum lines when the user asked for the run; `--case` shows everything."""
_MOST_NAMES = 8
"""Maximum number of passed cases that are named."""
_MOST_LABELS = 6
"""Maximum number of labels in a row; the JSON report has all."""


def summary(run: Run, *, most: int = MOST) -> str:
    """The summary as plain text."""
    return "\n".join(line.text for line in summary_lines(run, most=most))


def summary_lines(
    run: Run, *, most: int = MOST, folded: bool = False, whole: bool = False
) -> list[StyledLine]:
    """The cases, `most` of each status, the terms of the score, and last the score itself.

    Short: passed cases are only named, and terms show only their shares. Full: every case also
    shows its prompt, answer and checks.
    """
    lines: list[StyledLine] = []
    for status, title in _SECTIONS:
        if folded and status == "passed":
            lines += _fold_passed(run)
        else:
            lines += _write_cases(run, status, title, most, whole=whole)
    if run.tally.scorers:
        lines += _write_scorers(run)
    if run.repeated:
        lines += _write_repeats(run, most)
    if explained := list(run.explain_score(get_columns() - 2, tree=not folded)):
        lines += [StyledLine(""), StyledLine("How the Score Comes About", "bold")]
        lines += [StyledLine(f"  {line}".rstrip()) for line in explained]
    lines += [StyledLine(""), StyledLine("=== Run Summary ===", "bold")]
    return [*lines[1:], *_write_score(run), *_write_measures(run)]


def closing_line(runs: Sequence[Run], there: str | None = None) -> str:
    """One line: the score, the failures, and the next command.

    `there` are options that select the server with the runs.
    """
    scores = [-math.inf if run.score is None else run.score for run in runs]
    run = runs[scores.index(max(scores))]
    record = run.record
    if len(runs) > 1:
        said = f"{len(runs)} runs, the best by {name_model(record)}: {format_score(record.score)}"
        cut = sum(each.unrun is not None for each in runs)
        said += f"; {format_count(cut, 'run')} cut short" if cut else ""
    else:
        said = f"{clean_line(name_suite(record), 80)}: {', '.join(_describe_outcome(run))}"
    if not run.kept:
        return said
    unrun = record.errors or run.unrun
    if unrun and "door" not in record.tags and len(runs) == 1 and there is None:
        # The user's code would fail the same way again.
        own = record.errors and record.model.startswith("python/")
        what = "fix the agent, then ask again" if own else "ask again what did not run"
        budget = ""
        if record.error == ENDING_WORDS["budget"]:
            # A budget is that of the whole run, so it must be more than what is spent.
            spent = sum(record.metrics.get(name) or 0.0 for name in ("total_cost", "judge_cost"))
            what = "continue with a larger budget"
            budget = f" --budget {round(2 * spent, 6)}" if spent else ""
        return f"{said}; {what}: tally run --resume {record.id}{budget}"
    wrong = run.of_status("failed", 1) or run.of_status("error", 1)
    case = f" --case {shlex.quote(wrong[0].name)}" if wrong else ""
    return f"{said}; details: tally show {record.id}{case}{there or ''}"


def _describe_outcome(run: Run) -> Iterator[str]:
    record = run.record
    yield format_score(record.score)
    ran = record.passed + record.failed
    if record.failed:
        yield f"{record.failed:,} of {ran:,} failed"
    elif ran:
        yield f"{'all ' if ran > 1 and ran == record.total else ''}{ran:,} passed"
    if record.errors:
        yield format_count(record.errors, "error")
    if (unrun := run.unrun) is not None:
        yield unrun


def _fold_passed(run: Run) -> Iterator[StyledLine]:
    count = run.count_cases("passed")
    if count:
        found = run.of_status("passed", _MOST_NAMES)
        names = [clean_line(name_case(each.results[0]), 30) for each in found]
        more = [f"and {count - len(names):,} more"] if count > len(names) else []
        yield StyledLine("")
        yield from wrap_lines(f"Passed ({count:,}): {', '.join([*names, *more])}", "green")


def _write_score(run: Run) -> Iterator[StyledLine]:
    record = run.record
    formula = clean_line(record.score_formula, 400)
    if record.score is None:
        yield from wrap_lines(f"Score: {UNDEFINED} (formula: {formula})", "bold red")
        yield from wrap_lines(f"  because {clean(run.explain_no_score())}", "red", indent=2)
        return
    yield from wrap_lines(f"Score: {format_score(record.score)} (formula: {formula})", "bold")
    if record.score_error is not None:
        yield from wrap_lines(f"  set by the suite, because {clean(record.score_error)}", indent=2)
    if (interval := run.describe_interval()) is not None:
        yield from wrap_lines(f"95 % Interval: {interval}")


def _write_measures(run: Run) -> Iterator[StyledLine]:
    metrics, record = run.metrics, run.record
    yield StyledLine(
        f"Success Rate: {format_percent(metrics['success_pct'])} ({run.describe_counts()})"
    )
    more = "" if run.unscored_cost is None else f", and {run.unscored_cost}"
    if metrics["total_cost"] is None and (why := run.tally.unknown("total_cost")) is not None:
        yield from wrap_lines(f"Total Cost: unknown ({why}){more}", "yellow")
    else:
        yield from wrap_lines(f"Total Cost: {format_money(metrics['total_cost'])}{more}")
    judged = metrics.get("judge_cost", 0.0)
    if judged != 0.0:
        why = "" if judged is not None else f" ({run.tally.unknown('judge_cost')})"
        yield from wrap_lines(f"Judge Cost: {format_money(judged)}{why}")
    average, longest = metrics["avg_latency"], metrics["max_latency"]
    yield StyledLine(f"Latency: avg {format_seconds(average)}, max {format_seconds(longest)}")
    identity, suite, model = (
        clean_line(each, 60) for each in (record.id, record.suite, name_model(record))
    )
    status = record.status.replace("_", " ")
    yield from wrap_lines(f"Run: {identity}, {status} ({suite} on {model})")
    if "chosen" in record.tags and run.part is not None:
        yield from wrap_lines(f"Cases: {clean(run.part)}", "yellow")
    for note in run.rescore_notes:
        yield from wrap_lines(f"  {clean(note)}", "yellow", indent=2)
    unrun = run.unrun or record.error
    if unrun is not None:
        yield from wrap_lines(f"  {clean(unrun)}", "red", indent=2)
    if run.gates is not None:
        told = "; ".join(map(clean, run.gates))
        style = "red" if told else "green"
        yield from wrap_lines(f"Gate: {f'failed: {told}' if told else 'passed'}", style, indent=2)


def _write_scorers(run: Run) -> Iterator[StyledLine]:
    """A line for every scorer, and under them how often each label was given."""
    header = ("scorer", "mean", "95 % interval", "scored", "unscored")
    rows = [_make_scorer_row(name, each) for name, each in run.scorers.items()]
    yield from (StyledLine(""), StyledLine("Scorers", "bold"))
    yield from (StyledLine(f"  {text}") for text in align_numbers([header, *rows]))
    for name, each in run.scorers.items():
        if each.scored > 1 and each.median is not None:
            told = f"median {format_mean(each.median)}, p90 {format_mean(each.p90)}"
            reached = f"{format_percent(100 * (each.passed or 0.0))} reach their threshold"
            yield from wrap_lines(f"  {clean_line(name, 40)}: {told}, {reached}", indent=4)
        if each.labels:
            told = ", ".join(f"{label} {count:,}" for label, count in each.labels.items())
            yield from wrap_lines(f"  {clean_line(name, 40)}: {clean(told)}", indent=4)
        if each.agreement is not None:
            yield from _write_agreement(each.agreement)
        if each.first_error is not None:
            most = 3 * (get_columns() - 4)
            said = clean_line(f"{name} could not score: {each.first_error}", most)
            yield from wrap_lines(f"  {said}", "yellow", indent=4)


def _write_agreement(found: LabelAgreement) -> Iterator[StyledLine]:
    """Confusion matrix: expected labels as rows, given ones as columns."""
    labels = list(found.precision)
    shown = [clean_line(label, 20) for label in labels]
    header = ("expected", *shown, "recall")
    rows = []
    for name, each in zip(shown, labels, strict=True):
        counts = found.confusion.get(each, {})
        told = (f"{counts.get(other, 0):,}" for other in labels)
        rows.append((name, *told, format_mean(found.recall[each])))
    last = ("precision", *(format_mean(found.precision[each]) for each in labels), "")
    yield StyledLine(f"    {format_percent(100 * found.accuracy)} of the labels as expected")
    if len(labels) <= _MOST_LABELS:
        yield from (StyledLine(f"    {line}") for line in align_numbers([header, *rows, last]))


def _make_scorer_row(name: str, each: ScorerSummary) -> tuple[str, ...]:
    interval = "-"
    if each.low is not None and each.high is not None:
        interval = format_mean_ends(each.low, each.high)
    mean, called = format_mean(each.mean), clean_line(name, min(30, get_columns() - 44))
    return (called, mean, interval, f"{each.scored:,}", f"{each.unscored:,}")


def _write_cases(
    run: Run, status: CaseStatus, title: str, most: int, *, whole: bool
) -> Iterator[StyledLine]:
    found = run.of_status(status, most or 1)
    if not found:
        return
    count = run.count_cases(status)
    yield StyledLine("")
    yield StyledLine(f"{title} ({count:,})", f"bold {STYLES[status]}")
    for case in found[:most]:
        yield StyledLine(_write_case_row(case), STYLES[status])
        yield from _write_reasons(case, whole=whole)
    if count > most:
        yield StyledLine(f"  and {count - most:,} more", "dim")


def _write_case_row(case: CaseView) -> str:
    """One line: mark, name, and to the right how many checks or epochs, latency and cost."""
    if len(case.results) > 1:
        extent = f"{case.passed}/{len(case.results)} passed"
    elif case.status == "error":
        tries = case.results[0].tries
        extent = "1 try" if tries == 1 else f"{tries} tries"
    else:
        extent = format_count(len(case.results[0].checks), "check")
    latency = "-" if case.latency is None else format_seconds(case.latency)
    cost = "-" if case.cost is None else format_money(case.cost)
    numbers = f"{extent:>12}  {latency:>8}  {cost:>8}"
    name = fit_line(name_case(case.results[0]), get_columns() - len(numbers) - 6)
    return f"  {MARKS[case.status]} {name}  {numbers}"


def _write_reasons(case: CaseView, *, whole: bool) -> Iterator[StyledLine]:
    """Prompt and answer of a case that did not pass, then each reason once."""
    if case.status == "passed" and not whole:
        return
    wrong = [result for result in case.results if result.status != "passed"] or case.results[:1]
    room = _MOST_WHOLE_TEXT if whole else _MOST_TEXT
    for verb, text in list_exchange(wrong[0]):
        yield from wrap_lines(f"      {verb}: {clean_line(text, room)}", indent=8)
    reasons = list(dict.fromkeys(found for result in wrong for found in list_problems(result)))
    for title, why in reasons[:_MOST_REASONS]:
        # Long reasons are cut to three lines: the other reports have all of it.
        told = clean_line(f"{title}: {why}", 3 * (get_columns() - 8))
        yield from wrap_lines(f"      {told}", indent=8)
    if len(reasons) > _MOST_REASONS:
        yield StyledLine(f"      and {len(reasons) - _MOST_REASONS} more reasons", "dim")
    passed = dict.fromkeys(check.name or check.kind for check in wrong[0].checks if check.passed)
    if passed:
        yield StyledLine(f"      ✓ {clean_line(', '.join(passed), get_columns() - 10)}", "dim")


def _write_repeats(run: Run, most: int) -> Iterator[StyledLine]:
    """Mean, pass@k and pass^k of every case, those that are neither sure nor lost first."""
    total = run.mean_repeats
    if total is None:
        return
    room = min(30, get_columns() - 48)
    ks = sorted({2, max(total.pass_at)} & set(total.pass_at))
    cases = sorted(run.repeats.items(), key=lambda item: item[1].mean in (0.0, 1.0))
    at_hand = run.read_cases([name for name, _ in cases[:most]])
    shown = [(name_case(at_hand[name].results[0]), each) for name, each in cases[:most]]
    rows = [_make_repeats_row(clean_line(name, room), each, ks) for name, each in shown]
    header = ("case", "mean", *(f"pass{sign}{k}" for k in ks for sign in "@^"))
    yield from (StyledLine(""), StyledLine("Repeated Cases", "bold"))
    for text in align_numbers([header, *rows, _make_repeats_row("all cases", total, ks)]):
        yield StyledLine(f"  {text}")
    if len(cases) > most:
        yield StyledLine(f"  and {format_count(len(cases) - most, 'more case')}", "dim")


def _make_repeats_row(name: str, each: Repeats, ks: Sequence[int]) -> tuple[str, ...]:
    pairs = ((each.pass_at.get(k), each.pass_all.get(k)) for k in ks)
    shares = (each.mean, *(value for pair in pairs for value in pair))
    return (name, *map(format_share, shares))
