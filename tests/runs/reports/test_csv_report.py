"""The CSV report: rows for every result that no spreadsheet takes for a formula."""

from __future__ import annotations

import csv
import io

import pytest
from tests.runs.reports.sample_runs import support_run, two_cases

from tallymark.runs.record import CaseResult, CheckResult, RunRecord
from tallymark.runs.reports import csv_report
from tallymark.runs.run import Run


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


def one(result: CaseResult) -> dict[str, str]:
    return rows(csv_report([Run(RunRecord(id="r", suite="s", model="m"), [result])]))[0]


def test_a_row_for_every_result_of_every_run() -> None:
    found = rows(csv_report([two_cases(), support_run(cases=3, epochs=2)]))
    assert [row["run"] for row in found] == ["run-1"] * 2 + ["careful-1"] * 6
    assert [row["epoch"] for row in found][2:] == ["0", "1"] * 3


def test_the_facts_of_a_result() -> None:
    assert rows(csv_report([two_cases()]))[1] == {
        "run": "run-1",
        "suite": "my-eval-suite",
        "model": "replay/careful",
        "prompt": "",
        "case": "translation-test",
        "name": "translation-test",
        "epoch": "0",
        "status": "failed",
        "latency": "1.5",
        "cost": "0.0077",
        "input_tokens": "",
        "output_tokens": "",
        "tokens_counted_by": "",
        "tries": "1",
        "checks": "2",
        "checks_passed": "1",
        "problems": 'match: "*hola*" does not match',
        "input": "Say good day in Spanish.",
        "output": "Guten Tag",
    }


@pytest.mark.parametrize(
    "text",
    ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "  =1", "＝1", "=cmd|'/c calc'!A0"],  # noqa: RUF001
)
def test_text_is_never_a_formula(text: str) -> None:
    row = one(CaseResult(case=text, status="failed", output=text, error=text))
    assert row["output"].startswith("'")
    assert row["case"].startswith("'")
    assert row["problems"].startswith("error: ")


def test_harmless_text_and_numbers_stay_as_they_are() -> None:
    row = one(CaseResult(case="a-b", status="passed", output="a = b\nc", cost=0.5))
    assert (row["case"], row["output"], row["cost"]) == ("a-b", "a = b\nc", "0.5")


def test_an_answer_of_5_mb_fits_a_cell() -> None:
    row = one(CaseResult(case="a", status="passed", output="x" * 5_000_000))
    assert len(row["output"]) < 32_767
    assert row["output"].endswith("… (4,968,000 more characters)")


def test_alternatives_of_an_or_are_named() -> None:
    parts = (
        CheckResult(kind="match", passed=False, reason="no"),
        CheckResult(kind="x", passed=True),
    )
    check = CheckResult(kind="or", passed=False, reason="none passed", parts=parts)
    row = one(CaseResult(case="a", status="failed", checks=(check,)))
    assert row["problems"] == "or: none passed\nor / match: no"
