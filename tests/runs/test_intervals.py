"""Intervals of scores, against exact limits, closed forms and simulated runs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
import pytest

from tallymark.formula import Formula
from tallymark.runs.case_columns import CaseTable
from tallymark.runs.intervals import DRAWS, difference_interval, score_interval
from tallymark.runs.monte_carlo import find_quantile
from tallymark.runs.record import CaseResult, CheckResult
from tallymark.runs.statistics import Interval, NoInterval
from tallymark.runs.tally import Tally

SUCCESS = Formula.parse("success_pct")
MANY = 100_000
"""Draws that leave little luck in the ends."""


def run(
    outcomes: Iterable[int],
    *,
    epochs: int = 1,
    cost: Sequence[float] | None = None,
    names: str = "",
) -> Tally:
    """A run in which each case passes so many of its epochs."""
    return Tally(
        CaseResult(
            case=names[number] if number < len(names) else f"#{number}",
            epoch=epoch,
            status="passed" if epoch < passes else "failed",
            latency=1.0 + number % 3,
            cost=0.01 if cost is None else cost[number],
        )
        for number, passes in enumerate(outcomes)
        for epoch in range(epochs)
    )


def table(tally: Tally) -> CaseTable:
    return CaseTable([*tally.cases.items()])


def ends(formula: str | Formula, tally: Tally, draws: int = MANY) -> tuple[float, float]:
    parsed = tally.formula(formula) if isinstance(formula, str) else formula
    found = score_interval(parsed, tally, draws=draws)
    assert isinstance(found, Interval), found
    return found.low, found.high


class TestShares:
    """The exact limits are SciPy's: beta.ppf, and for mid-p the root of the mean of two.

    A share alone has them with as few draws as every run has.
    """

    def test_all_passed_is_clopper_and_pearsons_limit(self) -> None:
        low, high = ends(SUCCESS, run([1] * 10), DRAWS)
        assert low == pytest.approx(100 * 0.025**0.1, abs=0.005)
        assert high == 100.0

    def test_none_passed_is_the_same_from_the_other_side(self) -> None:
        limit = 100 * (1 - 0.025**0.1)
        assert ends(SUCCESS, run([0] * 10), DRAWS) == pytest.approx((0.0, limit), abs=0.005)

    def test_seven_of_ten_has_mid_p_limits(self) -> None:
        found = ends(SUCCESS, run([1] * 7 + [0] * 3), DRAWS)
        assert found == pytest.approx((38.0081, 91.7403), abs=0.005)

    def test_one_result_says_little_but_something(self) -> None:
        assert ends(SUCCESS, run([1]), DRAWS) == pytest.approx((2.5, 100.0), abs=0.005)

    def test_epochs_count_for_what_they_are_worth(self) -> None:
        tally = run([5, 5, 5, 4, 5, 2, 5, 5, 3, 5], epochs=5)
        assert ends(SUCCESS, tally) == pytest.approx((66.091, 97.864), abs=0.3)

    @pytest.mark.parametrize("epochs", [1, 10])
    def test_epochs_that_always_agree_add_no_certainty(self, epochs: int) -> None:
        low, high = ends(SUCCESS, run([epochs] * 24 + [0] * 16, epochs=epochs))
        assert high - low == pytest.approx(2 * 1.96 * 100 * math.sqrt(0.24 / 40), rel=0.06)

    def test_of_a_single_case_the_epochs_count(self) -> None:
        low, high = ends("a", run([20], epochs=40, names="a"))
        assert high - low == pytest.approx(2 * 1.96 * math.sqrt(0.25 / 40), rel=0.05)

    def test_of_named_evals_each_had_its_luck(self) -> None:
        low, high = ends("3 * a + 2 * b + c", run([1, 1, 1], names="abc"))
        assert (low, high) == pytest.approx((0.9 ** (1 / 3), 6.0), abs=0.03)

    def test_of_an_eval_with_many_rows_the_rows_count(self) -> None:
        tally = Tally(
            CaseResult(case=f"qa[{row}]", epoch=epoch, status="passed" if row % 2 else "failed")
            for row in range(40)
            for epoch in range(5)
        )
        low, high = ends("qa", tally)
        assert high - low == pytest.approx(2 * 1.96 * math.sqrt(0.25 / 40), rel=0.06)

    def test_a_share_that_lowers_the_score_has_its_ends_the_other_way_round(self) -> None:
        low, high = ends("100 - success_pct", run([1] * 10))
        assert (low, high) == pytest.approx((0.0, 100 - 100 * 0.025**0.1), abs=0.3)


class TestAmounts:
    def test_a_total_of_few_skewed_costs(self) -> None:
        # 0.055 exp(± t(9) s), s² = expm1(variance of the logarithms) / 10.
        tally = run([1] * 10, cost=[n / 1000 for n in range(1, 11)])
        assert ends("total_cost", tally) == pytest.approx((0.030083, 0.100555), rel=0.01)

    def test_a_mean_of_many_is_as_wide_as_its_standard_error_says(self) -> None:
        costs = np.random.default_rng(0).gamma(9.0, 0.01, 400)
        low, high = ends("avg_cost", run([1] * 400, cost=costs.tolist()))
        error = costs.std(ddof=1) / math.sqrt(400)
        assert high - low == pytest.approx(2 * 1.966 * error, rel=0.05)

    def test_a_single_case_borrows_its_scatter_from_the_others(self) -> None:
        tally = run([1, 1, 1, 1], cost=[0.1, 0.2, 0.3, 0.4], names="a")
        low, high = ends("a_cost", tally)
        assert 0.0 < low < 0.05
        assert high > 0.2

    def test_costs_that_are_all_zero_stay_so(self) -> None:
        low, high = ends("success_pct - total_cost", run([1, 0] * 5, cost=[0.0] * 10))
        assert 0.0 < low < 50.0 < high < 100.0


def test_the_mean_of_a_scorer_is_as_wide_as_students() -> None:
    # scipy.stats.ttest_1samp(values, 0).confidence_interval(): 0.37061 to 0.82689.
    values = [0.21, 0.93, 0.42, 0.71, 0.53, 0.97, 0.34, 0.68]
    checks = [CheckResult(kind="scorer", name="tone", value=v, passed=True) for v in values]
    tally = Tally(
        CaseResult(case=f"#{at}", status="passed", checks=(check,))
        for at, check in enumerate(checks)
    )
    low, high = ends("tone", tally)
    assert high - low == pytest.approx(0.82689 - 0.37061, rel=0.05)
    assert low < sum(values) / 8 < high


@pytest.mark.parametrize("formula", ["avg_latency", "total_latency", "success_pct / total_cost"])
def test_it_holds_the_score_itself(formula: str) -> None:
    tally = run([1, 0, 1, 1, 0, 1], cost=[0.1, 0.2, 0.3, 0.1, 0.2, 0.3])
    score = Formula.parse(formula).evaluate(tally.metrics())
    low, high = ends(formula, tally, 2000)
    assert score is not None
    assert low <= score <= high


def test_the_same_seed_gives_the_same_interval_whatever_the_order() -> None:
    results = [
        CaseResult(case=f"c{at}", status="passed" if at % 3 else "failed") for at in range(9)
    ]
    there, back = (score_interval(SUCCESS, Tally(each)) for each in (results, results[::-1]))
    assert there == back


@pytest.mark.parametrize(
    ("formula", "tally", "reason"),
    [
        ("success_pct", Tally(), "no case ran"),
        ("2 * 3", run([1, 0, 1]), "does not depend on the results"),
        ("max_latency", run([1, 0, 1]), "max_latency is an extreme"),
        ("success_pct - min_cost", run([1, 0, 1]), "min_cost is an extreme"),
        ("p95_latency", run([1, 0, 1]), "p95_latency is a percentile"),
        ("success_pct - error_pct", run([1, 0, 1]), "error_pct describes the run"),
        ("total_cost", run([1]), "one result cannot show how much the cost varies"),
        ("avg_cost", run([1] * 30, cost=[0.1] * 30), "does not change with the results"),
        ("sqrt(success_pct - 80)", run([1] * 9 + [0]), "undefined for much"),
    ],
)
def test_a_machine_without_memory_groups_has_a_reason(
    formula: str, tally: Tally, reason: str
) -> None:
    found = score_interval(Formula.parse(formula), tally)
    assert isinstance(found, NoInterval)
    assert reason in found.reason


def test_an_unknown_cost_leaves_none() -> None:
    tally = run([1, 0, 1])
    tally.add(CaseResult(case="free", status="passed", latency=1.0))
    assert isinstance(score_interval(Formula.parse("success_pct / total_cost"), tally), NoInterval)
    assert isinstance(score_interval(SUCCESS, tally), Interval)


def test_errors_are_left_out() -> None:
    tally = run([1, 0, 1, 1])
    tally.add(CaseResult(case="down", status="error"))
    assert score_interval(SUCCESS, tally) == score_interval(SUCCESS, run([1, 0, 1, 1]))


class TestDifference:
    def test_pairing_makes_it_sharper_than_two_runs_on_their_own(self) -> None:
        first, second = run([1] * 30 + [0] * 30), run([1] * 28 + [0] * 32)
        found = difference_interval(SUCCESS, table(first), table(second), draws=MANY)
        assert isinstance(found, Interval)
        (a, b), (c, d) = ends(SUCCESS, first), ends(SUCCESS, second)
        assert found.high - found.low < 0.75 * math.hypot(b - a, d - c)
        assert found.low < 100 * (28 - 30) / 60 < found.high

    def test_runs_that_agree_on_all_cases_are_no_certainty(self) -> None:
        found = difference_interval(SUCCESS, table(run([1, 0] * 10)), table(run([1, 0] * 10)))
        assert isinstance(found, Interval)
        assert found.low < -5 < 5 < found.high

    def test_all_against_none_has_an_end(self) -> None:
        found = difference_interval(SUCCESS, table(run([1] * 20)), table(run([0] * 20)), draws=MANY)
        assert isinstance(found, Interval)
        assert found.low == -100.0
        assert -85.0 < found.high < -65.0

    def test_the_order_of_the_runs_turns_the_sign(self) -> None:
        formula = Formula.parse("success_pct / total_cost")
        costs = np.random.default_rng(3).random(12).tolist()
        first, second = run([1, 0, 0] * 4, cost=costs), run([1, 1, 0] * 4, cost=costs[::-1])
        there = difference_interval(formula, table(first), table(second), draws=MANY)
        back = difference_interval(formula, table(second), table(first), draws=MANY)
        assert isinstance(there, Interval)
        assert isinstance(back, Interval)
        assert back.low == pytest.approx(-there.high, rel=0.05)
        assert back.high == pytest.approx(-there.low, rel=0.05)


@pytest.mark.parametrize("count", [1, 2, 3, 40, 1999, 2000])
@pytest.mark.parametrize("share", [0.0, 0.025, 0.5, 0.975, 1.0])
def test_a_quantile_is_that_of_numpy(count: int, share: float) -> None:
    values = np.random.default_rng(count).standard_gamma(0.3, count)
    hazen = np.quantile(values, share, method="hazen")
    assert find_quantile(values, share) == pytest.approx(hazen, rel=1e-12)
