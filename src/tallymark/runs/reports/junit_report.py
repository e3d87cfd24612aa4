"""JUnit XML, as CI systems read it: a suite for each run, a test case for each result.

A failed check is a `<failure>`, an infrastructure problem an `<error>`. Attributes and their order
follow the schema that the readers agree on, so a result has one of the two at most.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import NamedTuple
from xml.etree import ElementTree as ET

from tallymark.runs.problems import (
    list_exchange,
    list_problems,
    name_case,
    name_model,
)
from tallymark.runs.record import CaseResult
from tallymark.runs.report_formats import ReportKind
from tallymark.runs.run import Run, scan_results
from tallymark.text import clean, clean_excerpt, clean_line

_MOST_TEXT = 1_000_000
"""Characters of a prompt or an answer; parsers of XML refuse a text of more than ten million."""
_MOST_MESSAGE = 300


class _SuiteCounts(NamedTuple):
    """Attributes of a test suite element; `time` is the sum of the written cases."""

    tests: int
    failures: int
    errors: int
    time: float


def junit_report(runs: Sequence[Run]) -> str:
    """All runs as one `<testsuites>`."""
    return "".join(stream_junit(runs))


def stream_junit(runs: Sequence[Run]) -> Iterator[str]:
    """The report in pieces, one case at a time; the sums of the first lines are counted before."""
    counts = [_count_results(run) for run in runs]
    root = ET.Element("testsuites")
    for name in ("tests", "failures", "errors"):
        root.set(name, str(sum(getattr(each, name) for each in counts)))
    root.set("time", f"{sum(float(f'{each.time:.3f}') for each in counts):.3f}")
    yield '<?xml version="1.0" encoding="UTF-8"?>\n'
    if not runs:
        yield f"{ET.tostring(root, encoding='unicode')}\n"
        return
    yield _open_element(root)
    for number, (run, each) in enumerate(zip(runs, counts, strict=True)):
        yield from _stream_suite(number, run, each)
    yield "\n</testsuites>\n"


def _count_results(run: Run) -> _SuiteCounts:
    tests = failures = errors = 0
    seconds = 0.0
    for result in scan_results(run.results):
        tests += 1
        failures += result.status == "failed"
        errors += result.status == "error"
        seconds += float(_write_time(result))
    trouble = _find_trouble(run) is not None
    refused = len(run.gates or ())
    return _SuiteCounts(tests + trouble + refused, failures + refused, errors + trouble, seconds)


def _write_time(result: CaseResult) -> str:
    return f"{result.latency or 0.0:.3f}"


def _stream_suite(number: int, run: Run, counts: _SuiteCounts) -> Iterator[str]:
    record = run.record
    name = clean_line(f"{record.suite} ({name_model(record)})", 300)
    moment = datetime.fromtimestamp(record.started_at or record.created_at, UTC)
    suite = ET.Element(
        "testsuite",
        {
            "id": str(number),
            "name": name,
            "package": name,
            "failures": str(counts.failures),
            "errors": str(counts.errors),
            "tests": str(counts.tests),
            "skipped": "0",
            "time": f"{counts.time:.3f}",
            "timestamp": f"{moment:%Y-%m-%dT%H:%M:%S}",
            "hostname": "localhost",
        },
    )
    properties = ET.Element("properties")
    for key, value in _list_properties(run):
        ET.SubElement(properties, "property", {"name": key, "value": clean_line(value, 1000)})
    yield f"\n  {_open_element(suite)}{_write_element(properties)}"
    for result in run.results:
        yield _write_element(_make_case(name, result))
    if (trouble := _find_trouble(run)) is not None:
        yield _write_element(_make_run_case(name, trouble))
    for place, refusal in enumerate(run.gates or (), 1):
        yield _write_element(_make_gate_case(name, place, refusal))
    yield "\n  </testsuite>"


def _open_element(element: ET.Element) -> str:
    return ET.tostring(element, encoding="unicode").removesuffix(" />") + ">"


def _write_element(element: ET.Element) -> str:
    """A part of a suite on lines of its own."""
    ET.indent(element, level=2)
    return f"\n    {ET.tostring(element, encoding='unicode')}"


def _list_properties(run: Run) -> Iterator[tuple[str, str]]:
    record = run.record
    yield from (("run", record.id), ("model", record.model), ("status", record.status))
    if "prompt" in record.tags:
        yield "prompt", str(record.tags["prompt"])
    if run.part is not None:
        yield "cases", run.part
    if run.rescore_notes:
        yield "rescored", "; ".join(run.rescore_notes)
    if run.gates is not None:
        yield "gate", "failed" if run.gates else "passed"
    yield "score_formula", record.score_formula
    if record.score is None:
        yield "score_error", run.explain_no_score()
    low, high = run.interval or (None, None)
    found = {
        "score": record.score,
        "score_low": low,
        "score_high": high,
        "success_pct": run.metrics["success_pct"],
        "total_cost": run.metrics["total_cost"],
        "unscored_cost": run.tally.unscored_cost.total or None,
        "judge_cost": run.metrics.get("judge_cost") or None,
        "avg_latency": run.metrics["avg_latency"],
    }
    yield from ((key, repr(value)) for key, value in found.items() if value is not None)


def _make_case(suite: str, result: CaseResult) -> ET.Element:
    epoch = f" (epoch {result.epoch + 1})" if result.epoch else ""
    case = ET.Element(
        "testcase",
        {
            "name": clean_line(name_case(result), 300) + epoch,
            "classname": suite,
            "time": _write_time(result),
        },
    )
    if result.status != "passed":
        tag = "failure" if result.status == "failed" else "error"
        reasons = [f"{title}: {why}" for title, why in list_problems(result)]
        problem = ET.SubElement(case, tag, {"message": clean_line(reasons[0], _MOST_MESSAGE)})
        problem.set("type", clean_line(list_problems(result)[0][0], 100))
        # Many viewers show this text alone.
        told = (f"\n{verb}:\n{text}" for verb, text in list_exchange(result))
        problem.text = clean_excerpt("\n".join((*reasons, *told)), 3 * _MOST_TEXT)
    if result.output:
        ET.SubElement(case, "system-out").text = clean_excerpt(result.output, _MOST_TEXT)
    return case


def _find_trouble(run: Run) -> str | None:
    """Failures of the run itself; without them, an interrupted run would look green."""
    found = run.unrun or run.record.error
    return found or (None if run.tally.finished else "the run has no results")


def _make_run_case(suite: str, trouble: str) -> ET.Element:
    case = ET.Element("testcase", {"name": "the run itself", "classname": suite, "time": "0.000"})
    message = clean_line(trouble, _MOST_MESSAGE)
    ET.SubElement(case, "error", {"message": message, "type": "run"}).text = clean(trouble)
    return case


def _make_gate_case(suite: str, number: int, refusal: str) -> ET.Element:
    facts = {"name": f"gate {number}", "classname": suite, "time": "0.000"}
    case = ET.Element("testcase", facts)
    message = clean_line(refusal, _MOST_MESSAGE)
    ET.SubElement(case, "failure", {"message": message, "type": "gate"}).text = clean(refusal)
    return case


REPORT = ReportKind(
    write=junit_report,
    reader="CI systems",
    gives="a suite for each run; a failed check is a `<failure>`, an infrastructure problem"
    " an `<error>`; a run that broke off is an error too",
    stream=stream_junit,
)
