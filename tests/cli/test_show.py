"""`tally show`: a run, or one of its cases."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.tally_process import Tally

SUITE = """
metadata: {name: desk, model: replay/answers.jsonl}
evals:
  - {name: greeting, prompt: Greet., checks: [match: "*hello*"]}
  - {name: refund, prompt: Refund., checks: [match: "*done*"]}
"""
ANSWER = "No, " * 300 + "never."


@pytest.fixture
def tally(tmp_path: Path) -> Tally:
    made = Tally(tmp_path)
    (tmp_path / "suite.yaml").write_text(SUITE)
    answers = [{"prompt": "Greet.", "output": "hello"}, {"prompt": "Refund.", "output": ANSWER}]
    (tmp_path / "answers.jsonl").write_text("\n".join(map(json.dumps, answers)))
    made("run", "suite.yaml")
    return made


def test_without_a_run_it_is_the_latest_and_every_case_has_its_checks(tally: Tally) -> None:
    shown = tally("show").stdout
    assert "asked: Greet.\n      answered: hello\n      ✓ match\n" in shown
    run = tally.json("runs")["runs"][0]["id"]
    assert shown.endswith(f"details: tally show {run} --case refund\n")


def test_a_case_is_shown_with_its_whole_answer(tally: Tally) -> None:
    shown = tally("show", "--case", "refund").stdout
    assert shown.startswith("✗ refund: failed\n")
    assert ANSWER in shown
    assert "✗ match: does not match '*done*'" in shown
    assert tally.json("show", "latest", "--case", "refund")["results"][0]["output"] == ANSWER


@pytest.mark.parametrize(
    ("name", "hint"),
    [("refunds", "did you mean 'refund'?"), ("xyz", "its cases are greeting, refund")],
)
def test_a_case_that_is_not_there_gets_the_nearest(tally: Tally, name: str, hint: str) -> None:
    done = tally("show", "--case", name)
    assert done.returncode == 2
    assert f"has no case '{name}'; {hint}" in done.stderr


def test_the_last_line_of_a_run_proposes_the_case_that_failed(tally: Tally) -> None:
    last = tally("run", "suite.yaml", "-q").stdout.strip()
    assert last.endswith(" --case refund")
    assert tally(*last.partition("details: tally ")[2].split()).returncode == 0
