from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tallymark.scoring import Score, Scorer, to_score

NAN = float("nan")
GRADES = {"good": 1.0, "fair": 0.5, "bad": 0.0}


def _scorer(data_type: Any = "numeric", labels: dict[str, float] | None = None) -> Scorer:
    return Scorer(lambda ctx: None, name="quality", data_type=data_type, labels=labels)


@pytest.mark.parametrize(
    ("data_type", "raw", "value"),
    [
        ("numeric", 0.85, 0.85),
        ("numeric", 0, 0.0),
        ("numeric", 1, 1.0),
        ("numeric", True, 1.0),
        ("numeric", False, 0.0),
        ("numeric", np.float32(0.5), 0.5),
        ("numeric", np.bool_(True), 1.0),
        ("numeric", 1 + 1e-12, 1.0),
        ("numeric", -1e-12, 0.0),
        ("numeric", Score(0.3), 0.3),
        ("numeric", {"value": 0.25}, 0.25),
        ("numeric", {"value": True}, 1.0),
        ("boolean", True, 1.0),
        ("boolean", 0, 0.0),
        ("boolean", 1.0, 1.0),
        ("boolean", {"value": 1, "reason": "Pattern matched"}, 1.0),
    ],
)
def test_a_return_that_means_a_number(data_type: str, raw: Any, value: float) -> None:
    score = to_score(raw, _scorer(data_type))
    assert (score.value, score.error) == (value, None)


@pytest.mark.parametrize(
    ("labels", "raw", "value", "label"),
    [
        (None, "good", None, "good"),
        (GRADES, "good", 1.0, "good"),
        (GRADES, "bad", 0.0, "bad"),
        (GRADES, Score(None, label="fair"), 0.5, "fair"),
        (GRADES, Score(0.4, label="fair"), 0.4, "fair"),
        (GRADES, {"label": "fair"}, 0.5, "fair"),
        (GRADES, {"value": "fair"}, 0.5, "fair"),
        (None, {"value": 0.2, "label": "fair"}, 0.2, "fair"),
    ],
)
def test_a_categorical_return_is_a_label(
    labels: Any, raw: Any, value: float | None, label: str
) -> None:
    score = to_score(raw, _scorer("categorical", labels))
    assert (score.value, score.label, score.error) == (value, label, None)


@pytest.mark.parametrize(
    ("data_type", "raw", "message"),
    [
        ("numeric", None, "quality returned None instead of a number from 0 to 1"),
        ("numeric", NAN, "quality returned nan instead of a number from 0 to 1"),
        ("numeric", float("inf"), "quality returned inf instead"),
        ("numeric", 2.0, "quality returned 2.0 instead"),
        ("numeric", 1.00001, "quality returned 1.00001 instead"),
        ("numeric", -0.00001, "quality returned -1e-05 instead"),
        ("numeric", -0.1, "quality returned -0.1 instead"),
        ("numeric", 10**400, "instead of a number"),
        ("numeric", [0.5], "quality returned [0.5] (list) instead"),
        ("numeric", (0.5, "x"), "quality returned (0.5, 'x') (tuple) instead"),
        ("numeric", "good", "quality returned 'good' instead"),
        ("numeric", "good", 'for labels, write @scorer(data_type="categorical")'),
        ("numeric", object, "(type) instead"),
        ("numeric", np.array([0.5]), "(ndarray) instead"),
        ("numeric", Score(2.0), "quality returned 2.0 instead"),
        ("numeric", Score(None), "quality gave no value"),
        ("numeric", Score(None, "no price"), "quality gave no value: no price"),
        ("numeric", {}, "quality returned a mapping that is not {value, reason, metadata}: {}"),
        ("numeric", {"value": 0.5, "reson": "x"}, "quality returned a mapping that is not"),
        ("numeric", {"value": None}, "quality gave no value"),
        ("numeric", {"value": NAN}, "quality returned nan instead"),
        ("numeric", {"value": 0.5, "reason": 3}, "quality returned 3 (int) as its reason"),
        ("numeric", {"value": 0.5, "metadata": 3}, "quality returned 3 (int) as its metadata"),
        ("numeric", {"error": "no network"}, "no network"),
        ("boolean", 0.5, "quality returned 0.5 instead of True or False"),
        ("categorical", 0.5, "quality returned 0.5 instead of a label"),
        ("categorical", True, "quality returned True instead of a label"),
        ("categorical", "ugly", "returned the label 'ugly', which is not one of good, fair, bad"),
        ("categorical", {"value": 5, "label": "good"}, "quality returned 5 (int) instead"),
    ],
)
def test_a_return_that_means_nothing_is_a_failed_score(
    data_type: str, raw: Any, message: str
) -> None:
    score = to_score(raw, _scorer(data_type, GRADES if data_type == "categorical" else None))
    assert score.value is None
    assert score.error is not None
    assert message in score.error


