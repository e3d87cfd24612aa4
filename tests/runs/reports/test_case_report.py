"""One case of a run in the terminal."""

from __future__ import annotations

from tests.runs.reports.sample_runs import finished

from tallymark.runs.record import CaseResult, CheckResult, RunRecord
from tallymark.runs.reports.case_report import case_lines

ANSWER = "A long line. " * 30 + "\nand a second one"


def test_a_case_shows_its_whole_answer_and_every_check_of_every_epoch() -> None:
    checks = (
        CheckResult(kind="match", passed=True, reason="matches '*long*'"),
        CheckResult(kind="scorer", name="tone", passed=False, value=0.4, threshold=0.7),
    )
    results = [
        CaseResult(case="a", status="failed", input="Say.", output=ANSWER, checks=checks),
        CaseResult(case="a", epoch=1, status="error", input="Say.", error="it is down"),
    ]
    run = finished(RunRecord(id="r1", suite="s", model="m"), results)
    text = "\n".join(line.text for line in case_lines(run, run.cases["a"]))
    assert text.startswith("✗ a: 0 of 2 epochs passed\nrun r1, s on m\n\n=== Epoch 1: failed ===\n")
    assert text.count("Say.") == 1
    assert f"Answered\n  {'A long line. ' * 30}".rstrip() in text
    assert "\n  and a second one\n" in text
    assert "  ✓ match: matches '*long*'\n  ✗ tone: 0.4" in text
    assert "=== Epoch 2: error ===\n\nError\n  it is down\n" in text
