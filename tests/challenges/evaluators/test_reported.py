"""`reported`: metrics from a trusted system, and from nobody else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.challenges.challenge_folders import challenge_in, judged

from tallymark.challenges.attempt import Evaluation, Metrics

TEXT = "name: x\nevaluator: {type: reported, metrics: [lines]}\nscoring: {formula: lines}\n"


def report(folder: Path, answer: Any, **known: Any) -> Evaluation:
    challenge = challenge_in(folder, TEXT)
    return judged(challenge, folder, answer, **{"trusted": True, "elapsed_ms": None, **known})


def test_reported_metrics_are_taken_as_they_are(tmp_path: Path) -> None:
    found = report(
        tmp_path,
        {
            "succeeded": True,
            "tokens_total": 1200,
            "elapsed_ms": 4000.0,
            "rating": 8,
            "cost": 0.25,
            "lines": 40,
            "dimensions": {"correctness": 900},
            "details": {"run": "r1"},
        },
    )
    assert found == Evaluation(
        metrics=Metrics(
            succeeded=True,
            tokens_total=1200,
            elapsed_ms=4000,
            rating=8.0,
            cost=0.25,
            more={"lines": 40.0},
        ),
        dimensions={"correctness": 900},
        details={"run": "r1"},
    )


def test_what_nobody_reports_stays_unknown(tmp_path: Path) -> None:
    assert report(tmp_path, {}).metrics == Metrics()


def test_null_is_unknown(tmp_path: Path) -> None:
    assert report(tmp_path, {"rating": None, "tokens_total": None}).metrics == Metrics()


def test_metrics_of_ones_own_may_stand_under_more(tmp_path: Path) -> None:
    found = report(tmp_path, {"more": {"lines": 3, "depth": 2.5}})
    assert found.metrics.more == {"lines": 3.0, "depth": 2.5}


def test_a_competitor_cannot_report(tmp_path: Path) -> None:
    found = report(tmp_path, {"succeeded": True}, trusted=False)
    assert found.error is not None
    assert "they cannot be submitted" in found.error
    assert not found.metrics.succeeded


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ([], "reported metrics are a mapping, not []"),
        ({"tokens": 1}, "there is no metric 'tokens'"),
        ({"ratng": 1}, "did you mean 'rating'?"),
        ({"succeeded": 1}, "succeeded is true or false, not 1"),
        ({"tokens_total": -1}, "tokens_total is a whole number, 0 or more, not -1"),
        ({"tokens_total": 1.5}, "tokens_total is a whole number, 0 or more, not 1.5"),
        ({"cost": -0.5}, "cost is a finite number, 0 or more, not -0.5"),
        ({"rating": True}, "rating is a finite number, not True"),
        ({"rating": "8"}, "rating is a finite number, not '8'"),
        ({"dimensions": []}, "dimensions is a mapping, not []"),
        ({"more": {"lines": "many"}}, "lines is a finite number, not 'many'"),
    ],
    ids=lambda value: value[:24] if isinstance(value, str) else "",
)
def test_a_wrong_report_is_an_error(tmp_path: Path, answer: Any, told: str) -> None:
    found = report(tmp_path, answer)
    assert found.error is not None
    assert told in found.error


def test_every_mistake_of_a_report_is_told(tmp_path: Path) -> None:
    found = report(tmp_path, {"rating": "8", "calls": -1, "ratng": 1})
    assert found.error is not None
    assert found.error.count(";") >= 2
