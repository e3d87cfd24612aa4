"""A breakdown's arithmetic is the document's, exactly."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallymark.dimensions import (
    CORE,
    SOLO_DRAW_THRESHOLD,
    SOLO_WIN_THRESHOLD,
    SubmissionWarning,
    WeightedDimension,
    breakdown,
    dims,
    result_of,
)
from tallymark.errors import InvalidInput

DOCUMENT = dims({"correctness": 0.5, "speed": 0.2, "methodology": 0.15, "completeness": 0.15})
SCORES = {"correctness": 900, "speed": 780, "methodology": 690, "completeness": 760}
HALVES = dims({"correctness": 0.5, "speed": 0.5})


def test_the_documents_example_totals_823_5_and_shows_823() -> None:
    scored = breakdown(DOCUMENT, SCORES)
    assert scored.total == Fraction("823.5")
    assert (scored.score, scored.result) == (823, "win")


def test_the_documents_response_to_the_letter() -> None:
    response = breakdown(DOCUMENT, SCORES).to_dict()
    assert json.dumps(response["score_breakdown"]) == (
        '{"correctness": {"score": 900, "weight": 0.5, "weighted": 450}, '
        '"speed": {"score": 780, "weight": 0.2, "weighted": 156}, '
        '"methodology": {"score": 690, "weight": 0.15, "weighted": 103.5}, '
        '"completeness": {"score": 760, "weight": 0.15, "weighted": 114}}'
    )
    rest = {key: value for key, value in response.items() if key != "score_breakdown"}
    assert rest == {
        "score": 823,
        "result": "win",
        "submission_warnings": [],
        "constraint_violations": [],
    }


def test_690_times_0_15_is_103_5() -> None:
    assert breakdown(DOCUMENT, SCORES).parts[2].weighted == Fraction("103.5")


def test_weights_count_as_written_and_not_as_floats() -> None:
    tenths = dims({"correctness": 0.1, "speed": 0.2, "analysis": 0.7})
    assert breakdown(tenths, {"correctness": 3, "speed": 3, "analysis": 3}).total == 3
    assert Fraction(0.1) * 3 + Fraction(0.2) * 3 + Fraction(0.7) * 3 != 3


def test_the_thresholds_are_700_and_400() -> None:
    assert (SOLO_WIN_THRESHOLD, SOLO_DRAW_THRESHOLD) == (700, 400)


@pytest.mark.parametrize(
    ("score", "result"),
    [(1000, "win"), (700, "win"), (699, "draw"), (400, "draw"), (399, "loss"), (0, "loss")],
)
def test_score_to_result(score: int, result: str) -> None:
    assert result_of(score) == result


def test_699_9_shows_699_and_is_a_draw() -> None:
    scored = breakdown(HALVES, {"correctness": 699.9, "speed": 699.9})
    assert (scored.score, scored.result) == (699, "draw")


@pytest.mark.parametrize(
    ("raw", "kept"),
    [(-5, 0), (0, 0), (1000, 1000), (1000.5, 1000), (10**400, 1000), (12.25, 12.25)],
)
def test_a_raw_score_is_clamped_to_0_to_1000(raw: float, kept: float) -> None:
    response = breakdown(HALVES, {"correctness": raw, "speed": 0}).to_dict()
    assert response["score_breakdown"]["correctness"]["score"] == kept


def test_numpys_numbers_are_numbers() -> None:
    scored = breakdown(HALVES, {"correctness": np.float64(0.1), "speed": np.int64(7)})  # type: ignore[dict-item]
    assert scored.total == Fraction("3.55")


def test_weights_over_1_do_not_lift_the_total_over_1000() -> None:
    scored = breakdown(
        dims({"correctness": 0.501, "speed": 0.5}), {"correctness": 1000, "speed": 1000}
    )
    assert scored.total == 1000


def test_an_error_zeroes_its_dimension_and_a_warning_does_not() -> None:
    error = SubmissionWarning("no steps given", "error", "correctness")
    advice = SubmissionWarning("late", dimension="speed")
    scored = breakdown(HALVES, {"correctness": 900, "speed": 800}, [error, advice])
    assert scored.score == 400
    assert scored.to_dict()["submission_warnings"] == [
        {"message": "no steps given", "severity": "error", "dimension": "correctness"},
        {"message": "late", "severity": "warning", "dimension": "speed"},
    ]


def test_a_zeroed_dimension_needs_no_score() -> None:
    error = SubmissionWarning("unreadable", "error", "correctness")
    assert breakdown(HALVES, {"speed": 800}, [error]).score == 400


def test_violations_and_the_harness_warning_are_carried() -> None:
    response = breakdown(
        HALVES,
        {"correctness": 1, "speed": 1},
        constraint_violations=["12 calls, 10 allowed"],
        harness_warning="the harness changed",
    ).to_dict()
    assert response["constraint_violations"] == ["12 calls, 10 allowed"]
    assert response["harness_warning"] == "the harness changed"


@pytest.mark.parametrize(
    ("scores", "sentence"),
    [
        (
            {"speed": 1},
            "dimension 'correctness' has no score; give a number from 0 to 1000",
        ),
        (
            {"correctness": 1, "speed": 1, "sped": 1},
            (
                "there is a score for 'sped', which this challenge does not weigh; "
                "did you mean 'speed'?"
            ),
        ),
        (
            {"correctness": float("nan"), "speed": float("inf")},
            (
                "the score of 'correctness' must be a finite number, not nan\n"
                "the score of 'speed' must be a finite number, not inf"
            ),
        ),
        (
            {"correctness": None, "speed": True},
            (
                "the score of 'correctness' must be a finite number, not None\n"
                "the score of 'speed' must be a finite number, not True"
            ),
        ),
        (
            {"correctness": "900", "speed": 1, "xyz": 3},
            (
                "there is a score for 'xyz', which this challenge does not weigh; "
                "its dimensions are correctness, speed\n"
                "the score of 'correctness' must be a finite number, not '900'"
            ),
        ),
    ],
)
def test_scores_refused_in_words(scores: Any, sentence: str) -> None:
    with pytest.raises(InvalidInput) as error:
        breakdown(HALVES, scores)
    assert str(error.value) == sentence


def test_a_warning_for_an_unweighted_dimension_is_refused() -> None:
    with pytest.raises(InvalidInput, match="a warning for 'analysis'"):
        breakdown(
            HALVES, {"correctness": 1, "speed": 1}, [SubmissionWarning("x", dimension="analysis")]
        )


def test_an_unknown_severity_is_refused() -> None:
    severity: Any = "fatal"
    with pytest.raises(InvalidInput, match="severity is 'error' or 'warning', not 'fatal'"):
        SubmissionWarning("x", severity, "speed")


def test_an_error_that_names_no_dimension_is_refused() -> None:
    with pytest.raises(InvalidInput, match="names no dimension to score 0"):
        SubmissionWarning("x", "error")


numbers = st.floats(-100, 1100) | st.integers(-100, 1100)


@st.composite
def scored(draw: st.DrawFn) -> tuple[tuple[WeightedDimension, ...], dict[str, float]]:
    """Weights in thousandths that sum to 1 or to a thousandth beside it, and raw scores."""
    keys = draw(st.lists(st.sampled_from(sorted(CORE)), min_size=2, max_size=6, unique=True))
    whole = draw(st.sampled_from([999, 1000, 1001]))
    parts = [draw(st.integers(1, 150)) for _ in keys[1:]]
    weights = [Fraction(part, 1000) for part in (*parts, whole - sum(parts))]
    chosen = dims(dict(zip(keys, map(float, weights), strict=True)))
    return chosen, {key: draw(numbers) for key in keys}


@given(scored())
def test_a_total_lies_within_0_and_1000(
    case: tuple[tuple[WeightedDimension, ...], dict[str, float]],
) -> None:
    assert 0 <= breakdown(*case).total <= 1000


@given(scored(), st.data())
def test_a_total_never_falls_when_a_dimension_rises(
    case: tuple[tuple[WeightedDimension, ...], dict[str, float]], data: st.DataObject
) -> None:
    chosen, scores = case
    key = data.draw(st.sampled_from(sorted(scores)))
    higher = scores | {key: data.draw(st.floats(scores[key], 2000))}
    assert breakdown(chosen, higher).total >= breakdown(chosen, scores).total


@given(scored(), st.randoms(use_true_random=False))
def test_the_order_of_dimensions_does_not_matter(
    case: tuple[tuple[WeightedDimension, ...], dict[str, float]], random: Any
) -> None:
    chosen, scores = case
    shuffled = random.sample(chosen, len(chosen))
    assert breakdown(shuffled, scores).to_dict() == breakdown(chosen, scores).to_dict()
