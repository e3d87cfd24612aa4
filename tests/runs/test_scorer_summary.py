from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tallymark.errors import FormulaError
from tallymark.runs.record import CaseResult, CheckResult, RunRecord
from tallymark.runs.run import Run, outcome
from tallymark.runs.scorer_summary import find_percentile, summarise_scorers
from tallymark.runs.tally import Tally

VALUES = [0.1, 0.9, 0.4, 0.8, 1.0]


def scored(value: float | None, **facts: object) -> CheckResult:
    passed = value is None or value >= 0.5
    return CheckResult(kind="scorer", name="polite", value=value, passed=passed, **facts)  # type: ignore[arg-type]


def tally(*checks: CheckResult) -> Tally:
    return Tally(
        CaseResult(case=f"c[{at}]", status="passed", checks=(check,))
        for at, check in enumerate(checks)
    )


@given(st.lists(st.floats(0, 1), min_size=1), st.sampled_from([0, 50, 90, 100]))
def test_a_percentile_is_what_numpy_says(values: list[float], percent: int) -> None:
    assert find_percentile(sorted(values), percent) == pytest.approx(np.percentile(values, percent))


def test_what_a_mean_does_not_tell() -> None:
    found = summarise_scorers(tally(*map(scored, VALUES)))["polite"]
    assert found.p90 == pytest.approx(np.percentile(VALUES, 90))
    assert (found.median, found.passed) == (0.8, 0.6)


def test_what_was_not_measured_is_none() -> None:
    broken = CheckResult(kind="scorer", name="polite", passed=False, error="down")
    found = summarise_scorers(tally(broken))["polite"]
    assert (found.median, found.p90, found.passed, found.agreement) == (None, None, None, None)


def test_labels_against_those_expected() -> None:
    pairs = [("spam", "spam"), ("spam", "spam"), ("spam", "ham"), ("ham", "ham"), ("ham", "eggs")]
    checks = [scored(None, label=given, metadata={"expected": want}) for want, given in pairs]
    found = summarise_scorers(tally(*checks, scored(None, label="ham")))["polite"].agreement
    assert found is not None
    assert found.accuracy == 0.6
    assert found.precision == {"eggs": 0.0, "ham": 0.5, "spam": 1.0}
    assert found.recall == {"eggs": None, "ham": 0.5, "spam": 2 / 3}
    assert found.confusion == {"ham": {"eggs": 1, "ham": 1}, "spam": {"ham": 1, "spam": 2}}
    run = Run(RunRecord(id="r", suite="s", model="m"), [], tally(*checks))
    lines = [line.split() for line in run.render().splitlines()]
    assert ["expected", "eggs", "ham", "spam", "recall"] in lines
    assert ["spam", "0", "1", "2", "0.667"] in lines
    assert ["precision", "0.000", "0.500", "1.000"] in lines


@pytest.mark.parametrize(
    ("formula", "score"),
    [
        ("polite_median", 0.8),
        ("100 * polite_passed", 60.0),
        ("polite_p90 - polite", np.percentile(VALUES, 90) - np.mean(VALUES)),
    ],
)
def test_formulas_may_ask_for_it(formula: str, score: float) -> None:
    counted = tally(*map(scored, VALUES))
    told = outcome(counted.formula(formula), counted)
    assert told["score"] == pytest.approx(score)
    assert (told["score_low"], told["score_high"]) == (None, None)
    run = Run(
        RunRecord(id="r", suite="s", model="m", score_formula=formula, score=score), [], counted
    )
    assert "none is known for th" in (run.no_interval or "")


def test_a_scorer_that_has_such_a_name_keeps_it() -> None:
    both = [scored(0.5), CheckResult(kind="scorer", name="polite_median", value=0.25, passed=False)]
    counted = Tally([CaseResult(case="c", status="passed", checks=tuple(both))])
    assert counted.score(counted.formula("polite_median")).score == 0.25
    with pytest.raises(FormulaError):
        counted.formula("polite_mode")


@pytest.mark.parametrize("name", ["polite", "latency", "cost", "passed", "errors"])
@pytest.mark.parametrize("values", [[1.0] * 20, [1.0] * 19 + [0.0], [0.0] * 3, VALUES, [1.0]])
def test_a_scorer_has_the_interval_of_a_score_of_it_alone(name: str, values: list[float]) -> None:
    checks = (replace(scored(value), name=name) for value in values)
    results = [
        CaseResult(case=f"#{at}", status="passed", checks=(check,), latency=7.0, cost=3.0)
        for at, check in enumerate(checks)
    ]
    counted = Tally(results)
    found = summarise_scorers(counted)[name]
    assert found.low is not None
    assert found.high is not None
    assert found.low < found.high
    assert found.mean == pytest.approx(np.mean(values))
    told = outcome(counted.formula(f"100 * {name}"), counted)
    ends = (100 * found.low, 100 * found.high)
    assert (told["score_low"], told["score_high"]) == pytest.approx(ends)


def test_a_perfect_scorer_has_the_exact_end_of_a_share() -> None:
    found = summarise_scorers(tally(*map(scored, [1.0] * 20)))["polite"]
    # Clopper and Pearson: 0.025 ** (1 / 20) is 0.8316
    assert found.low == pytest.approx(0.8316, abs=0.01)
    assert found.high == 1.0
