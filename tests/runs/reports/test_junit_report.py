"""JUnit XML against the structure that CI systems agree on."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import pytest
from msgspec.structs import replace
from tests.runs.reports.sample_runs import (
    HOSTILE,
    finished,
    parts,
    support_run,
    two_cases,
    unnamed_run,
)

from tallymark.runs.record import CaseResult, CheckResult, RunRecord
from tallymark.runs.reports import junit_report
from tallymark.runs.run import Run

# The common schema: what may stand in an element, in this order, and what it must carry.
CHILDREN = {
    "testsuites": ["testsuite"],
    "testsuite": ["properties", "testcase"],
    "properties": ["property"],
    "testcase": ["error", "failure", "system-out"],
}
REQUIRED = {
    "testsuites": {"tests", "failures", "errors", "time"},
    "testsuite": {
        "id", "name", "package", "timestamp", "hostname", "tests", "failures", "errors", "time"
    },
    "property": {"name", "value"},
    "testcase": {"name", "classname", "time"},
    "failure": {"message", "type"},
    "error": {"message", "type"},
}  # fmt: skip


def checked(text: str) -> ET.Element:
    """The tree of a report that keeps to the schema."""
    root = ET.fromstring(text.encode("utf-8"))
    assert root.tag == "testsuites"
    for element in root.iter():
        order = CHILDREN.get(element.tag, [])
        places = [order.index(child.tag) for child in element]
        assert places == sorted(places)
        assert REQUIRED.get(element.tag, set()) <= set(element.keys())
        if element.tag == "testcase":
            assert len(element.findall("error") + element.findall("failure")) <= 1
    for suite in root:
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", suite.attrib["timestamp"])
        assert int(suite.attrib["tests"]) == len(suite.findall("testcase"))
        assert int(suite.attrib["failures"]) == len(suite.findall("testcase/failure"))
        assert int(suite.attrib["errors"]) == len(suite.findall("testcase/error"))
    return root


def properties(suite: ET.Element) -> dict[str, str]:
    return {each.attrib["name"]: each.attrib["value"] for each in suite.iter("property")}


def test_a_suite_for_each_run_with_its_score_and_cost() -> None:
    root = checked(junit_report([two_cases(), support_run(cases=3)]))
    assert [suite.attrib["name"] for suite in root] == [
        "my-eval-suite (replay/careful)",
        "help-desk (replay/careful)",
    ]
    found = properties(root[0])
    assert float(found["score"]) == 50 / 0.0177
    assert found["score_formula"] == "success_pct / total_cost"
    assert found["total_cost"] == "0.0177"


def test_a_failed_check_is_a_failure() -> None:
    root = checked(junit_report([two_cases()]))
    failure = root.find(".//testcase[@name='translation-test']/failure")
    assert failure is not None
    assert failure.attrib == {"message": 'match: "*hola*" does not match', "type": "match"}
    assert (root.attrib["tests"], root.attrib["failures"], root.attrib["errors"]) == ("2", "1", "0")


def test_an_infrastructure_problem_is_an_error() -> None:
    root = checked(junit_report([support_run(cases=4, errors=1, skill=2.0)]))
    (error,) = root.iter("error")
    assert "503" in error.attrib["message"]
    assert root.attrib["failures"] == "0"


def test_a_check_that_could_not_be_done_is_an_error() -> None:
    checks = (CheckResult(kind="llm_judge", passed=False, error="no key"),)
    result = CaseResult(case="a", status="error", checks=checks)
    (error,) = checked(
        junit_report([finished(RunRecord(id="r", suite="s", model="m"), [result])])
    ).iter("error")
    assert error.attrib["message"] == "llm_judge: could not be done: no key"


def test_an_undefined_score_says_why_and_is_no_number() -> None:
    found = properties(checked(junit_report([support_run(price=None)]))[0])
    assert "score" not in found
    assert found["score_error"].startswith("total_cost has no value")


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (RunRecord(id="r", suite="s", model="m", error="no such model"), "no such model"),
        (
            RunRecord(id="r", suite="s", model="m", status="cancelled", total=20),
            "18 of 20 not run (cancelled)",
        ),
    ],
)
def test_a_run_that_broke_off_is_not_green(record: RunRecord, message: str) -> None:
    root = checked(junit_report([Run(record, two_cases().results)]))
    assert [error.attrib["message"] for error in root.iter("error")] == [message]


def test_a_run_without_results_is_not_green() -> None:
    root = checked(junit_report([Run(RunRecord(id="r", suite="s", model="m"), [])]))
    assert root.attrib["errors"] == "1"


def test_epochs_have_names_of_their_own() -> None:
    root = checked(junit_report([support_run(cases=1, epochs=3)]))
    assert [case.attrib["name"] for case in root.iter("testcase")] == [
        "refund-policy",
        "refund-policy (epoch 2)",
        "refund-policy (epoch 3)",
    ]


def test_what_xml_cannot_hold_is_left_out() -> None:
    every = "".join(map(chr, [*range(0x20), *range(0x7F, 0xA0), 0xD83D, 0xFFFE, 0xFFFF]))
    result = CaseResult(case="a" + every, status="failed", output=HOSTILE + every, error=every)
    record = RunRecord(id=every, suite=HOSTILE, model=every + "m", score_formula=every)
    root = checked(junit_report([Run(record, [result])]))
    out = root.find(".//system-out")
    assert out is not None
    assert out.text is not None
    assert out.text.startswith("</script><script>alert(1)</script>")


def test_long_answers_are_cut() -> None:
    record, results = parts(two_cases())
    text = junit_report([Run(record, [replace(results[0], output="x" * 5_000_000)])])
    assert "(4,000,000 more characters)" in text
    assert len(text) < 1_010_000


def test_a_failure_has_all_that_was_asked_and_answered() -> None:
    first, second, third, fourth = checked(junit_report([unnamed_run()])).iter("testcase")
    assert [first.attrib["name"], first.findtext("failure")] == [
        "#1 Who wrote it?",
        "match: does not match 'late'\n\nasked:\nWho wrote it?\n\nanswered:\n(nothing)",
    ]
    told = second.findtext("failure") or ""
    assert (told.count("late. "), told.count("word ")) == (40, 400)
    assert third.findtext("error") == "error: no answer\n\nasked:\nAny news of 東京?"
    assert fourth.attrib["name"] == "#4"


def test_the_time_is_that_of_the_cases() -> None:
    suite = checked(junit_report([two_cases()]))[0]
    assert suite.attrib["time"] == "2.000"


def test_a_failure_without_a_reason_still_has_a_message() -> None:
    record = RunRecord(id="r", suite="s", model="m")
    run = finished(record, [CaseResult(case="a", status="failed")])
    assert run.tally.all.ran == 1
    (failure,) = checked(junit_report([run])).iter("failure")
    assert failure.attrib["message"] == "failed: no reason was given"
