"""Publishing what `tally challenge check` calls not ready; calling ready what scores nobody."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.challenges.challenge_folders import folder_with
from tests.cli.tally_process import Tally

from tallymark.challenges.challenge_check import check_challenge
from tallymark.store import open_store

UNWINNABLE = """
    name: sums
    goal: "Answer with {sum: 42}."
    attempts: 3
    evaluator:
      type: deterministic
      truth: truth.json
      fields: {sum: {primitive: exact_match, dimension: correctness}}
    scoring: {dimensions: {correctness: 0.9, speed: 0.1}}
    reference: reference.json
"""
FILES = {"truth.json": '{"sum": 42}', "reference.json": '{"sum": 41}'}
REPORTED = """
    name: reports
    goal: Be quick.
    evaluator: {type: reported, metrics: [steps]}
    scoring: {SCORING}
"""
JUDGED_HERE = """
    name: sums
    goal: "Answer with {sum: 42}."
    attempts: 3
    evaluator:
      type: deterministic
      truth: truth.json
      fields: {sum: {primitive: exact_match}}
    scoring: {SCORING}
"""


def test_publishing_what_is_not_ready(tmp_path: Path, empty_url: str) -> None:
    folder_with(tmp_path / "sums", UNWINNABLE, FILES)
    tally = Tally(tmp_path)
    refused = tally("challenge", "publish", "sums", "--db", empty_url)
    assert refused.returncode == 1
    assert "reference: with seed 1 it loses" in refused.stderr
    assert "sums is not ready; fix it, or publish it with --force" in refused.stderr
    with open_store(empty_url) as store:
        assert not store.exists
    assert tally("challenge", "publish", "sums", "--force", "--db", empty_url).returncode == 0
    with open_store(empty_url) as store:
        assert [each.challenge.name for each in store.challenges.all()] == ["sums"]


@pytest.mark.parametrize(
    ("text", "scoring", "why"),
    [
        (REPORTED, "plugin: builtin.weighted_scorer, config: {wieght: 1}", "unknown key"),
        (REPORTED, 'formula: "steps / (succeeded - succeeded)"', "division by zero"),
        (JUDGED_HERE, 'formula: "rating * 2"', "rating"),
    ],
    ids=["a plugin's config", "a formula", "a number that nobody gives"],
)
def test_a_rule_that_scores_no_attempt(tmp_path: Path, text: str, scoring: str, why: str) -> None:
    folder_with(tmp_path / "c", text.replace("SCORING", scoring), FILES)
    report = check_challenge(tmp_path / "c")
    (found,) = [each for each in report.problems if each.what == "scoring"]
    assert found.detail.startswith("no attempt would get a score: ")
    assert why in found.detail
    assert not report.ok


def test_a_rule_that_scores_some_attempts_is_no_problem(tmp_path: Path) -> None:
    rule = 'strategy: custom, formula: "100 / steps"'
    folder_with(tmp_path / "c", REPORTED.replace("SCORING", rule))
    assert check_challenge(tmp_path / "c").ok
