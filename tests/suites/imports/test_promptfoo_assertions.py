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
        ({"type": "contains", "value": "a", "config": {}}, "there is nothing like its config"),
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
    (check,) = made.evals[0]["checks"]
    assert check["todo"].startswith("the assertions under the threshold 0.5 (promptfooconfig.yaml:")


def test_a_case_whose_assertions_are_not_all_carried_over_never_passes(tmp_path: Path) -> None:
    javascript = {"type": "javascript", "value": "true"}
    contains = {"type": "contains", "value": "yes"}
    tests = [
        make_test("yes", javascript),
        make_test("yes", contains, javascript),
        make_test("no", contains, javascript),
        make_test("yes", {"type": "assert-set", "assert": [javascript, contains]}),
        make_test("yes", contains, javascript, threshold=0.5),
        make_test("yes", contains),
        make_test("yes", assertScoringFunction="file://score.js"),
        make_test("yes", {"type": "assert-set", "assert": [contains], "transform": "output.x"}),
        make_test("yes", {"type": "assert-set", "assert": [contains], "config": {"x": 1}}),
        make_test("yes", contains, provider={"id": "echo", "transform": "output.x"}),
    ]
    made = import_text(tmp_path, config(tests))
    statuses = [result.status for result in run_imported(made)]
    assert statuses[:7] == ["error", "error", "failed", "error", "error", "passed", "error"]
    assert statuses[7:] == ["error", "error", "error"]
    assert made.count_unfinished() == 9
    assert run_imported(made)[0].error == (
        "a check is still to be written: the assertion javascript (promptfooconfig.yaml:1): "
        "there is no check like it"
    )


def test_an_assertion_of_weight_0_cannot_fail(tmp_path: Path) -> None:
    """As in promptfoo, where it is only measured."""
    wrong = {"type": "contains", "value": "no", "weight": 0, "metric": "refusals"}
    javascript = {"type": "javascript", "value": "true", "weight": 0}
    right = {"type": "contains", "value": "yes", "weight": 2}
    tests = [
        make_test("yes", wrong, javascript, right),
        make_test("yes", wrong, javascript, right, threshold=1),
        make_test("yes", threshold=1),
    ]
    made = import_text(tmp_path, config(tests))
    assert [result.status for result in run_imported(made)] == ["passed"] * 3
    assert left_out(made, tmp_path) == [
        "promptfooconfig.yaml:1: the assertion contains of weight 0: it cannot fail",
        "promptfooconfig.yaml:1: the assertion javascript of weight 0: it cannot fail",
        (
            "promptfooconfig.yaml: the weights of assertions: "
            "without a threshold they change no verdict"
        ),
    ]


def test_the_judge_of_an_assertion_or_a_test_judges_it(tmp_path: Path) -> None:
    rubric = {"type": "llm-rubric", "value": "polite"}
    own = {**rubric, "provider": "openai:gpt-5"}
    tests = [
        make_test("a", rubric),
        make_test("b", own),
        make_test("c", rubric, options={"provider": {"id": "openai:gpt-5-nano"}}),
        make_test("d", {**rubric, "rubricPrompt": "Is it fine? {{output}}"}),
    ]
    text = config(tests)[:-1] + ', "defaultTest": {"options": {"provider": "openai:gpt-5-mini"}}}'
    made = import_text(tmp_path, text)
    assert made.document["metadata"]["judge"] == "openai/gpt-5-mini"
    *carried, (todo,) = (each["checks"] for each in made.evals)
    assert carried == [
        [{"llm_judge": {"criteria": "polite"}}],
        [{"llm_judge": {"criteria": "polite", "model": "openai/gpt-5"}}],
        [{"llm_judge": {"criteria": "polite", "model": "openai/gpt-5-nano"}}],
    ]
    assert todo["todo"].endswith("its rubricPrompt asks the judge in words of its own")


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


def test_an_assertion_that_stands_alone_is_not_lost(tmp_path: Path) -> None:
    alone = {"type": "javascript", "value": "false"}
    tests = [make_test("a") | {"assert": alone}, make_test("b") | {"assert": "file://a.js"}]
    made = import_text(tmp_path, config(tests))
    assert [list(check) for each in made.evals for check in each["checks"]] == [["todo"], ["todo"]]
