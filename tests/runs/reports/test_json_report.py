"""The JSON report: one document, whole, and never a NaN."""

from __future__ import annotations

import json
import math
from typing import Any

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

from tallymark.runs.record import CaseResult, RunRecord
from tallymark.runs.reports import json_report, run_document
from tallymark.runs.reports.json_report import json_report as report
from tallymark.runs.run import Run


def strict(text: str) -> Any:
    """Reads JSON as the standard has it."""

    def refuse(constant: str) -> float:
        raise AssertionError(constant)

    return json.loads(text, parse_constant=refuse)


def test_the_score_its_formula_and_its_interval() -> None:
    (run,) = strict(json_report([two_cases()]))["runs"]
    assert run["score"] == 50 / 0.0177
    assert run["score_formula"] == "success_pct / total_cost"
    assert run["score_error"] is None
    assert (run["score_low"], run["score_high"]) == pytest.approx((168.328, 4879.2), rel=1e-5)
    assert [run[name] for name in ("passed", "failed", "errors", "total")] == [1, 1, 0, 2]
    assert run["explanation"]["substituted"] == "50 / 0.0177"


def test_every_result_has_the_same_keys_and_all_of_its_checks() -> None:
    run = run_document(two_cases())
    assert [each["case"] for each in run["results"]] == ["math-question", "translation-test"]
    assert run["results"][1]["checks"][0]["reason"] == '"*hola*" does not match'
    fields = frozenset({"name", *CaseResult.__struct_fields__})
    assert {frozenset(each) for each in run["results"]} == {fields}


def test_a_result_has_its_key_what_people_call_it_and_what_was_asked_and_answered() -> None:
    first, second, third, fourth = run_document(unnamed_run())["results"]
    assert [first[key] for key in ("case", "name")] == ["#1", "#1 Who wrote it?"]
    assert (second["input"].count("late"), second["output"].count("word")) == (40, 400)
    assert (third["case"], third["name"]) == ("#3[7]", "#3[7] Any news of 東京?")
    assert (fourth["name"], fourth["input"]) == ("#4", "")


def test_without_results_the_counts_are_the_records() -> None:
    record, _ = parts(support_run(errors=2))
    run = run_document(Run(replace(record, total=25), []))
    assert (run["passed"], run["failed"], run["errors"], run["total"]) == (
        record.passed,
        record.failed,
        2,
        25,
    )
    assert run["metrics"] == record.metrics
    assert run["results"] == []


def test_an_undefined_score_is_null_with_its_reason() -> None:
    run = run_document(support_run(price=None))
    assert run["score"] is None
    assert run["score_error"].startswith("total_cost has no value")
    assert run["metrics"]["total_cost"] is None


def test_a_score_that_the_suite_put_in_keeps_the_reason() -> None:
    record, results = parts(support_run(price=None))
    run = run_document(Run(replace(record, score=0.0), results))
    assert run["score"] == 0.0
    assert run["score_error"].startswith("total_cost has no value")


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_numbers_that_json_lacks_become_null(value: float) -> None:
    results = [CaseResult(case="a", status="passed", latency=value, cost=value)]
    record = RunRecord(id="r", suite="s", model="m", score=value, tags={"x": value})
    (run,) = strict(json_report([Run(record, results)]))["runs"]
    assert run["score"] is None
    assert run["results"][0]["cost"] is None
    assert run["tags"] == {"x": None}


def test_repeats_are_there_when_cases_were_repeated() -> None:
    assert run_document(two_cases())["repeats"] is None
    repeats = run_document(support_run(cases=2, epochs=3))["repeats"]
    assert set(repeats["cases"]) == {"refund-policy", "shipping-abroad"}
    assert set(repeats["all"]["pass_at"]) == {"1", "2", "3"}


def test_traces_are_kept() -> None:
    run = run_document(support_run(cases=1))
    assert [span["name"] for span in run["results"][0]["trace"]["spans"]][1] == "lookup"


def test_hostile_text_comes_back_as_it_was() -> None:
    output = HOSTILE + "\ud83d"
    results = [CaseResult(case="a", status="failed", output=output)]
    text = report([finished(RunRecord(id="r", suite="s", model="m"), results)])
    text.encode("utf-8")
    assert strict(text)["runs"][0]["results"][0]["output"] == HOSTILE + "?"
