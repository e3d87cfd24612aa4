"""When a score passes, and what checks say together: the same by every door."""

from __future__ import annotations

import pytest

from tallymark.runs.case_verdict import judge_case, judge_score, judge_trace
from tallymark.runs.record import CaseStatus, CheckResult
from tallymark.scoring import Score
from tallymark.traces import Span, Trace


@pytest.mark.parametrize(
    ("score", "threshold", "passed"),
    [
        (Score(0.7), 0.7, True),
        (Score(0.7 - 5e-10), 0.7, True),  # weighted sums round
        (Score(0.7 - 2e-9), 0.7, False),
        (Score(0.0), 0.0, True),
        (Score(None, label="formal"), 0.7, True),  # nothing to reach
        (Score(0.2, label="formal"), 0.7, False),
        (Score.failed("no answer"), 0.0, False),
    ],
)
def test_a_score_passes_when_it_reaches_its_threshold(
    score: Score, threshold: float, passed: bool
) -> None:
    check = judge_score(score, threshold, name="tone")
    assert (check.passed, check.value, check.label) == (passed, score.value, score.label)
    assert (check.error, check.threshold) == (score.error, threshold)


PASS = CheckResult(kind="match", passed=True)
FAIL = CheckResult(kind="match", passed=False)
BROKEN = CheckResult(kind="scorer", passed=False, error="no answer")


@pytest.mark.parametrize(
    ("checks", "status"),
    [
        ([], "passed"),
        ([PASS, PASS], "passed"),
        ([PASS, FAIL], "failed"),
        ([PASS, BROKEN], "error"),
        ([BROKEN, FAIL], "failed"),
        ([FAIL, BROKEN], "failed"),
    ],
)
def test_a_failed_check_decides_a_case_before_a_broken_one(
    checks: list[CheckResult], status: CaseStatus
) -> None:
    assert judge_case(checks) == status


def test_the_numbers_of_a_result_are_those_of_its_trace() -> None:
    spans = [
        Span(span_type="generation", output="a", cost=0.1, input_tokens=3),
        Span(span_type="generation", output="b", cost=0.2, output_tokens=4),
    ]
    trace = Trace(trace_id="t", duration_ms=1500, spans=spans)
    result = judge_trace("case", 2, {"tone": 0.5, "mood": 0.9}, trace, [Score(0.6), Score(0.6)])
    assert (result.case, result.epoch, result.status) == ("case", 2, "failed")
    assert (result.output, result.latency, result.tokens) == ("b", 1.5, 7)
    assert result.cost == pytest.approx(0.3)
    assert [check.passed for check in result.checks] == [True, False]
    assert judge_trace("case", 0, {}, Trace(), []).latency is None
