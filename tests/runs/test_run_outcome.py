"""What is kept of a run: its score, its counts, its status."""

from __future__ import annotations

import pytest

from tallymark.formula import Formula
from tallymark.runs.record import CaseResult, CaseStatus, RunRecord
from tallymark.runs.run import final_status, outcome
from tallymark.runs.tally import Tally

WORDS: dict[str, CaseStatus] = {"+": "passed", "-": "failed", "!": "error"}


def tally(marks: str) -> Tally:
    """A run of cases: + passed, - failed, ! error."""
    return Tally(
        CaseResult(case=f"case{number}", status=WORDS[mark], latency=1.0)
        for number, mark in enumerate(marks)
    )


def test_errors_are_neither_passed_nor_failed() -> None:
    found = outcome(Formula.parse("success_pct"), tally("++-!"))
    assert [found[name] for name in ("passed", "failed", "errors")] == [2, 1, 1]
    assert found["score"] == pytest.approx(200 / 3)


def test_the_interval_holds_the_score() -> None:
    found = outcome(Formula.parse("success_pct"), tally("++-+-+"))
    assert found["score_low"] < found["score"] < found["score_high"]


@pytest.mark.parametrize(
    ("marks", "score", "error"),
    [
        pytest.param("--", 0.0, None, id="zero is a score"),
        pytest.param(
            "!!",
            -1.0,
            "success_pct has no value; every case ended in an error",
            id="none is none",
        ),
    ],
)
def test_only_a_missing_score_is_replaced(marks: str, score: float, error: str | None) -> None:
    found = outcome(Formula.parse("success_pct"), tally(marks), undefined=-1.0)
    assert (found["score"], found["score_error"]) == (score, error)


@pytest.mark.parametrize(
    ("passed", "failed", "errors", "stopped", "status"),
    [
        (4, 0, 0, False, "completed"),
        (1, 3, 0, False, "completed"),
        (0, 4, 0, False, "completed"),  # wrong answers are results
        (3, 0, 1, False, "partial_failure"),
        (2, 1, 0, False, "partial_failure"),  # one is missing
        (0, 0, 4, False, "failed"),
        (0, 0, 0, False, "failed"),
        (2, 1, 0, True, "cancelled"),
        (2, 2, 0, True, "completed"),  # stopped when all of it was done
    ],
)
def test_the_status_of_a_run_of_four(
    passed: int, failed: int, errors: int, stopped: bool, status: str
) -> None:
    record = RunRecord(
        id="r", suite="s", model="m", passed=passed, failed=failed, errors=errors, total=4
    )
    assert final_status(record, stopped=stopped) == status
