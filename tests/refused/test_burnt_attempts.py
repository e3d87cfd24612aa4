"""An attempt that a mistake in the form of an answer would use up."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.challenges.challenge_folders import folder_with
from tests.cli.tally_process import Tally

from tallymark.challenges.challenge import Submission
from tallymark.challenges.submitted_files import read_answer
from tallymark.errors import InvalidInput
from tallymark.service.competition import Competition
from tallymark.store import Store, open_store

CODE = """
    name: code
    goal: Write it.
    attempts: 1
    submission: {format: files}
    evaluator: {type: tests, cases: cases.yaml}
    scoring: {strategy: first}
"""
CASES = {"cases.yaml": "[{name: one, call: one, value: 1}]"}
ONE = "def one():\n    return 1\n"
TEXT = """
    name: text
    goal: Write it.
    attempts: 1
    submission: {format: text}
    evaluator: {type: deterministic, truth: truth.json, fields: {".": exact_match}}
    scoring: {strategy: first}
"""
AGENT = """
    name: agent
    goal: Be one.
    attempts: 1
    submission: {format: agent}
    evaluator: {type: suite, suite: suite.yaml, allow: [replay]}
    scoring: {strategy: first}
"""
SUITE = {
    "suite.yaml": "evals: [{name: a, prompt: hi, checks: [match: ho]}]",
    "answers/good.jsonl": '{"prompt": "hi", "output": "ho"}',
}


@pytest.fixture
def store(empty_url: str) -> Iterator[Store]:
    with open_store(empty_url) as opened:
        yield opened


CHALLENGES: list[tuple[str, dict[str, str], Any, dict[str, Any]]] = [
    (
        CODE,
        CASES,
        {"solution.py": ONE},
        {
            "text in place of files": "x = 1",
            "no file at all": {},
            "another name": {"main.py": ONE},
            "no text": {"solution.py": 1},
            "a name outside": {"../x.py": ONE},
        },
    ),
    (TEXT, {"truth.json": '"a"'}, "a", {"a map in place of text": {"a": 1}}),
    (
        AGENT,
        SUITE,
        "replay/good",
        {
            "an agent of code": "python/os:getcwd",
            "an agent that is not there": "replay/none",
            "an address": "http://127.0.0.1/",
        },
    ),
]
"""Each with its files, an answer that wins, and what could never be judged."""


def test_what_can_never_be_judged_is_refused_and_the_attempt_stays_open(
    store: Store, tmp_path: Path
) -> None:
    games = Competition(store)
    for text, files, right, never in CHALLENGES:
        name = games.publish(folder_with(tmp_path / str(len(never)), text, files)).name
        attempt = games.enter(name, "alice").attempt
        for what, wrong in never.items():
            with pytest.raises(InvalidInput):
                games.submit(attempt.id, "alice", wrong)
            assert store.attempts.get(attempt.id).state == "entered", what
        done = games.submit(attempt.id, "alice", right)
        assert done.outcome is not None
        assert done.outcome.result == "win"
    games.close()


FILES = Submission(format="files")


@pytest.mark.parametrize(
    ("name", "text", "taken"),
    [
        ("answer.json", {"solution.py": ONE}, {"solution.py": ONE}),
        (
            "answer.json",
            {"src/a.py": ONE, "Makefile": "all:"},
            {"src/a.py": ONE, "Makefile": "all:"},
        ),
        ("answer.json", {"solution.py": 1}, {"solution.py": 1}),  # the intake says what is wrong
        ("package.json", {"name": "x"}, {"package.json": '{"name": "x"}'}),
        ("list.json", [1], {"list.json": "[1]"}),
        ("solution.py", {"a.py": "b"}, {"solution.py": '{"a.py": "b"}'}),
    ],
)
def test_a_json_map_of_files_is_taken_as_the_files(
    tmp_path: Path, name: str, text: Any, taken: Any
) -> None:
    (tmp_path / name).write_text(json.dumps(text), encoding="utf-8")
    assert read_answer(tmp_path / name, FILES) == taken


def test_a_json_map_of_files_does_not_burn_the_attempt(tmp_path: Path) -> None:
    folder_with(tmp_path / "code", CODE, CASES)
    tally = Tally(tmp_path)
    tally("challenge", "publish", "code")
    tally("attempt", "enter", "code", "--agent", "alice")
    submit = ("attempt", "submit", "a000000000001", "-", "--agent", "alice")
    done = tally(*submit, stdin=ONE)  # no name, so no file
    assert done.returncode == 2
    assert "standard input has no name" in done.stderr
    done = tally(*submit, stdin=json.dumps({"solution.py": ONE}))
    assert "(win" in done.stdout
