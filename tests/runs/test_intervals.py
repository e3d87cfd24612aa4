"""Intervals and p-values, against theory: known variances, exact tests, and simulated runs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
import pytest

from tallymark.formula import Formula
from tallymark.runs.intervals import Difference, Interval, score_difference, score_interval
from tallymark.runs.record import CaseResult, CaseStatus, CheckResult
from tallymark.runs.tally import Tally

SUCCESS = Formula.parse("success_pct")


def run(outcomes: Iterable[int], *, epochs: int = 1, cost: Sequence[float] | None = None) -> Tally:
    """A run in which each case passes so many of its epochs."""
    return Tally(
        CaseResult(
            case=f"case{number}",
            epoch=epoch,
            status="passed" if epoch < passes else "failed",
            latency=1.0 + number % 3,
            cost=0.01 if cost is None else cost[number],
        )
        for number, passes in enumerate(outcomes)
        for epoch in range(epochs)
    )


def width(interval: Interval | None) -> float:
    assert interval is not None
    return interval.high - interval.low


class TestInterval:
    def test_it_is_as_wide_as_the_standard_error_says(self) -> None:
        interval = score_interval(SUCCESS, run([1] * 120 + [0] * 80))
        assert width(interval) == pytest.approx(2 * 1.96 * 100 * math.sqrt(0.24 / 200), rel=0.1)

    @pytest.mark.parametrize("epochs", [1, 10])
    def test_epochs_that_always_agree_add_no_certainty(self, epochs: int) -> None:
        interval = score_interval(SUCCESS, run([epochs] * 24 + [0] * 16, epochs=epochs))
        assert width(interval) == pytest.approx(2 * 1.96 * 100 * math.sqrt(0.24 / 40), rel=0.15)

    @pytest.mark.parametrize(("cases", "rate"), [(60, 0.7), (12, 0.5)])
    def test_it_holds_the_truth_in_95_of_100_simulated_runs(self, cases: int, rate: float) -> None:
        rng = np.random.default_rng(4)
        held = 0
        for seed in range(300):
            passed = rng.random(cases) < rate
            interval = score_interval(SUCCESS, run(passed.astype(int)), seed=seed)
            held += interval is not None and interval.low <= 100 * rate <= interval.high
        assert 0.92 <= held / 300 <= 0.98

    def test_the_same_seed_gives_the_same_interval(self) -> None:
        tally = run([1, 0, 1, 1, 0, 1, 1, 0])
        assert score_interval(SUCCESS, tally) == score_interval(SUCCESS, tally)
        cost = run([1] * 8, cost=np.random.default_rng(0).random(8).tolist())
        formula = Formula.parse("total_cost")
        assert score_interval(formula, cost, seed=1) != score_interval(formula, cost, seed=2)

    @pytest.mark.parametrize(
        "formula",
        ["max_latency", "min_latency", "avg_latency", "total_latency", "success_pct / total_cost"],
    )
    def test_it_holds_the_score_itself(self, formula: str) -> None:
        tally = run([1, 0, 1, 1, 0, 1], cost=[0.1, 0.2, 0.3, 0.1, 0.2, 0.3])
        score = Formula.parse(formula).evaluate(tally.metrics())
        interval = score_interval(Formula.parse(formula), tally)
        assert score is not None
        assert interval is not None
        assert interval.low <= score <= interval.high

    @pytest.mark.parametrize(
        ("formula", "tally"),
        [
            pytest.param("success_pct", Tally(), id="no case"),
            pytest.param("success_pct", run([1]), id="one case"),
            pytest.param("success_pct", run([1] * 30), id="all alike"),
            pytest.param("avg_cost", run([1] * 30, cost=[0.1] * 30), id="alike but for rounding"),
            pytest.param("2 * 3", run([1, 0, 1]), id="a constant"),
            pytest.param("1 / (success_pct - 100)", run([1] * 9 + [0]), id="often undefined"),
        ],
    )
    def test_there_is_none_where_the_cases_cannot_tell(self, formula: str, tally: Tally) -> None:
        assert score_interval(Formula.parse(formula), tally) is None

    def test_an_unknown_cost_leaves_none(self) -> None:
        tally = run([1, 0, 1])
        tally.add(CaseResult(case="free", status="passed", latency=1.0))
        assert score_interval(Formula.parse("success_pct / total_cost"), tally) is None
        assert score_interval(SUCCESS, tally) is not None

    def test_errors_are_left_out(self) -> None:
        tally = run([1, 0, 1, 1])
        tally.add(CaseResult(case="down", status="error"))
        assert score_interval(SUCCESS, tally) == score_interval(SUCCESS, run([1, 0, 1, 1]))


class TestNamedEvals:
    def test_one_with_a_single_result_stays_as_it_is(self) -> None:
        tally = run([1, 0, 1, 0, 1])
        assert score_interval(tally.formula("case0 + case1"), tally) is None
        both = score_interval(tally.formula("1000 * case1 + success_pct"), tally)
        assert both is not None
        assert both.high <= 100.0

    def test_of_one_with_a_single_case_the_epochs_are_drawn(self) -> None:
        tally = run([20], epochs=40)
        interval = score_interval(tally.formula("case0"), tally)
        assert width(interval) == pytest.approx(2 * 1.96 * math.sqrt(0.25 / 40), rel=0.15)

    def test_of_one_with_many_cases_the_cases_are_drawn(self) -> None:
        tally = Tally(
            CaseResult(
                case=f"qa[{row}]",
                epoch=epoch,
                status="passed" if row % 2 else "failed",
                latency=float(row),
            )
            for row in range(40)
            for epoch in range(5)
        )
        interval = score_interval(tally.formula("qa"), tally)
        assert width(interval) == pytest.approx(2 * 1.96 * math.sqrt(0.25 / 40), rel=0.15)
        assert score_interval(tally.formula("qa_latency"), tally) is not None
        # The same draw decides both, so that they cancel.
        assert score_interval(tally.formula("100 * qa / success_pct"), tally) is None


def with_scores(values: Sequence[float]) -> Tally:
    return Tally(
        CaseResult(
            case=f"#{number}",
            status="passed",
            checks=(CheckResult(kind="scorer", name="tone", value=value, passed=True),),
        )
        for number, value in enumerate(values)
    )


def test_the_mean_of_a_scorer_has_an_interval() -> None:
    values = np.random.default_rng(1).random(50)
    tally = with_scores(values.tolist())
    expected = 2 * 2.01 * values.std(ddof=1) / math.sqrt(50)
    assert width(score_interval(tally.formula("tone"), tally)) == pytest.approx(expected, rel=0.1)


# The same draws by SciPy 1.17.1, which is no part of this project: `bootstrap` of the mean from
# seed 0 with 2,000 resamples, by the percentile method at the level that is right for eight values,
# 1 - 2 norm.sf(t.ppf(0.975, 7) sqrt(8 / 7)); `permutation_test` over all 256 swaps of the pairs.
EIGHT = [0.21, 0.93, 0.42, 0.71, 0.53, 0.97, 0.34, 0.68]
COSTS = [0.031, 0.054, 0.012, 0.047, 0.025, 0.063, 0.018, 0.039]
DEARER = [0.035, 0.051, 0.020, 0.049, 0.034, 0.060, 0.027, 0.044]


def test_the_interval_of_a_mean_is_scipys() -> None:
    tally = with_scores(EIGHT)
    interval = score_interval(tally.formula("tone"), tally)
    assert interval is not None
    assert (interval.low, interval.high) == pytest.approx((0.37301, 0.82008), abs=2e-4)


def test_the_interval_of_few_cases_is_as_wide_as_students() -> None:
    # scipy.stats.ttest_1samp(EIGHT, 0).confidence_interval(): 0.37061 to 0.82689.
    tally = with_scores(EIGHT)
    found = width(score_interval(tally.formula("tone"), tally))
    assert found == pytest.approx(0.82689 - 0.37061, rel=0.04)


def test_a_difference_and_its_chances_are_scipys() -> None:
    first, second = run([1] * 8, cost=COSTS), run([1] * 8, cost=DEARER)
    found = score_difference(Formula.parse("avg_cost"), first, second)
    assert found.value == pytest.approx(0.003875)
    assert found.interval is not None
    ends = found.interval.low, found.interval.high
    assert ends == pytest.approx((-0.00025, 0.007625), abs=1e-5)
    assert found.p_value == pytest.approx(20 / 256, abs=0.015)


def test_a_scorer_that_gave_nothing_leaves_no_interval() -> None:
    tally = run([1, 0, 1])
    assert score_interval(tally.formula("tone", also=["tone"]), tally) is None


class TestDifference:
    def test_identical_runs_do_not_differ(self) -> None:
        found = score_difference(SUCCESS, run([1, 0] * 10), run([1, 0] * 10))
        assert found == Difference(0.0, Interval(0.0, 0.0), 1.0)

    def test_all_against_none_on_20_cases_is_no_chance(self) -> None:
        found = score_difference(SUCCESS, run([1] * 20), run([0] * 20))
        assert found.value == -100.0
        assert found.interval == Interval(-100.0, -100.0)
        # Two of the 2^20 swaps differ as much: rare, but nothing is impossible by chance.
        assert found.p_value is not None
        assert 0 < found.p_value < 0.001

    @pytest.mark.parametrize(("broken", "fixed"), [(10, 2), (6, 3), (5, 5), (5, 0)])
    def test_for_success_the_p_value_is_that_of_mcnemar(self, broken: int, fixed: int) -> None:
        changed, same = broken + fixed, 30
        first = run([1] * broken + [0] * fixed + [1] * same)
        second = run([0] * broken + [1] * fixed + [1] * same)
        tail = sum(math.comb(changed, k) for k in range(min(broken, fixed) + 1)) / 2**changed
        found = score_difference(SUCCESS, first, second).p_value
        assert found == pytest.approx(min(1.0, 2 * tail), abs=0.025)

    def test_runs_that_are_alike_rarely_seem_to_differ(self) -> None:
        rng = np.random.default_rng(7)
        alarms = below = 0
        for seed in range(300):
            a, b = (run((rng.random(40) < 0.7).astype(int)) for _ in range(2))
            found = score_difference(SUCCESS, a, b, seed=seed)
            assert found.p_value is not None
            assert found.interval is not None
            alarms += found.p_value < 0.05
            below += found.interval.high < 0
        assert alarms / 300 <= 0.08
        assert below / 300 <= 0.05

    def test_the_order_of_the_runs_turns_the_sign(self) -> None:
        formula = Formula.parse("success_pct / total_cost")
        costs = np.random.default_rng(3).random(12).tolist()
        first, second = run([1, 0, 0] * 4, cost=costs), run([1, 1, 0] * 4, cost=costs[::-1])
        there, back = (
            score_difference(formula, *pair) for pair in ((first, second), (second, first))
        )
        assert there.value is not None
        assert back.value == -there.value
        assert there.interval is not None
        assert back.interval is not None
        assert back.interval.low == pytest.approx(-there.interval.high)
        assert back.interval.high == pytest.approx(-there.interval.low)

    def test_pairing_makes_it_sharper_than_two_runs_on_their_own(self) -> None:
        first, second = run([1] * 30 + [0] * 30), run([1] * 28 + [0] * 32)
        paired = width(score_difference(SUCCESS, first, second).interval)
        alone = math.hypot(*(width(score_interval(SUCCESS, each)) for each in (first, second)))
        assert paired < alone / 2

    def test_only_cases_that_both_ran_count(self) -> None:
        first, second = run([1, 1, 0, 0]), run([1, 0, 0])
        for tally, case in ((first, "gone"), (second, "new")):
            tally.add(CaseResult(case=case, status="failed", latency=1.0, cost=1.0))
        found = score_difference(SUCCESS, first, second)
        assert found.value == pytest.approx(-100 / 3)

    def test_named_evals_too_are_compared_over_shared_cases(self) -> None:
        def qa(outcomes: dict[int, CaseStatus]) -> Tally:
            return Tally(CaseResult(case=f"qa[{k}]", status=v) for k, v in outcomes.items())

        first = qa({1: "passed", 2: "failed", 3: "passed"})
        second = qa({1: "passed", 2: "passed", 3: "error"})
        assert score_difference(first.formula("qa"), first, second).value == 0.5

    def test_a_named_eval_is_swapped_with_its_case(self) -> None:
        first, second = run([1, 1, 1, 1, 1]), run([0, 1, 1, 1, 1])
        found = score_difference(first.formula("case0"), first, second)
        assert (found.value, found.interval) == (-1.0, None)
        assert found.p_value == 1.0

    @pytest.mark.parametrize(
        "tallies",
        [
            pytest.param((run([1]), Tally()), id="nothing shared"),
            pytest.param((run([1, 0], cost=[0.0, 0.0]), run([1, 0])), id="no score"),
        ],
    )
    def test_there_is_none_without_two_scores(self, tallies: tuple[Tally, Tally]) -> None:
        formula = Formula.parse("success_pct / total_cost")
        assert score_difference(formula, *tallies) == Difference()

    def test_one_shared_case_has_a_value_but_no_interval(self) -> None:
        found = score_difference(SUCCESS, run([1]), run([0]))
        assert (found.value, found.interval, found.p_value) == (-100.0, None, 1.0)

    def test_a_swap_that_has_no_score_is_no_evidence(self) -> None:
        formula = Formula.parse("1 / (success_pct - 50)")
        found = score_difference(formula, run([1, 1, 1, 0]), run([1, 0, 0, 0]))
        assert found.value is not None
        assert found.p_value is None
