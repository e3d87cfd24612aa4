"""Gates: what is enough, and what a gate never passes on."""

from __future__ import annotations

import pytest

from tallymark.errors import InvalidInput
from tallymark.runs.gates import find_shortfall, find_too_many_errors
from tallymark.runs.record import CaseResult, RunRecord
from tallymark.runs.run import Run
from tallymark.runs.tally import Tally


def run(passed: int, errors: int, *, total: int = 0, score: float | None = 100.0) -> Run:
    results = [CaseResult(case=f"#{n}", status="passed") for n in range(passed)]
    results += [CaseResult(case=f"!{n}", status="error", error="503") for n in range(errors)]
    record = RunRecord(id="r", suite="s", model="m/x", score=score, total=total)
    return Run(record, results)


@pytest.mark.parametrize(
    ("passed", "errors", "total", "allowed", "enough"),
    [
        (1, 99, 100, "0", False),
        (100, 0, 100, "0", True),
        (97, 3, 100, "3", True),
        (96, 4, 100, "3", False),
        (98, 2, 100, "2%", True),
        (71, 29, 100, "29%", True),  # 29 / 100 * 100 is a little less than 29
        (71, 29, 100, "28%", False),
        (97, 3, 100, "2.5 %", False),
        (40, 0, 100, "0", False),  # a budget that ran out
    ],
)
def test_what_did_not_run_is_not_passed(
    passed: int, errors: int, total: int, allowed: str, enough: bool
) -> None:
    found = find_too_many_errors(run(passed, errors, total=total), allowed)
    assert (found is None) is enough


def test_it_says_how_many_and_the_first_error() -> None:
    assert find_too_many_errors(run(1, 99), "0") == (
        "99 of 100 results of m/x could not run, and --max-errors allows 0; the first error: 503"
    )


@pytest.mark.parametrize("text", ["", "few", "-1", "1.5", "nan%", "%", "inf%"])
def test_what_is_no_count_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="is no count"):
        find_too_many_errors(run(1, 0), text)


def test_a_missing_score_is_never_enough() -> None:
    assert find_shortfall(run(1, 0), 90) is None
    assert find_shortfall(run(1, 0, score=None), 90) is not None


@pytest.mark.parametrize(("passed", "ran"), [(29, 50), (57, 100), (87, 150), (114, 200)])
def test_a_run_at_its_bar_is_enough(passed: int, ran: int) -> None:
    """Shares that are whole percents, and a mean that becomes one by a formula."""
    results = [
        CaseResult(case=f"c{at}", status="passed" if at < passed else "failed") for at in range(ran)
    ]
    bar = 100 * passed // ran
    assert Tally(results).metrics()["success_pct"] == bar
    assert find_shortfall(run(1, 0, score=100 * (passed / ran)), bar) is None
    assert find_shortfall(run(1, 0, score=bar - 0.001), bar) is not None
