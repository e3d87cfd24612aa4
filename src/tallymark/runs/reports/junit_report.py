"""JUnit XML, as CI systems read it: a suite for each run, a test case for each result.

A failed check is a `<failure>`, an infrastructure problem an `<error>`. Attributes and their order
follow the schema that the readers agree on, so a result has one of the two at most.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from xml.etree import ElementTree as ET

from tallymark.runs.problems import list_problems
from tallymark.runs.record import CaseResult
from tallymark.runs.report_formats import ReportKind
from tallymark.runs.run import Run, name_model
from tallymark.text import clean, clean_excerpt, clean_line

_MOST_OUTPUT = 10_000
_MOST_MESSAGE = 300


def junit_report(runs: Sequence[Run]) -> str:
    """All runs as one `<testsuites>`."""
    root = ET.Element("testsuites")
    root.extend(_make_suite(number, run) for number, run in enumerate(runs))
    for name in ("tests", "failures", "errors"):
        root.set(name, str(sum(int(suite.get(name, "0")) for suite in root)))
    root.set("time", f"{sum(float(suite.get('time', '0')) for suite in root):.3f}")
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _make_suite(number: int, run: Run) -> ET.Element:
    record = run.record
    name = clean_line(f"{record.suite} ({name_model(record)})", 300)
    suite = ET.Element("testsuite", {"id": str(number), "name": name, "package": name})
    properties = ET.SubElement(suite, "properties")
    for key, value in _list_properties(run):
        ET.SubElement(properties, "property", {"name": key, "value": clean_line(value, 1000)})
    suite.extend(_make_case(name, result) for result in run.results)
    if (trouble := _find_trouble(run)) is not None:
        suite.append(_make_run_case(name, trouble))
    for tag, count in (("failure", "failures"), ("error", "errors")):
        suite.set(count, str(len(suite.findall(f"testcase/{tag}"))))
    suite.set("tests", str(len(suite.findall("testcase"))))
    suite.set("skipped", "0")
    suite.set("time", f"{sum(float(case.get('time', '0')) for case in suite):.3f}")
    moment = datetime.fromtimestamp(record.started_at or record.created_at, UTC)
    suite.set("timestamp", f"{moment:%Y-%m-%dT%H:%M:%S}")
    suite.set("hostname", "localhost")
    return suite


def _list_properties(run: Run) -> Iterator[tuple[str, str]]:
    record = run.record
    yield from (("run", record.id), ("model", record.model), ("status", record.status))
    if "prompt" in record.tags:
        yield "prompt", str(record.tags["prompt"])
    if run.part is not None:
        yield "cases", run.part
    yield "score_formula", record.formula
    if record.score is None:
        yield "score_error", run.explain_no_score()
    low, high = run.interval or (None, None)
    found = {
        "score": record.score,
        "score_low": low,
        "score_high": high,
        "success_pct": run.metrics["success_pct"],
        "total_cost": run.metrics["total_cost"],
        "judge_cost": run.metrics.get("judge_cost") or None,
        "avg_latency": run.metrics["avg_latency"],
    }
    yield from ((key, repr(value)) for key, value in found.items() if value is not None)


def _make_case(suite: str, result: CaseResult) -> ET.Element:
    epoch = f" (epoch {result.epoch + 1})" if result.epoch else ""
    case = ET.Element(
        "testcase",
        {
            "name": clean_line(result.case, 300) + epoch,
            "classname": suite,
            "time": f"{result.latency or 0.0:.3f}",
        },
    )
    if result.status != "passed":
        tag = "failure" if result.status == "failed" else "error"
        reasons = [f"{title}: {why}" for title, why in list_problems(result)]
        problem = ET.SubElement(case, tag, {"message": clean_line(reasons[0], _MOST_MESSAGE)})
        problem.set("type", clean_line(list_problems(result)[0][0], 100))
        problem.text = clean_excerpt("\n".join(reasons), _MOST_OUTPUT)
    if result.output:
        ET.SubElement(case, "system-out").text = clean_excerpt(result.output, _MOST_OUTPUT)
    return case


def _find_trouble(run: Run) -> str | None:
    """What is wrong with the run itself: without it, a run that broke off would look green."""
    record = run.record
    if record.error is not None:
        return record.error
    if run.missing:
        return (
            f"the run is {record.status}: {run.missing:,} of {record.total:,} results are missing"
        )
    return None if run.tally.finished else "the run has no results"


def _make_run_case(suite: str, trouble: str) -> ET.Element:
    case = ET.Element("testcase", {"name": "the run itself", "classname": suite, "time": "0.000"})
    message = clean_line(trouble, _MOST_MESSAGE)
    ET.SubElement(case, "error", {"message": message, "type": "run"}).text = clean(trouble)
    return case


REPORT = ReportKind(
    write=junit_report,
    reader="CI systems",
    gives="a suite for each run; a failed check is a `<failure>`, an infrastructure problem"
    " an `<error>`; a run that broke off is an error too",
)
