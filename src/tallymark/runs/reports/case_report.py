"""One case of a run for the terminal: prompt, whole answer and every check."""

from __future__ import annotations

from collections.abc import Iterator

from tallymark.runs.problems import describe_check, name_case, name_model
from tallymark.runs.record import CaseResult, CaseStatus, CheckResult
from tallymark.runs.run import CaseView, Run
from tallymark.text import (
    StyledLine,
    clean,
    clean_line,
    format_money,
    format_seconds,
)

MARKS: dict[CaseStatus, str] = {"failed": "✗", "error": "!", "passed": "✓"}
STYLES: dict[CaseStatus, str] = {"failed": "red", "error": "yellow", "passed": "green"}


def case_lines(run: Run, case: CaseView) -> Iterator[StyledLine]:
    """A case with each of its results. Texts are whole, and not wrapped, so they can be copied."""
    results, record = case.results, run.record
    name = clean_line(name_case(results[0]), 200)
    status = f"{case.passed} of {len(results)} epochs passed" if len(results) > 1 else case.status
    yield StyledLine(f"{MARKS[case.status]} {name}: {status}", f"bold {STYLES[case.status]}")
    suite, model = clean_line(record.suite, 60), clean_line(name_model(record), 60)
    yield StyledLine(f"run {record.id}, {suite} on {model}", "dim")
    asked = list(dict.fromkeys(result.input for result in results))
    for result in results:
        if len(results) > 1:
            title = f"=== Epoch {result.epoch + 1}: {result.status} ==="
            yield from (StyledLine(""), StyledLine(title, f"bold {STYLES[result.status]}"))
        # The same prompt in every epoch is shown once.
        if result is results[0] or len(asked) > 1:
            yield from _write_text("Asked", result.input or "(not kept)")
        yield from _write_result(result)


def _write_result(result: CaseResult) -> Iterator[StyledLine]:
    if result.output or result.status != "error":
        yield from _write_text("Answered", result.output or "(nothing)")
    if result.error is not None:
        yield from _write_text("Error", result.error, "yellow")
    if result.checks:
        yield from (StyledLine(""), StyledLine("Checks", "bold"))
        for check in result.checks:
            yield from _write_check(check, 1)
    yield from (StyledLine(""), StyledLine(", ".join(_list_facts(result)), "dim"))


def _write_text(title: str, text: str, style: str = "") -> Iterator[StyledLine]:
    yield from (StyledLine(""), StyledLine(title, "bold"))
    for line in clean(text).split("\n"):
        yield StyledLine(f"  {line}".rstrip(), style)


def _write_check(check: CheckResult, depth: int) -> Iterator[StyledLine]:
    """A check, and below an `or` its alternatives."""
    status: CaseStatus = "passed" if check.passed else "failed" if check.error is None else "error"
    title, why = describe_check(check)
    told = clean(f"{title}: {why}" if why else title).replace("\n", f"\n{'  ' * (depth + 2)}")
    yield StyledLine(f"{'  ' * depth}{MARKS[status]} {told}", STYLES[status])
    for part in check.parts:
        yield from _write_check(part, depth + 1)


def _list_facts(result: CaseResult) -> Iterator[str]:
    yield f"latency {format_seconds(result.latency)}"
    yield f"cost {format_money(result.cost)}"
    if result.tokens is not None:
        sent, given = result.input_tokens or 0, result.output_tokens or 0
        yield f"tokens {sent:,} in, {given:,} out"
    if result.tries > 1:
        yield f"{result.tries} tries"
