"""promptfoo's assertions, carried over, say of every answer what promptfoo says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.suites.imports.imported_runs import import_text, left_out, run_imported
from tests.suites.imports.promptfoo_verdicts import THRESHOLDS, VERDICTS, WEIGHED

from tallymark.suites.imports.promptfoo_assertions import read_csv_assertion


def config(tests: list[dict[str, Any]]) -> str:
    return json.dumps({"prompts": ["{{answer}}"], "providers": ["echo"], "tests": tests})


def make_test(answer: str, *assertions: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"vars": {"answer": answer, "who": "Bob"}, "assert": list(assertions), **more}


def test_every_answer_is_judged_as_promptfoo_judges_it(tmp_path: Path) -> None:
    rows = [
        (assertion, answer, passes)
        for assertion, fine, wrong in VERDICTS
        for answers, passes in ((fine, True), (wrong, False))
        for answer in answers
    ]
    made = import_text(tmp_path, config([make_test(answer, each) for each, answer, _ in rows]))
    assert made.left_out == []
    results = run_imported(made)
    assert len(rows) == len(results) > 200
    differ = [row for row, result in zip(rows, results, strict=True) if result.passed is not row[2]]
    assert differ == []
    assert not [result.error for result in results if result.status == "error"]


def test_a_threshold_weighs_assertions_as_promptfoo_does(tmp_path: Path) -> None:
    rows = [
        (threshold, answer, passes)
        for threshold, (fine, wrong) in THRESHOLDS.items()
        for answers, passes in ((fine, True), (wrong, False))
        for answer in answers
    ]
    tests = [make_test(answer, *WEIGHED, threshold=each) for each, answer, _ in rows]
    made = import_text(tmp_path, config(tests))
    passed = [result.passed for result in run_imported(made)]
    assert passed == [passes for _, _, passes in rows]
    assert made.left_out == []


def test_cost_and_latency(tmp_path: Path) -> None:
    """An answer here costs $1 and takes 500 ms."""
    rows = [("cost", 1.0, True), ("cost", 0.99, False), ("latency", 500, True)]
    rows.append(("latency", 499, False))
    tests = [make_test("x", {"type": kind, "threshold": at}) for kind, at, _ in rows]
    results = run_imported(import_text(tmp_path, config(tests)))
    assert [result.passed for result in results] == [passes for *_, passes in rows]


@pytest.mark.parametrize(
    ("assertion", "said"),
    [
        ({"type": "javascript", "value": "1"}, "the assertion javascript: there is no check like"),
        ({"type": "python", "value": "1"}, "the assertion python: there is no check like it"),
        ({"type": "contains-json"}, "the assertion contains-json: there is no check like it"),
        ({"type": "not-is-json"}, "the assertion not-is-json: there is no check for its opposite"),
        ({"type": "contains"}, "the assertion contains: it has no text to compare with"),
        ({"type": "contains", "value": "file://x.txt"}, "its value is in file://x.txt"),
        ({"type": "contains", "value": "{{a | b}}"}, "the template {{a | b}} needs promptfoo"),
        ({"type": "regex", "value": "(?i)x"}, "Python has no regular expression like (?i)x"),
        ({"type": "regex", "value": "(x"}, "Python has no regular expression like (x"),
        ({"type": "cost"}, "the assertion cost: it has no threshold"),
        ({"type": "contains", "value": "a", "transform": "x"}, "its transform is a program"),
        ({"type": "is-json", "value": {"format": "date"}}, "its schema has a format"),
        ({"type": "llm-rubric", "value": "polite"}, "the verdict of llm-rubric: your own judge"),
        ({"type": "similar", "value": "a"}, "the verdict of similar: another embedding"),
        ("contains", "the assertion contains: it has no type"),
    ],
)
def test_what_cannot_be_carried_over_is_told_with_its_line(
    tmp_path: Path, assertion: Any, said: str
) -> None:
    text = (
        f"prompts: [hi]\nproviders: [echo]\ntests:\n  - assert:\n      - {json.dumps(assertion)}\n"
    )
    (told,) = left_out(import_text(tmp_path, text), tmp_path)
    at = "" if isinstance(assertion, str) else ":5"
    assert told.startswith(f"promptfooconfig.yaml{at}: ")
    assert said in told


def test_what_is_no_yes_or_no_has_no_threshold_here(tmp_path: Path) -> None:
    rubric = {"type": "llm-rubric", "value": "polite"}
    made = import_text(tmp_path, config([make_test("x", rubric, threshold=0.5)]))
    assert (
        "the assertions under the threshold 0.5: llm-rubric is no plain"
        in left_out(made, tmp_path)[-1]
    )
    assert made.document["evals"][0]["checks"] == []


@pytest.mark.parametrize(
    ("cell", "assertion"),
    [
        ("Paris", {"type": "equals", "value": "Paris"}),
        ("note: this", {"type": "equals", "value": "note: this"}),
        ("contains: Row ", {"type": "contains", "value": "Row"}),
        ("not-icontains:x", {"type": "not-icontains", "value": "x"}),
        ("contains-all: a, b", {"type": "contains-all", "value": ["a", "b"]}),
        ("levenshtein(3):abc", {"type": "levenshtein", "value": "abc", "threshold": 3.0}),
        ("similar:abc", {"type": "similar", "value": "abc", "threshold": 0.8}),
        ("fn: output", {"type": "javascript", "value": " output"}),
        ("file://check.py", {"type": "python", "value": "file://check.py"}),
        ("grade: be kind", {"type": "llm-rubric", "value": " be kind"}),
        ("is-json", {"type": "is-json", "value": None}),
    ],
)
def test_cells_of_a_csv(cell: str, assertion: dict[str, Any]) -> None:
    assert read_csv_assertion(cell) == assertion
