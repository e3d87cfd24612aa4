"""`script`: the organiser's own evaluation, in the sandbox."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.challenges.challenge_folders import attempt_at, challenge_in, judged

from tallymark.challenges.attempt import Evaluation
from tallymark.challenges.attempt_scores import score_attempt
from tallymark.challenges.challenge import Challenge
from tallymark.challenges.evaluators.evaluator_kind import EVALUATION_FAILED

TEXT = """
    name: x
    data: {public: map.json}
    evaluator: {type: script, script: evaluate.py, truth: truth.json, metrics: [km], time: 5}
    scoring: {dimensions: {correctness: 0.5, methodology: 0.5}}
"""
SCRIPT = """
    import json
    from measuring import length

    print("a script may print")

    def evaluate(submission, truth, data):
        stops = json.loads(data["public"]["map.json"])
        right = submission == truth["route"]
        return {
            "dimensions": {"correctness": 1000 * right, "methodology": 500.5},
            "metrics": {"km": length(stops), "rating": 7},
            "succeeded": right,
            "warnings": [
                "slow", {"message": "odd", "severity": "error", "dimension": "methodology"},
                {"message": "dull", "dimension": None},
            ],
            "details": {"seed": data["seed"]},
        }
"""
FILES = {
    "evaluate.py": SCRIPT,
    "measuring.py": "def length(stops):\n    return float(len(stops))\n",
    "map.json": "[1, 2, 3]",
    "truth.json": '{"route": ["a", "b"]}',
}


def test_the_script_scores(tmp_path: Path) -> None:
    challenge = challenge_in(tmp_path, TEXT, FILES)
    found = judged(challenge, tmp_path, ["a", "b"])
    assert found.error is None
    assert found.dimensions == {"correctness": 1000.0, "methodology": 500.5}
    assert found.metrics.succeeded
    assert (found.metrics.rating, found.metrics.more) == (7, {"km": 3.0})
    assert found.details == {"seed": 7}
    assert found.warnings == (
        {"message": "slow", "severity": "warning", "dimension": None},
        {"message": "odd", "severity": "error", "dimension": "methodology"},
        {"message": "dull", "severity": "warning", "dimension": None},
    )
    assert score_attempt(challenge, found, attempt=attempt_at(challenge)).score == 500


def test_metrics_are_what_the_store_gives_back(tmp_path: Path) -> None:
    """Else an attempt is scored by one number, and scored again by another."""
    metrics = "{'km': 2**53 + 1, 'own': 0, 'least': -0.0, 'rating': 7, 'tokens_total': 3.0}"
    _, found = with_answer(tmp_path, f"return {{'metrics': {metrics}}}")
    assert repr(found) == repr(msgspec.json.decode(msgspec.json.encode(found), type=Evaluation))
    assert found.metrics.tokens_total == 3


def test_the_same_submission_is_judged_alike(tmp_path: Path) -> None:
    challenge = challenge_in(tmp_path, TEXT, FILES)
    assert judged(challenge, tmp_path, {"x": [1]}) == judged(challenge, tmp_path, {"x": [1]})


def with_answer(folder: Path, body: str) -> tuple[Challenge, Evaluation]:
    script = f"def evaluate(submission, truth, data):\n    {body}\n"
    challenge = challenge_in(folder, TEXT, {**FILES, "evaluate.py": script})
    return challenge, judged(challenge, folder, None)


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("return None", "expected a mapping with dimensions, metrics, succeeded, warnings and"),
        ("return []", "expected a mapping with dimensions"),
        ("return {'dimension': {}}", "unknown key 'dimension'; did you mean 'dimensions'?"),
        (
            "return {'dimensions': {'correctness': 'high'}}",
            "correctness: expected a number, but 'h",
        ),
        ("return {'dimensions': {'correctness': True}}", "correctness: expected a number, but tr"),
        ("return {'dimensions': {'speed': 1}}", "'speed' is measured by the server"),
        ("return {'metrics': [1]}", "metrics: expected a mapping, each value a number or null"),
        ("return {'metrics': {'tokens_total': 1.5}}", "tokens_total is a whole number, 0 or more"),
        ("return {'metrics': {'calls': -1}}", "evaluate.py: calls is a whole number, 0 or more"),
        ("return {'metrics': {'cost': -0.1}}", "cost is a finite number, 0 or more, not -0.1"),
        ("return {'succeeded': 1}", "succeeded: expected true or false, but 1 is a number"),
        ("return {'warnings': 'x'}", "warnings: expected a list, each of text or a ma"),
        ("return {'warnings': [{'message': 'x', 'severity': 'bad'}]}", "severity: 'bad' is not kn"),
        ("return {'details': 'x'}", "details: expected a mapping, but 'x' is text"),
        ("return {'dimensions': {'correctness': float('nan')}}", "evaluate.py failed: ValueError"),
        ("return 1 / 0", "evaluate.py failed: ZeroDivisionError: division by zero"),
        ("import os; os._exit(0)", "what evaluate() of evaluate.py gave is no JSON"),
        ("return list(range(10**9))", "evaluate.py failed: "),
    ],
    ids=lambda value: value[7:35],
)
def test_a_script_that_goes_wrong_is_the_organisers_error(
    tmp_path: Path, body: str, told: str
) -> None:
    challenge, found = with_answer(tmp_path, body)
    assert told in str(found.reason)
    assert found.error == EVALUATION_FAILED
    outcome = score_attempt(challenge, found, attempt=attempt_at(challenge))
    assert (outcome.score, outcome.ranks, outcome.error) == (None, False, found.error)


def test_a_script_that_hangs_is_stopped(tmp_path: Path) -> None:
    text = TEXT.replace("time: 5", "time: 0.5")
    script = "def evaluate(submission, truth, data):\n    while True: pass\n"
    challenge = challenge_in(tmp_path, text, {**FILES, "evaluate.py": script})
    assert "evaluate.py failed: it was stopped" in str(judged(challenge, tmp_path, 1).reason)


RUN = """
    name: x
    submission: {format: files}
    data: {public: given.txt}
    evaluator:
      type: script
      script: evaluate.py
      truth: truth.json
      run: {command: [python, main.py], stdin: "5", time: 2}
