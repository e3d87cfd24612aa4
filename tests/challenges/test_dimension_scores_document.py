"""Every number of dimension-scoring.md, through a whole challenge."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.challenges.challenge_folders import ENTERED, attempt_at, challenge_in

from tallymark.challenges.attempt import Evaluation, Metrics, Outcome
from tallymark.challenges.attempt_scores import score_attempt
from tallymark.challenges.challenge import Challenge
from tallymark.challenges.dimension_scores import weighted_dimensions
from tallymark.challenges.trajectory import Verification
from tallymark.dimensions import CORE
from tallymark.errors import InvalidInput

EXAMPLE = "{correctness: 0.5, speed: 0.2, methodology: 0.15, completeness: 0.15}"
LIMIT_S = 1000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("document")


def challenge(folder: Path, dimensions: str, more: str = "") -> Challenge:
    text = f"name: x\ntime_limit: {LIMIT_S}\nscoring: {{dimensions: {dimensions}}}\n{more}"
    return challenge_in(folder, text)


def scored(it: Challenge, dimensions: dict[str, float], seconds: float, **changes: Any) -> Outcome:
    evaluation = Evaluation(
        metrics=Metrics(elapsed_ms=int(seconds * 1000)),
        dimensions=dimensions,
        warnings=changes.pop("warnings", ()),
    )
    attempt = attempt_at(it, submitted_at=ENTERED + seconds)
    return score_attempt(it, evaluation, attempt=attempt, **changes)


def test_the_example_breakdown_of_823(folder: Path) -> None:
    raw = {"correctness": 900.0, "methodology": 690.0, "completeness": 760.0}
    outcome = scored(challenge(folder, EXAMPLE), raw, seconds=220)
    assert outcome.score == 823
    assert outcome.details["score_breakdown"] == {
        "correctness": {"score": 900, "weight": 0.5, "weighted": 450},
        "speed": {"score": 780, "weight": 0.2, "weighted": 156},
        "methodology": {"score": 690, "weight": 0.15, "weighted": 103.5},
        "completeness": {"score": 760, "weight": 0.15, "weighted": 114},
    }
    assert outcome.result == "win"


@pytest.mark.parametrize(
    ("points", "result"),
    [
        (1000, "win"),
        (700, "win"),
        (699.999, "draw"),
        (699, "draw"),
        (400, "draw"),
        (399.999, "loss"),
        (399, "loss"),
        (0, "loss"),
    ],
)
def test_scores_map_to_results_at_700_and_400(folder: Path, points: float, result: str) -> None:
    it = challenge(folder, "{correctness: 0.5, analysis: 0.5}")
    outcome = scored(it, {"correctness": points, "analysis": points}, seconds=1)
    assert outcome.result == result
    assert outcome.metrics.succeeded == (result == "win")


def test_submitting_at_90_percent_of_the_time_scores_100_on_speed(folder: Path) -> None:
    it = challenge(folder, "{correctness: 0.5, speed: 0.5}")
    outcome = scored(it, {"correctness": 0}, seconds=0.9 * LIMIT_S)
    assert outcome.dimensions["speed"] == 100


def test_partial_and_early_outperforms_perfect_and_late(folder: Path) -> None:
    it = challenge(folder, "{correctness: 0.5, speed: 0.5}")
    early = scored(it, {"correctness": 700}, seconds=100)
    late = scored(it, {"correctness": 1000}, seconds=900)
    assert early.score is not None
    assert late.score is not None
    assert (early.score, late.score) == (800, 550)


def test_the_dims_example_with_its_overridden_description(folder: Path) -> None:
    it = challenge(
        folder,
        "{correctness: {weight: 0.40, description: Override description for this challenge},"
        " methodology: 0.25, speed: 0.15, completeness: 0.20}",
    )
    weighted = weighted_dimensions(it.scoring.dimensions)
    assert [(each.key, float(each.weight)) for each in weighted] == [
        ("correctness", 0.40),
        ("methodology", 0.25),
        ("speed", 0.15),
        ("completeness", 0.20),
    ]
    assert weighted[0].dimension.description == "Override description for this challenge"


@pytest.mark.parametrize("count", [1, 7])
def test_a_challenge_picks_2_to_6_dimensions(folder: Path, count: int) -> None:
    weights = ", ".join(f"{key}: {1 / count}" for key in list(CORE)[:count])
    with pytest.raises(InvalidInput, match="choose 2 to 6 dimensions"):
        challenge(folder, f"{{{weights}}}")


def test_weights_sum_to_1(folder: Path) -> None:
    with pytest.raises(InvalidInput, match=r"sum to 0\.8, not to 1"):
        challenge(folder, "{correctness: 0.5, speed: 0.3}")


def test_the_total_is_capped_at_1000(folder: Path) -> None:
    it = challenge(folder, "{correctness: 0.5005, analysis: 0.5}")
    outcome = scored(it, {"correctness": 5000, "analysis": 1000}, seconds=1)
    assert outcome.score == 1000


EFFICIENT = "{correctness: 0.5, token_efficiency: 0.3, call_efficiency: 0.2}"
BOUNDS = "constraints: {tokens: 1000, calls: 10}"


def test_verified_matches_are_scored_on_efficiency(folder: Path) -> None:
    shown = Verification(level="consistent", tokens=250, calls=4)
    outcome = scored(
        challenge(folder, EFFICIENT, BOUNDS), {"correctness": 1000}, 1, trajectory=shown
    )
    assert outcome.dimensions == {
        "correctness": 1000,
        "token_efficiency": 750,
        "call_efficiency": 600,
    }
    assert (outcome.metrics.tokens_total, outcome.metrics.calls) == (250, 4)


@pytest.mark.parametrize(
    "shown",
    [None, Verification(level="none", problems=("no trajectory was sent",), tokens=1, calls=1)],
    ids=["none", "not-believed"],
)
def test_unverified_matches_score_0_on_efficiency(folder: Path, shown: Verification | None) -> None:
    outcome = scored(
        challenge(folder, EFFICIENT, BOUNDS), {"correctness": 1000}, 1, trajectory=shown
    )
    assert outcome.score == 500
    assert outcome.metrics.tokens_total is None


def test_a_warning_of_severity_error_scores_0_on_its_dimension(folder: Path) -> None:
    told = {"message": "no report", "severity": "error", "dimension": "correctness"}
    it = challenge(folder, "{correctness: 0.5, analysis: 0.5}")
    outcome = scored(it, {"correctness": 1000, "analysis": 1000}, 1, warnings=(told,))
    assert outcome.score == 500
    assert outcome.details["submission_warnings"] == [told]


def test_a_warning_is_advisory(folder: Path) -> None:
    told = {"message": "no report", "severity": "warning", "dimension": "correctness"}
    it = challenge(folder, "{correctness: 0.5, analysis: 0.5}")
    outcome = scored(it, {"correctness": 1000, "analysis": 1000}, 1, warnings=(told,))
    assert outcome.score == 1000


def test_the_response_carries_violations_and_the_harness_warning(folder: Path) -> None:
    shown = Verification(
        level="consistent",
        tokens=2000,
        calls=4,
        violations=("it used 2,000 tokens, and 1,000 are allowed",),
        harness_warning="the clock is behind",
    )
    outcome = scored(
        challenge(folder, EFFICIENT, BOUNDS), {"correctness": 1000}, 1, trajectory=shown
    )
    assert outcome.details["constraint_violations"] == list(shown.violations)
    assert outcome.details["harness_warning"] == "the clock is behind"
    assert outcome.dimensions["token_efficiency"] == 0


RAW = st.floats(-100, 1100)


@pytest.fixture(scope="module")
def example(folder: Path) -> Challenge:
    return challenge(folder, EXAMPLE)


@given(RAW, RAW, RAW, st.integers(0, 2 * LIMIT_S), st.floats(0, 500))
def test_totals_keep_to_1000_and_rise_with_every_dimension(
    example: Challenge, one: float, two: float, three: float, seconds: int, more: float
) -> None:
    raw = {"correctness": one, "methodology": two, "completeness": three}
    total = scored(example, raw, seconds).score
    assert total is not None
    assert 0 <= total <= 1000
    for key, points in raw.items():
        better = scored(example, raw | {key: points + more}, seconds).score
        assert better is not None
        assert better >= total
