"""What fails tells competitors that it failed; why, which may be the truth, it tells organisers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.challenges.challenge_folders import folder_with
from tests.cli.tally_process import Tally

TRUTH = "the-answer-is-4711"
HEAD = "name: {name}\ngoal: Guess.\n"
SCRIPT = "evaluator: {type: script, script: judge.py, truth: truth.json}\n"
FILES = {"truth.json": f'{{"secret": "{TRUTH}"}}'}
RAISES = "def evaluate(submission, truth, data):\n    raise ValueError(truth)\n"
PRINTS = "import sys\ndef evaluate(submission, truth, data):\n    sys.exit(truth['secret'])\n"
GIVES = "def evaluate(submission, truth, data):\n    return truth['secret']\n"
DIMENSION = """def evaluate(submission, truth, data):
    return {"dimensions": {"correctness": 1, truth["secret"]: 1}}
"""
WARNING = """def evaluate(submission, truth, data):
    warning = {"message": "no", "severity": "error", "dimension": truth["secret"]}
    return {"dimensions": {"correctness": 1}, "warnings": [warning]}
"""
MISNAMES = "def evaluate(submission, truth, data):\n    return {truth['secret']: 1}\n"


@pytest.fixture
def tally(tmp_path: Path, empty_url: str) -> Callable[..., str]:
    run = Tally(tmp_path)

    def say(*arguments: str) -> str:
        done = run(*arguments, "--db", empty_url)
        return done.stdout + done.stderr

    return say


def publish(tally: Callable[..., str], folder: Path, text: str, files: dict[str, str]) -> None:
    folder_with(folder / "made", text, files)
    said = tally("challenge", "publish", "made", "--force")
    assert "published" in said.lower(), said


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(RAISES, id="raises"),
        pytest.param(PRINTS, id="prints", marks=pytest.mark.proof),
        pytest.param(GIVES, id="gives", marks=pytest.mark.proof),
        pytest.param(MISNAMES, id="misnames", marks=pytest.mark.proof),
    ],
)
def test_a_script_that_fails_tells_the_truth_to_organisers_alone(
    tally: Callable[..., str], tmp_path: Path, body: str
) -> None:
    publish(tally, tmp_path, HEAD.format(name="guess") + SCRIPT, FILES | {"judge.py": body})
    (tmp_path / "answer.json").write_text("{}", encoding="utf-8")
    tally("attempt", "enter", "guess", "--agent", "mallory")
    shown = tally("attempt", "submit", "a000000000001", "answer.json", "--agent", "mallory")
    why = "no score, because the evaluation failed; the organiser can see why"
    assert why in " ".join(shown.split())
    for command in (
        ("attempt", "submit", "a000000000001", "answer.json", "--agent", "mallory", "--json"),
        ("attempt", "list", "guess", "--json"),
        ("attempt", "show", "a000000000001"),
        ("attempt", "show", "a000000000001", "--json"),
    ):
        said = tally(*command)
        assert "the evaluation failed" in " ".join(said.split())
        shown += said
    assert TRUTH not in shown
    for form in ((), ("--json",)):
        assert TRUTH in tally("attempt", "show", "a000000000001", "--organiser", *form)


@pytest.mark.parametrize("body", [DIMENSION, pytest.param(WARNING, marks=pytest.mark.proof)])
def test_a_dimension_that_a_script_names_is_told_to_organisers_alone(
    tally: Callable[..., str], tmp_path: Path, body: str
) -> None:
    scoring = "scoring: {strategy: custom, dimensions: {correctness: 0.5, completeness: 0.5}}\n"
    text = HEAD.format(name="guess") + SCRIPT + scoring
    publish(tally, tmp_path, text, FILES | {"judge.py": body})
    (tmp_path / "answer.json").write_text("{}", encoding="utf-8")
    tally("attempt", "enter", "guess", "--agent", "mallory")
    shown = tally("attempt", "submit", "a000000000001", "answer.json", "--agent", "mallory")
    assert "do not match the challenge's dimensions" in " ".join(shown.split())
    shown += tally("attempt", "show", "a000000000001", "--json")
    assert TRUTH not in shown
    assert TRUTH in tally("attempt", "show", "a000000000001", "--organiser")


def test_data_and_cases_that_are_wrong_are_not_quoted(
    tally: Callable[..., str], tmp_path: Path
) -> None:
    """The generator works at entry: what it makes is no list of cases."""
    made = (
        f"def generate(seed):\n    return {{'public': {{}}, 'truth': {{'cases': ['{TRUTH}']}}}}\n"
    )
    text = "submission: {format: text}\ndata: {generate: generate.py}\nevaluator: {type: tests}\n"
    publish(tally, tmp_path, HEAD.format(name="guess") + text, {"generate.py": made})
    (tmp_path / "answer.py").write_text("", encoding="utf-8")
    entered = tally("attempt", "enter", "guess", "--agent", "mallory", "--json")
    attempt = json.loads(entered)["attempt"]["id"]
    shown = tally("attempt", "submit", attempt, "answer.py", "--agent", "mallory")
    assert "submitted, and waits for `tally attempt settle`" in " ".join(shown.split())
    shown += tally("attempt", "show", attempt, "--json")
    shown += tally("attempt", "list", "guess")
    assert TRUTH not in shown
    assert "waiting" in shown
    assert TRUTH in tally("attempt", "show", attempt, "--organiser")


def test_a_versus_judge_that_fails_is_not_quoted(tally: Callable[..., str], tmp_path: Path) -> None:
    text = """
        name: guard
        goal: Get past.
        kind: versus
        versus: {categories: [leak], judge: {type: script, script: judge.py}}
    """
    judge = f"def judge(attack, defence, category):\n    raise ValueError('{TRUTH}')\n"
    publish(tally, tmp_path, text, {"judge.py": judge})
    (tmp_path / "a.json").write_text("{}", encoding="utf-8")
    tally("versus", "submit", "guard", "a.json", "--agent", "alice", "--side", "blue")
    shown = tally(
        "versus", "submit", "guard", "a.json", "--agent", "mallory", "--side", "red", "--json"
    )
    assert "the judge failed; the organiser can see why" in shown
    assert TRUTH not in shown
    assert TRUTH in tally("versus", "settle", "guard", "--again")