"""
RUN_SCRIPT = """
    def evaluate(submission, truth, data):
        run = data["run"]
        return {"succeeded": run["stdout"].strip() == str(truth), "details": run}
"""
RUN_FILES = {"evaluate.py": RUN_SCRIPT, "truth.json": "1225", "given.txt": "7"}


def run(folder: Path, code: str) -> Evaluation:
    challenge = challenge_in(folder, RUN, RUN_FILES)
    return judged(challenge, folder, {"main.py": code})


def test_submitted_files_run_first_and_the_script_gets_what_they_printed(tmp_path: Path) -> None:
    found = run(tmp_path, "print((int(input()) * int(open('given.txt').read())) ** 2)")
    assert found.metrics.succeeded
    assert found.details["exit_code"] == 0


def test_submitted_files_never_see_the_truth_or_the_script(tmp_path: Path) -> None:
    found = run(tmp_path, "import os; print(sorted(os.listdir('.')))")
    assert found.details["stdout"].strip() == "['given.txt', 'main.py']"


@pytest.mark.parametrize(
    ("code", "fact"),
    [
        ("import sys; sys.exit(9)", {"exit_code": 9}),
        ("import ctypes; ctypes.string_at(0)", {"signal": "SIGSEGV"}),
        ("import sys; sys.stdout.buffer.write(b'\\xff')", {"stdout": "\ufffd"}),
    ],
    ids=["exit", "crash", "bytes"],
)
def test_a_program_that_goes_wrong_is_the_scripts_to_judge(
    tmp_path: Path, code: str, fact: dict[str, Any]
) -> None:
    found = run(tmp_path, code)
    assert found.error is None
    assert not found.metrics.succeeded
    assert found.details | fact == found.details


def test_a_program_that_hangs_is_stopped(tmp_path: Path) -> None:
    challenge = challenge_in(tmp_path, RUN.replace("time: 2", "time: 0.5"), RUN_FILES)
    found = judged(challenge, tmp_path, {"main.py": "while True: pass"})
    assert found.details["stopped"] in ("timeout", "cpu")


def test_run_needs_submitted_files(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="`run` needs submitted files"):
        challenge_in(tmp_path, RUN.replace("files}", "json}"), RUN_FILES)
