"""The cases as the HTML report lists them, within limits that keep the page small.

Cases that failed or could not run come first, so that they are the last to lose their details
when a run is too large for one page.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from tallymark.runs.problems import describe_check, name_case, name_model
from tallymark.runs.record import CaseResult, CaseStatus, CheckResult, RunRecord
from tallymark.runs.run import CaseOutcome, CaseView, Run
from tallymark.text import clean, clean_excerpt, clean_line, format_money, format_seconds
from tallymark.traces import Span, Trace

MOST_CASES = 2_000
MOST_TEXT = 4_000_000
"""Characters of outputs, reasons and traces in the whole page."""
_MOST_TEXT = 100_000
_AT_HAND = 100
"""Cases in memory with their details."""
_MOST_SPAN = 800
_MOST_SPANS = 40
_ORDER: dict[CaseStatus, int] = {"failed": 0, "error": 1, "passed": 2}
_MARKS = {"failed": "✗", "error": "!", "passed": "✓", "flaky": "~", "none": "·"}


AnyOutcome = CaseView | CaseOutcome


class CaseList(NamedTuple):
    """The cases of a page, and what was left out of it."""

    cases: list[dict[str, Any]]
    names: list[str]
    """Outcomes of all cases, listed or not, in the same order."""
    short: int
    """Listed cases whose details are left out."""
    counts: dict[CaseStatus, int]
    """Number of cases by status, for the filter."""


def list_cases(keys: Sequence[str], views: Sequence[Run]) -> CaseList:
    """Every case with its outcome in each run, the troubled ones first."""
    outcomes = _join_outcomes(views)
    names = sorted(outcomes, key=lambda name: _rank(outcomes[name]))
    prompts = [_read_prompts(view.record) for view in views]
    room, short, cases = MOST_TEXT, 0, []
    for number, (name, found) in enumerate(_read_in_turn(names[:MOST_CASES], views)):
        case: dict[str, Any] = {
            "anchor": anchor(number),
            "name": clean_line(_find_title(name, found), 200),
            "status": _find_worst(outcomes[name]),
            "has": sorted(_collect_statuses(outcomes[name])),
            "cells": [
                _describe_cell(key, view, case)
                for key, view, case in zip(keys, views, found, strict=True)
            ],
            "prompt": None,
            "results": [],
        }
        if room > 0:
            case["prompt"] = _find_prompt(name, found, prompts)
            case["results"] = list(_list_results(keys, views, found))
            room -= _estimate_size(case["results"]) + len(case["prompt"] or "")
        else:
            short += 1
        cases.append(case)
    statuses = [_collect_statuses(each) for each in outcomes.values()]
    counts = {each: sum(each in some for some in statuses) for each in _ORDER}
    return CaseList(cases, names, short, counts)


def _find_title(name: str, cases: Sequence[CaseView | None]) -> str:
    """Display name of the case."""
    return next((name_case(each.results[0]) for each in cases if each is not None), name)


def _join_outcomes(views: Sequence[Run]) -> dict[str, list[AnyOutcome]]:
    """Outcome of every case in the runs that have it."""
    found: dict[str, list[AnyOutcome]] = {}
    for view in views:
        for name, outcome in view.outcomes.items():
            found.setdefault(name, []).append(outcome)
    return found


def _read_in_turn(
    names: Sequence[str], views: Sequence[Run]
) -> Iterator[tuple[str, list[CaseView | None]]]:
    """Each case with its results in each run, a few cases in memory at a time."""
    for start in range(0, len(names), _AT_HAND):
        wanted = names[start : start + _AT_HAND]
        read = [view.read_cases(wanted) for view in views]
        yield from ((name, [cases.get(name) for cases in read]) for name in wanted)


def anchor(number: int) -> str:
    """The place in the page where a listed case is."""
    return f"case-{number}"


def _find_worst(outcomes: Sequence[AnyOutcome]) -> CaseStatus:
    return min((each.status for each in outcomes), key=lambda status: _ORDER[status])


def _rank(outcomes: Sequence[AnyOutcome]) -> tuple[int, int]:
    return _ORDER[_find_worst(outcomes)], sum(each.passed for each in outcomes)


def _collect_statuses(outcomes: Sequence[AnyOutcome]) -> set[CaseStatus]:
    return {status for each in outcomes for status in each.statuses}


def describe_outcome(outcome: AnyOutcome | None) -> str:
    """Outcome of a case in one run: a status, `flaky` over epochs, `none` if it is missing."""
    if outcome is None:
        return "none"
    return "flaky" if outcome.status == "failed" and outcome.passed else outcome.status


def _describe_cell(key: str, view: Run, case: CaseView | None) -> dict[str, Any]:
    found = describe_outcome(case)
    repeated = case is not None and len(case.results) > 1
    return {
        "key": key,
        "outcome": found,
        "mark": f"{case.passed}/{len(case.results)}" if case and repeated else _MARKS[found],
        "title": f"{clean_line(name_model(view.record), 80)}: "
        f"{'not run' if found == 'none' else found}",
        "latency": "" if case is None or case.latency is None else format_seconds(case.latency),
        "cost": "" if case is None or case.cost is None else format_money(case.cost),
    }


def _read_prompts(record: RunRecord) -> dict[str, str]:
    """The prompts of the suite, by eval; templates are not filled in."""
    try:
        evals = json.loads(record.definition or "{}").get("evals") or []
        pairs = [
            (each.get("name") or f"#{n}", each.get("prompt")) for n, each in enumerate(evals, 1)
        ]
    except (ValueError, AttributeError, TypeError):
        return {}
    return {str(name): prompt for name, prompt in pairs if isinstance(prompt, str)}


def _find_prompt(
    name: str, cases: Sequence[CaseView | None], prompts: list[dict[str, str]]
) -> str | None:
    """The prompt; if the run did not store it, from the trace or the suite."""
    for case, known in zip(cases, prompts, strict=True):
        results = case.results if case is not None else []
        inputs = (r.input or (r.trace.first_input if r.trace is not None else "") for r in results)
        asked = next(filter(None, inputs), "")
        if found := asked or known.get(name) or known.get(name.partition("[")[0]):
            return clean_excerpt(found, _MOST_TEXT)
    return None


def _list_results(
    keys: Sequence[str], views: Sequence[Run], cases: Sequence[CaseView | None]
) -> Iterator[dict[str, Any]]:
    for key, view, case in zip(keys, views, cases, strict=True):
        for result in () if case is None else case.results:
            yield _describe_result(key, view, result)


def _describe_result(key: str, view: Run, result: CaseResult) -> dict[str, Any]:
    facts = [format_seconds(result.latency)] if result.latency is not None else []
    facts += [format_money(result.cost)] if result.cost is not None else []
    if result.output_tokens is not None:
        counted = " (counted here)" if result.tokens_counted_by == "local" else ""
        facts.append(f"{result.input_tokens or 0:,} → {result.output_tokens:,} tokens{counted}")
    facts += [f"{result.tries} tries"] if result.tries > 1 else []
    return {
        "key": key,
        "model": clean_line(name_model(view.record), 120),
        "epoch": result.epoch + 1 if view.repeated else None,
        "status": result.status,
        "facts": facts,
        "error": result.error and clean_excerpt(result.error, _MOST_TEXT),
        "output": clean_excerpt(result.output, _MOST_TEXT),
        "checks": [row for check in result.checks for row in _list_checks(check, 0)],
        "spans": [] if result.trace is None else _list_spans(result.trace, result.output),
        "span_count": 0 if result.trace is None else len(result.trace.spans),
    }


def _list_checks(check: CheckResult, depth: int) -> Iterator[dict[str, Any]]:
    """A check, and below it the alternatives of an `or`."""
    done, (title, why) = check.error is None, describe_check(check)
    yield {
        "depth": min(depth, 5),
        "outcome": "error" if not done else "passed" if check.passed else "failed",
        "title": clean_line(title, 120),
        "reason": clean_excerpt(check.error or why, _MOST_SPAN),
    }
    for part in check.parts:
        yield from _list_checks(part, depth + 1)


def _list_spans(trace: Trace, answer: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for depth, span in trace.walk():
        if len(found) == _MOST_SPANS:
            break
        found.append(_describe_span(min(depth, 5), span, trace.first_input, answer))
    return found


def _describe_span(depth: int, span: Span, asked: str, answer: str) -> dict[str, Any]:
    given = span.tool_input if span.tool_input is not None else span.input
    gave = span.tool_output if span.tool_output is not None else span.output
    facts = [format_seconds(span.duration_ms / 1000)] if span.duration_ms else []
    facts += [f"{span.tokens:,} tokens"] if span.tokens is not None else []
    return {
        "depth": depth,
        "type": span.span_type,
        "name": clean_line(span.tool_name or span.name or span.span_type, 120),
        "failed": span.failed,
        "error": clean(span.error or ""),
        "facts": facts,
        "input": "(as asked)"
        if given and given == asked
        else clean_excerpt(given or "", _MOST_SPAN),
        "output": "(as answered)"
        if gave and gave == answer
        else clean_excerpt(gave or "", _MOST_SPAN),
    }


def _estimate_size(results: list[dict[str, Any]]) -> int:
    """About how many characters some results add to the page."""
    return sum(
        400
        + len(result["output"])
        + sum(150 + len(check["reason"]) for check in result["checks"])
        + sum(250 + len(span["input"]) + len(span["output"]) for span in result["spans"])
        for result in results
    )