def test_a_return_that_raises_when_read_is_a_failed_score() -> None:
    class Hostile(dict[str, Any]):
        def get(self, *args: Any) -> Any:
            raise RuntimeError

    error = to_score(Hostile(value=1), _scorer()).error
    assert error == "quality returned a value that raises RuntimeError when read"


@pytest.mark.parametrize(
    "raw",
    [
        Score(0.5, "why", {"n": 1}),
        {"value": 0.5, "reason": "why", "metadata": {"n": 1}},
        Score(2.0, "why", {"n": 1}),
        Score.failed("boom", reason="why", metadata={"n": 1}),
        {"error": "boom", "reason": "why", "metadata": {"n": 1}},
    ],
)
def test_reason_and_metadata_are_kept_and_the_origin_is_added(raw: Any) -> None:
    scorer = _scorer()
    score = to_score(raw, scorer)
    assert (score.reason, score.metadata, score.origin) == ("why", {"n": 1}, scorer.origin)


def test_a_score_that_two_scorers_share_gets_each_ones_origin() -> None:
    shared = Score(0.5)
    first = to_score(shared, _scorer())
    second = to_score(shared, _scorer().replace(name="other"))
    assert [s.origin.scorer for s in (first, second) if s.origin] == ["quality", "other"]
    assert shared.origin is None


@pytest.mark.parametrize(
    "raw",
    [
        {"tone": Score(0.5, "so so"), "facts": Score(1.0)},
        {"tone": {"value": 0.5, "reason": "so so"}, "facts": True},
        {"tone": Score(0.5, "so so"), "facts": 1},
        [Score(0.5, "so so", name="tone"), Score(1.0, name="facts")],
        (Score(0.5, "so so", name="tone"), Score(1.0, name="facts")),
    ],
)
@pytest.mark.parametrize("gives", [(), ("tone", "facts")])
def test_several_scores_of_one_call(raw: Any, gives: tuple[str, ...]) -> None:
    several = Scorer(lambda ctx: None, name="quality", gives=gives, version="1")
    score = to_score(raw, several)
    assert (score.value, score.error) == (None, None)
    assert [(part.name, part.value) for part in score.parts] == [("tone", 0.5), ("facts", 1.0)]
    assert score.parts[0].reason == "so so"
    assert all(part.origin == several.origin for part in score.parts)
    assert [part["name"] for part in score.to_dict()["parts"]] == ["tone", "facts"]


@pytest.mark.parametrize(
    ("raw", "error"),
    [
        ([Score(0.5), Score(1.0, name="x")], "quality gave several scores, one named None"),
        ([Score(0.5, name="a b")], "quality gave several scores, one named 'a b'"),
        ([Score(0.5, name="x"), Score(1.0, name="x")], "quality gave the score 'x' twice"),
        ({"x": "good"}, "quality returned a mapping that is not {value, reason, metadata}"),
        ({}, "quality returned a mapping that is not {value, reason, metadata}"),
        ([], "quality returned [] (list) instead of a number"),
    ],
)
def test_several_scores_need_different_names(raw: Any, error: str) -> None:
    score = to_score(raw, _scorer())
    assert score.value is None
    assert (score.error or "").startswith(error)


def test_one_of_several_that_is_no_score_fails_alone() -> None:
    score = to_score({"tone": 0.5, "facts": 7.0}, _scorer())
    assert [part.value for part in score.parts] == [0.5, None]
    assert "returned 7.0 instead of a number from 0 to 1" in (score.parts[1].error or "")


@pytest.mark.parametrize(
    ("raw", "errors"),
    [
        ({"tone": 0.5}, [None, "quality gave no score 'facts'"]),
        (0.5, ["quality gave one score instead of tone, facts"] * 2),
        (Score.failed("no key"), ["no key"] * 2),
    ],
)
def test_a_score_that_was_announced_and_not_given_has_failed(raw: Any, errors: list[str]) -> None:
    score = to_score(raw, Scorer(lambda ctx: None, name="quality", gives=("tone", "facts")))
    assert [part.error for part in score.parts] == errors


def test_a_score_that_was_not_announced_is_refused() -> None:
    score = to_score({"tune": 0.5}, Scorer(lambda ctx: None, name="quality", gives=("tone",)))
    assert "gave the score 'tune' which is not in its list" in (score.error or "")
