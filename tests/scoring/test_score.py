from __future__ import annotations

import json
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from tallymark.errors import ScorerError
from tallymark.scoring import Origin, Score


@pytest.mark.parametrize(
    ("given", "value"),
    [
        (0.85, 0.85),
        (0, 0.0),
        (1, 1.0),
        (True, 1.0),
        (False, 0.0),
        (823.5, 823.5),
        (-1, -1.0),
        (np.float32(0.5), 0.5),
        (np.int64(1), 1.0),
        (np.bool_(True), 1.0),
        (Fraction(1, 2), 0.5),
        (Decimal("0.5"), 0.5),
        (None, None),
    ],
)
def test_a_value_is_a_float_or_none(given: Any, value: float | None) -> None:
    score = Score(given)
    assert score.value == value
    assert type(score.value) in (float, type(None))


@pytest.mark.parametrize(
    "given",
    [
        *(float("nan"), float("inf"), -float("inf"), 10**400, np.float64("nan")),
        *map(Decimal, ("NaN", "sNaN", "1e999")),
    ],
)
def test_a_value_that_is_not_finite_is_refused(given: Any) -> None:
    with pytest.raises(ScorerError, match="a score's value is a finite number, not"):
        Score(given)


@pytest.mark.parametrize("given", ["0.5", [1.0], {}, 1j, np.array([1.0]), object()])
def test_a_value_that_is_no_number_is_refused(given: Any) -> None:
    with pytest.raises(ScorerError, match="a score's value is a number or None, not"):
        Score(given)


def test_a_score_never_has_both_a_value_and_an_error() -> None:
    with pytest.raises(ScorerError, match="a value or an error, not both"):
        Score(0.0, error="boom")


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"reason": 5}, "a score's reason is text, not 5"),
        ({"metadata": [1]}, "a score's metadata is a mapping, not"),
    ],
)
def test_a_reason_is_text_and_metadata_a_mapping(facts: dict[str, Any], message: str) -> None:
    with pytest.raises(ScorerError, match=message):
        Score(0.5, **facts)


def test_none_stands_for_no_reason_and_no_metadata() -> None:
    nothing: Any = None
    assert Score(0.5, reason=nothing, metadata=nothing) == Score(0.5)


def test_a_failed_score_has_an_error_and_no_value() -> None:
    score = Score.failed("no network")
    assert (score.value, score.error, score.ok) == (None, "no network", False)
    assert Score(0.0).ok


def test_a_failed_score_without_words_still_has_an_error() -> None:
    assert not Score.failed("").ok


def test_a_score_does_not_change() -> None:
    with pytest.raises(AttributeError):
        Score(0.5).value = 0.6  # type: ignore[misc]


def test_scores_do_not_share_their_metadata() -> None:
    assert Score(0.5).metadata is not Score(0.5).metadata


class _Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("given", "written"),
    [
        (float("nan"), None),
        (float("inf"), None),
        ((1, 2), [1, 2]),
        (np.float32(0.5), 0.5),
        (Path("a/b"), "a/b"),
        ({1: {"x": float("nan")}}, {"1": {"x": None}}),
        ("\ud800", "?"),
        (_Unprintable(), "a value without a working repr (_Unprintable)"),
        (Score(1.0).origin, None),
    ],
)
def test_metadata_is_written_as_plain_json(given: Any, written: Any) -> None:
    plain = Score(0.5, metadata={"key": given}).to_dict()
    assert plain["metadata"] == {"key": written}
    assert msgspec.json.decode(json.dumps(plain, allow_nan=False)) == plain


def test_metadata_that_holds_itself_is_still_written() -> None:
    circle: list[Any] = []
    circle.append(circle)
    json.dumps(Score(0.5, metadata={"circle": circle}).to_dict())


def test_a_written_score_has_every_field() -> None:
    score = Score(0.5, "why", {"n": 1}, label="fair", origin=Origin("mine", "1.0", {"k": 2}))
    assert score.to_dict() == {
        "value": 0.5,
        "reason": "why",
        "metadata": {"n": 1},
        "error": None,
        "label": "fair",
        "origin": {"scorer": "mine", "version": "1.0", "config": {"k": 2}},
    }
