"""`deterministic`: fields of the answer against the truth."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from tests.challenges.challenge_folders import challenge_in, judged
from tests.challenges.evaluators.test_submission_intake import JSON_VALUES, nested
from tests.effort import examples

from tallymark.challenges.attempt import Evaluation
from tallymark.challenges.evaluators import EvaluationSetting, Submitted
from tallymark.challenges.evaluators.deterministic import (
    LONGEST_TEXT,
    MOST_VALUES,
    evaluate,
    read_path,
)

TRUTH = (
    '{"who": "db", "count": 10, "lines": [1, 2, 3], "story": "the disk was full",'
    ' "deep": {"list": [{"x": true}]}}'
)
FIELDS = """
        who: exact_match
        count: {primitive: numeric_tolerance, tolerance: 2, weight: 2}
        lines: {primitive: coverage, dimension: completeness}
        story: {primitive: fuzzy_string, dimension: completeness}
        deep.list.0.x: {dimension: precision}
"""
TEXT = f"""
    name: x
    evaluator:
      type: deterministic
      truth: truth.json
      fields: {FIELDS}
    scoring:
      dimensions: {{correctness: 0.5, completeness: 0.25, precision: 0.25}}
"""
GOOD = {
    "who": "db",
    "count": 10,
    "lines": [1, 2, 3],
    "story": "The disk was full",
    "deep": {"list": [{"x": True}]},
}


class World:
    """One challenge, read once."""

    def __init__(self, folder: Path, text: str = TEXT) -> None:
        self.folder = folder
        self.challenge = challenge_in(folder, text, {"truth.json": TRUTH})

    def judge(self, answer: Any) -> Evaluation:
        return judged(self.challenge, self.folder, answer)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("world"))


def test_the_truth_gets_full_marks(world: World) -> None:
    found = world.judge(GOOD)
    assert found.dimensions == {"correctness": 1000, "completeness": 1000, "precision": 1000}
    assert (found.warnings, found.error) == ((), None)


def test_a_dimension_is_the_weighted_mean_of_its_fields(world: World) -> None:
    found = world.judge({**GOOD, "count": 16, "lines": [1]})
    assert found.details["fields"]["count"] == 500.0  # 6 off, with a tolerance of 2: (10 - 6) / 8
    assert found.dimensions["correctness"] == 666.666666667  # (1000 + 2 * 500) / 3
    assert found.dimensions["completeness"] == 666.666666667  # (1000 / 3 + 1000) / 2


def test_the_truth_is_not_in_what_a_competitor_reads(world: World) -> None:
    assert "disk" not in str(world.judge({"story": "no idea"}))


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (None, "who is missing, and scores 0"),
        ([], "who is missing, and scores 0"),
        ("db", "who is missing, and scores 0"),
        ({"count": "ten"}, "count is 'ten', and a number is wanted"),
        ({"lines": {"1": 2}}, "lines is {'1': 2} (dict), and a list is wanted"),
        ({"count": float("nan")}, "count is missing, and scores 0"),
        ({"story": "x" * (LONGEST_TEXT + 1)}, "story is a text of more than 20,000 characters"),
        ({"lines": [0] * (MOST_VALUES + 1)}, "lines is more than 10,000 values"),
        (nested(65), "the submission is nested deeper than 64 levels"),
        ({"a": object()}, "which is no JSON value"),
        ({"who": 10**400}, "numbers too large to compute are taken as null"),
    ],
    ids=lambda value: value[:24] if isinstance(value, str) else "",
)
def test_nonsense_scores_low_and_is_warned_of(world: World, answer: Any, told: str) -> None:
    found = world.judge(answer)
    assert set(found.dimensions.values()) == {0.0}
    assert any(told in warning["message"] for warning in found.warnings)
    assert found.error is None


def test_values_chosen_to_collide_do_not_make_it_slow(world: World) -> None:
    """All of them have the same hash; without a bound, comparing them takes minutes."""
    same_hash = [number * (2**61 - 1) for number in range(40_000)]
    assert world.judge({"lines": same_hash}).details["fields"]["lines"] == 0.0


def test_what_cannot_be_read_zeroes_every_dimension(world: World) -> None:
    zeroed = {each["dimension"] for each in world.judge(nested(65)).warnings}
    assert zeroed == {"correctness", "completeness", "precision"}


@given(JSON_VALUES)
@settings(max_examples=examples(50))
def test_whatever_is_sent_is_evaluated_and_twice_alike(world: World, answer: Any) -> None:
    found = world.judge(answer)
    assert found.error is None
    assert found == world.judge(answer)
    assert all(0 <= score <= 1000 for score in found.dimensions.values())


@pytest.mark.parametrize(
    ("pass_at", "count", "succeeded"),
    [
        ("", 10, True),
        ("", 15, False),
        ("pass_at: 800", 15, True),
        ("pass_at: 900", 15, False),
    ],
)
def test_without_dimensions_the_mean_decides(
    tmp_path: Path, pass_at: str, count: int, succeeded: bool
) -> None:
    world = World(
        tmp_path,
        f"""
        name: x
        evaluator:
          type: deterministic
          truth: truth.json
          fields: {{who: exact_match, count: {{primitive: numeric_tolerance, tolerance: 2}}}}
          {pass_at}
        """,
    )
    # 15 is 5 off: (10 - 5) / 8 of 1000 is 625, and the mean with 1000 is 812.5.
    found = world.judge({"who": "db", "count": count})
    assert found.metrics.succeeded == succeeded


def test_text_is_compared_as_a_whole(tmp_path: Path) -> None:
    text = """
        name: x
        submission: {format: text}
        evaluator: {type: deterministic, truth: truth.txt, fields: {.: exact_match}}
    """
    challenge = challenge_in(tmp_path, text, {"truth.txt": "42"})
    assert judged(challenge, tmp_path, "42").metrics.succeeded
    assert not judged(challenge, tmp_path, "43").metrics.succeeded


def test_a_truth_may_lie_elsewhere(tmp_path: Path) -> None:
    text = """
        name: x
        evaluator:
          type: deterministic
          truth: truth.json
          fields: {answer: {truth: deep.list.0.x}}
    """
    world = World(tmp_path, text)
    assert world.judge({"answer": True}).metrics.succeeded


def test_a_truth_that_lacks_a_field_is_the_organisers_error(world: World, tmp_path: Path) -> None:
    setting = EvaluationSetting(challenge=world.challenge, folder=tmp_path)
    (tmp_path / "truth.json").write_text('{"who": "db"}')
    found = judged(world.challenge, tmp_path, GOOD)
    assert found.reason == "the truth has no value for the field 'count'"
    assert found.dimensions == {}
    with pytest.raises(Exception, match="the truth has no value"):
        evaluate(Submitted(answer=GOOD, seed=1), setting)


@pytest.mark.parametrize(
    ("path", "value"),
    [(".", {"a": [5]}), ("a", [5]), ("a.0", 5)],
)
def test_paths_lead_into_mappings_and_lists(path: str, value: object) -> None:
    assert read_path({"a": [5]}, path) == value


@pytest.mark.parametrize("path", ["b", "a.1", "a.-1", "a.x", "a.0.0", "a.²", f"a.{'9' * 5000}"])
def test_paths_that_lead_nowhere_raise_nothing(path: str) -> None:
    assert type(read_path({"a": [5]}, path)) is object
