"""The cases as the HTML report lists them, within limits that keep the page small.

Cases that failed or could not run come first, so that they are the last to lose their details
when a run is too large for one page.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from tallymark.runs.problems import check_title, explain_check
from tallymark.runs.record import CaseResult, CaseStatus, CheckResult, RunRecord
from tallymark.runs.run import CaseView, Run, name_model
from tallymark.text import clean, clean_excerpt, clean_line, format_money, format_seconds
from tallymark.traces import Span, Trace

MOST_CASES = 2_000
MOST_TEXT = 4_000_000
"""Characters of outputs, reasons and traces in the whole page."""
_MOST_OUTPUT = 4_000
_MOST_SPAN = 800
_MOST_SPANS = 40
_ORDER: dict[CaseStatus, int] = {"failed": 0, "error": 1, "passed": 2}
_MARKS = {"failed": "✗", "error": "!", "passed": "✓", "flaky": "~", "none": "·"}


class CaseList(NamedTuple):
    """The cases of a page, and what was left out of it."""

    cases: list[dict[str, Any]]
    names: list[str]
    """Of all cases, listed or not, in the same order."""
    short: int
    """Listed cases whose details are left out."""
    counts: dict[CaseStatus, int]
    """How many cases have a result of each status, for the filter."""


def list_cases(keys: Sequence[str], views: Sequence[Run]) -> CaseList:
    """Every case with its outcome in each run, the troubled ones first."""
    names = list(dict.fromkeys(case for view in views for case in view.cases))
    status = {name: _find_worst(name, views) for name in names}
    names.sort(key=lambda name: (_ORDER[status[name]], _count_passed(name, views)))
    prompts = [_read_prompts(view.record) for view in views]
    room, short, cases = MOST_TEXT, 0, []
    for number, name in enumerate(names[:MOST_CASES]):
        case: dict[str, Any] = {
            "anchor": anchor(number),
            "name": clean_line(name, 200),
            "status": status[name],
            "has": sorted(_collect_statuses(name, views)),
            "cells": [
                _describe_cell(key, view, name) for key, view in zip(keys, views, strict=True)
            ],
            "prompt": None,
            "results": [],
        }
        if room > 0:
            case["prompt"] = _find_prompt(name, views, prompts)
            case["results"] = list(_list_results(keys, views, name))
            room -= _estimate_size(case["results"]) + len(case["prompt"] or "")
        else:
            short += 1
        cases.append(case)
    found = [_collect_statuses(name, views) for name in names]
    counts = {each: sum(each in statuses for statuses in found) for each in _ORDER}
    return CaseList(cases, names, short, counts)


def anchor(number: int) -> str:
    """The place in the page where a listed case is."""
    return f"case-{number}"


def _find_worst(name: str, views: Sequence[Run]) -> CaseStatus:
    found = [view.cases[name].status for view in views if name in view.cases]
    return min(found, key=lambda status: _ORDER[status])


def _collect_statuses(name: str, views: Sequence[Run]) -> set[CaseStatus]:
    cases = (view.cases[name] for view in views if name in view.cases)
    return {result.status for case in cases for result in case.results}


def _count_passed(name: str, views: Sequence[Run]) -> int:
    return sum(view.cases[name].passed for view in views if name in view.cases)


def case_outcome(case: CaseView | None) -> str:
    """How a case ended in one run: a status, `flaky` over epochs, `none` where it is not there."""
    if case is None:
        return "none"
    return "flaky" if case.status == "failed" and case.passed else case.status


def _describe_cell(key: str, view: Run, name: str) -> dict[str, Any]:
    case = view.cases.get(name)
    found = case_outcome(case)
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


def _find_prompt(name: str, views: Sequence[Run], prompts: list[dict[str, str]]) -> str | None:
    """What was asked: as the trace has it, else as the suite has it."""
    for view, known in zip(views, prompts, strict=True):
        results = view.cases[name].results if name in view.cases else []
        asked = next((r.trace.first_input for r in results if r.trace is not None), "")
        if found := asked or known.get(name) or known.get(name.partition("[")[0]):
            return clean_excerpt(found, _MOST_OUTPUT)
    return None


def _list_results(keys: Sequence[str], views: Sequence[Run], name: str) -> Iterator[dict[str, Any]]:
    for key, view in zip(keys, views, strict=True):
        case = view.cases.get(name)
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
        "error": result.error and clean_excerpt(result.error, _MOST_OUTPUT),
        "output": clean_excerpt(result.output, _MOST_OUTPUT),
        "checks": [row for check in result.checks for row in _list_checks(check, 0)],
        "spans": [] if result.trace is None else _list_spans(result.trace, result.output),
        "span_count": 0 if result.trace is None else len(result.trace.spans),
    }


def _list_checks(check: CheckResult, depth: int) -> Iterator[dict[str, Any]]:
    """A check, and below it the alternatives of an `or`."""
    done = check.error is None
    yield {
        "depth": min(depth, 5),
        "outcome": "error" if not done else "passed" if check.passed else "failed",
        "title": clean_line(check_title(check), 120),
        "reason": clean_excerpt(check.error or explain_check(check), _MOST_SPAN),
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
