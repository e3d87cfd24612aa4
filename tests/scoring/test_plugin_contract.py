"""What a plugin gets and gives: the types of the document, and how an answer is judged."""

from __future__ import annotations

import json
import math
from typing import Any, get_type_hints

import pytest
import services.challenge_scorer_protocol as shim

from tallymark import scoring
from tallymark.scoring import AttemptMetrics, Origin, ScoringContext, ScoringResult, plugin_score

ORIGIN = Origin("custom.py:Mine", "abc", {"multiplier": 2.0})


def test_attempt_metrics_are_those_of_the_document() -> None:
    assert get_type_hints(AttemptMetrics) == {
        "succeeded": bool,
        "tokens_total": int | None,
        "elapsed_ms": int | None,
        "rating": int | None,
        "created_at": int | None,
    }


def test_the_context_is_that_of_the_document() -> None:
    assert get_type_hints(ScoringContext) == {
        "tenant_id": str,
        "app_id": str,
        "workflow_id": str,
        "challenge_id": str,
        "end_user_id": str | None,
        "timeout_ms": int,
    }


def test_a_result_needs_a_score_and_may_have_details() -> None:
    assert get_type_hints(ScoringResult) == {"score": float, "details": dict[str, Any] | None}
    assert ScoringResult.__required_keys__ == frozenset({"score"})
    assert ScoringResult.__optional_keys__ == frozenset({"details"})


@pytest.mark.parametrize(
    "name", ["AttemptMetrics", "ScorerProtocol", "ScoringContext", "ScoringResult"]
)
def test_both_places_have_the_same_types(name: str) -> None:
    assert getattr(shim, name) is getattr(scoring, name)


@pytest.mark.parametrize(
    ("given", "value"), [(16.0, 16.0), (16, 16.0), (0, 0.0), (-0.0, 0.0), (2**70, 2.0**70)]
)
def test_a_number_is_the_score(given: float, value: float) -> None:
    score = plugin_score({"score": given}, origin=ORIGIN)
    assert (score.value, score.error, score.metadata, score.origin) == (value, None, {}, ORIGIN)
    assert math.copysign(1, value) == math.copysign(1, score.value or 0.0)


@pytest.mark.parametrize(
    ("details", "kept"),
    [
        ({"a": [1, 2.0, None, True, "x"]}, {"a": [1, 2.0, None, True, "x"]}),
        ({"a": [math.nan, math.inf]}, {"a": [None, None]}),
        ({1: "a", None: "b"}, {"1": "a", "None": "b"}),
        ({"a": 10**30}, {"a": 10**30}),
        ({"a": "\ud800"}, {"a": "?"}),
    ],
    ids=["plain", "not finite", "keys", "a large number", "broken text"],
)
def test_details_are_kept_as_plain_data(details: object, kept: object) -> None:
    score = plugin_score({"score": 1, "details": details}, origin=None)
    assert score.metadata == {"details": kept}
    json.dumps(score.metadata, allow_nan=False)


def test_details_nested_without_end_are_cut() -> None:
    endless: dict[str, Any] = {}
    endless["again"] = endless
    score = plugin_score({"score": 1, "details": endless}, origin=None)
    json.dumps(score.metadata, allow_nan=False)


@pytest.mark.parametrize("details", [None, {}])
def test_no_details_leave_no_trace(details: object) -> None:
    assert plugin_score({"score": 1, "details": details}, origin=None).metadata == {}


def test_a_negative_score_is_raised_to_0_and_that_is_recorded() -> None:
    score = plugin_score({"score": -2.5, "details": {"a": 1}}, origin=ORIGIN)
    assert score.value == 0.0
    assert score.metadata == {"details": {"a": 1}, "clamped_from": -2.5}
    assert score.reason == "-2.5 was raised to 0"


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (None, 'a plugin gives back {"score": number}, not None'),
        (16.0, 'a plugin gives back {"score": number}, not 16.0'),
        ([1], 'a plugin gives back {"score": number}, not [1] (list)'),
        ({}, 'the answer has no "score"'),
        ({1: 2}, 'the answer has no "score"'),
        ({"Score": 1}, 'the answer has no "score", only "Score"'),
        ({"score": None}, "the score is a number, not None"),
        ({"score": "16"}, "the score is a number, not '16'"),
        ({"score": True}, "the score is a number, not True"),
        ({"score": [1]}, "the score is a number, not [1] (list)"),
        ({"score": math.nan}, "the score is a finite number, not nan"),
        ({"score": math.inf}, "the score is a finite number, not inf"),
        ({"score": -math.inf}, "the score is a finite number, not -inf"),
        ({"score": 10**400}, "the score is too large to be a number"),
        ({"score": -(10**400)}, "the score is too large to be a number"),
        ({"score": 1, "details": "ok"}, "the details are a mapping or None, not 'ok'"),
    ],
    ids=lambda each: None if isinstance(each, str) else repr(each)[:40],
)
def test_a_bad_answer_is_a_failed_score_with_its_reason(answer: object, error: str) -> None:
    score = plugin_score(answer, origin=ORIGIN)
    assert (score.value, score.error, score.origin) == (None, error, ORIGIN)
    assert score.metadata == {"stopped": "bad answer"}


def test_a_float_that_lies_about_itself_is_no_number() -> None:
    class Lying(float):
        def __float__(self) -> float:
            return 1e9

    assert plugin_score({"score": Lying(1.0)}, origin=None).value is None
