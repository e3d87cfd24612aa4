"""The test by swapping, against exact tests and counting by hand."""

from __future__ import annotations

import itertools
import math
import statistics

import pytest

from tallymark.formula import Formula
from tallymark.runs.case_columns import CaseTable
from tallymark.runs.permutation_test import FEW_CASES, SwapTest, pair_units, try_swaps
from tallymark.runs.record import CaseResult
from tallymark.runs.tally import Tally

SUCCESS = Formula.parse("success_pct")
Results = list[CaseResult]


def results(marks: list[str], *, cost: list[float] | None = None, names: str = "") -> Results:
    """A case for each word, an epoch for each sign: + passed, - failed."""
    return [
        CaseResult(
            case=names[at] if at < len(names) else f"#{at}",
            epoch=epoch,
            status="passed" if mark == "+" else "failed",
            cost=0.01 if cost is None else cost[at],
            latency=float(epoch) + 0.1 * at,
        )
        for at, word in enumerate(marks)
        for epoch, mark in enumerate(word)
    ]


def swap(
    first: Results, second: Results, formula: Formula = SUCCESS, *, higher_is_worse: bool = False
) -> SwapTest:
    tallies = Tally(first), Tally(second)
    names = sorted(tallies[0].cases)
    units = [[(case, tally.cases[case]) for case in names] for tally in tallies]
    if len(names) < FEW_CASES:
        units = [*pair_units(names, tallies, (first, second))]
    (found,) = try_swaps([(formula, higher_is_worse)], CaseTable(units[0]), CaseTable(units[1]))
    assert found is not None
    return found


@pytest.mark.parametrize(("broken", "fixed"), [(4, 1), (5, 0), (3, 3), (6, 2)])
def test_for_success_rates_it_is_mcnemars(broken: int, fixed: int) -> None:
    first = results(["+"] * broken + ["-"] * fixed)
    second = results(["-"] * broken + ["+"] * fixed)
    changed = broken + fixed
    exact = sum(math.comb(changed, k) for k in range(fixed + 1)) / 2**changed
    found = swap(first, second)
    assert found.p_value == pytest.approx(exact)
    assert found.units == changed


def test_from_ten_units_on_ties_count_half() -> None:
    first = results(["+"] * 18 + ["-"] * 2)
    second = results(["-"] * 8 + ["+"] * 11 + ["-"])
    # Of 9 cases that changed, 8 broke: scipy.stats.binomtest(1, 9, alternative="less").
    exact, tie = 10 / 512, 9 / 512
    assert swap(first, second).p_value == pytest.approx(exact - tie / 2, abs=0.006)


def test_costs_and_passes_together_by_all_64_swaps() -> None:
    first = results(["+"] * 6, cost=[0.01, 0.02, 0.03, 0.04, 0.05, 0.06])
    second = results(["+", "-", "+", "+", "-", "+"], cost=[0.012, 0.026, 0.029, 0.05, 0.07, 0.066])
    formula = Formula.parse("success_pct / total_cost")
    assert swap(first, second, formula) == SwapTest(2 / 64, 6)


def test_what_is_dearer_is_worse_where_that_is_said() -> None:
    first, second = (results(["+"] * 5, cost=[c] * 5) for c in (0.01, 0.02))
    formula = Formula.parse("total_cost")
    assert swap(first, second, formula, higher_is_worse=True).p_value == 1 / 32
    assert swap(first, second, formula).p_value == 1.0


def test_an_extreme_is_swapped_too() -> None:
    first, second = (results(["+"] * 3, cost=costs) for costs in ([0.1, 0.2, 0.3], [0.1, 0.2, 0.9]))
    found = swap(first, second, Formula.parse("max_cost"), higher_is_worse=True)
    assert found.p_value == 0.5  # whether the third case is swapped decides alone


def test_a_percentile_is_swapped_too() -> None:
    first = [CaseResult(case=f"#{n}", status="passed", latency=1.0 + n) for n in range(5)]
    second = [CaseResult(case=f"#{n}", status="passed", latency=2.0 + n) for n in range(5)]
    found = swap(first, second, Formula.parse("p50_latency"), higher_is_worse=True)
    ways = list(itertools.product(*([(1.0 + n, 2.0 + n), (2.0 + n, 1.0 + n)] for n in range(5))))
    changes = [
        statistics.median(two for _, two in way) - statistics.median(one for one, _ in way)
        for way in ways
    ]
    assert found.p_value == sum(change >= 1.0 for change in changes) / 32


def test_only_units_that_the_formula_depends_on_count() -> None:
    first, second = results(["+"] * 12, names="ab"), results(["-"] * 12, names="ab")
    found = swap(first, second, Tally(first).formula("a + b"))
    assert found == SwapTest(0.25, 2)


class TestUnits:
    def test_few_cases_are_swapped_by_result(self) -> None:
        assert swap(results(["+++++", "+++++"]), results(["-----", "-----"])).units == 10

    def test_many_cases_are_swapped_whole(self) -> None:
        assert swap(results(["++"] * 10), results(["--"] * 10)).units == 10

    def test_epochs_that_repeat_each_other_are_one_result(self) -> None:
        def cached(status: str) -> Results:
            return [
                CaseResult(case=case, epoch=epoch, status=status, latency=0.5)  # type: ignore[arg-type]
                for case in ("#0", "#1")
                for epoch in range(5)
            ]

        assert swap(cached("passed"), cached("failed")).units == 2

    def test_other_epochs_in_the_other_run_leave_the_case_whole(self) -> None:
        assert swap(results(["+++", "+-"]), results(["--", "-+"])).units == 3


def test_a_swap_without_a_score_counts_against_the_claim() -> None:
    formula = Formula.parse("100 / (success_pct - 50)")
    found = swap(results(["+", "+", "+", "-"]), results(["+", "-", "-", "-"]), formula)
    # 100 / 25 against 100 / -25: swapping one or the other of the two cases divides by zero.
    assert found.p_value == 0.75


def test_there_is_none_without_two_scores() -> None:
    formula = Formula.parse("success_pct / total_cost")
    sides = results(["+", "-"], cost=[0.0, 0.0]), results(["+", "-"])
    one, two = (CaseTable([*Tally(each).cases.items()]) for each in sides)
    formulas = [(formula, False), (Formula.parse("1 + 1"), False), (SUCCESS, False)]
    first, second, third = try_swaps(formulas, one, two)
    assert (first, second) == (None, None)
    assert third is not None
