"""The counts of a run, against numbers worked out by hand."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from tallymark.errors import FormulaError
from tallymark.formula import MORE_METRICS, RUN_METRICS
from tallymark.judging.spending import JudgeSpending
from tallymark.runs.record import CaseResult, CheckResult, RunRecord
from tallymark.runs.run import Run
from tallymark.runs.tally import Amounts, Tally, eval_of

RESULTS = [
    CaseResult(case="sum", status="passed", latency=1.0, cost=0.25),
    CaseResult(case="sum", epoch=1, status="failed", latency=2.0, cost=0.5),
    CaseResult(case="qa[1]", status="passed", latency=0.5, cost=0.125),
    CaseResult(case="qa[2]", status="passed", latency=0.5, cost=0.125),
    CaseResult(case="#4", status="failed", latency=4.0, cost=1.0),
    CaseResult(case="down", status="error", error="503"),
]


def test_the_metrics_of_a_run() -> None:
    assert Tally(RESULTS).metrics() == {
        "success_pct": 60.0,
        "max_latency": 4.0,
        "min_latency": 0.5,
        "avg_latency": 1.6,
        "total_latency": 8.0,
        "max_cost": 1.0,
        "min_cost": 0.125,
        "avg_cost": 0.4,
        "total_cost": 2.0,
        "judge_cost": 0.0,
        "p50_latency": 1.0,
        "p95_latency": pytest.approx(3.6),
        "p99_latency": pytest.approx(3.92),
        "input_tokens": None,
        "output_tokens": None,
        "total_tokens": None,
        "error_pct": pytest.approx(100 / 6),
        "sum": 0.5,
        "sum_latency": 1.5,
        "sum_cost": 0.375,
        "qa": 1.0,
        "qa_latency": 0.5,
        "qa_cost": 0.125,
        "down": None,
        "down_latency": None,
        "down_cost": None,
    }


def test_errors_are_counted_apart() -> None:
    tally = Tally(RESULTS)
    assert (tally.all.ran, tally.all.passed, tally.errors, tally.finished) == (5, 3, 1, 6)
    assert list(tally.cases) == ["sum", "qa[1]", "qa[2]", "#4", "down"]
    assert tally.cases["down"].success is None


def test_adding_one_by_one_is_counting_at_once() -> None:
    slowly = Tally()
    for result in RESULTS:
        slowly.add(result)
    assert slowly.metrics() == Tally(RESULTS).metrics()


def test_counts_go_on_after_somebody_has_asked_for_them() -> None:
    tally, asked = Tally(), []
    for result in RESULTS * 3:
        tally.add(result)
        asked.append((tally.all.cost.total, len(tally.evals), tally.metrics()["total_cost"]))
    assert asked[:3] == [(0.25, 1, 0.25), (0.75, 1, 0.75), (0.875, 2, 0.875)]
    assert tally.metrics() == Tally(RESULTS * 3).metrics()
    assert tally.all == Tally(RESULTS * 3).all


def test_without_names_all_that_was_counted_is_told() -> None:
    assert {"sum", "qa", "down", "qa_cost"} <= Tally(RESULTS).metrics().keys()


def test_one_unknown_cost_makes_every_cost_of_the_run_unknown() -> None:
    free = CaseResult(case="free", status="passed", latency=1.0)
    priced = CaseResult(case="free", epoch=1, status="passed", latency=1.0, cost=0.25)
    metrics = Tally([*RESULTS, free, priced]).metrics()
    assert [metrics[f"{name}_cost"] for name in ("max", "min", "avg", "total", "free")] == [
        None
    ] * 5
    assert metrics["sum_cost"] == 0.375
    assert metrics["total_latency"] == 10.0


def test_nothing_is_known_of_a_run_without_results() -> None:
    assert set(Tally().metrics().values()) == {None}


def scored(*values: float | None) -> tuple[CheckResult, ...]:
    return tuple(CheckResult(kind="scorer", name="tone", value=v, passed=True) for v in values)


def test_a_scorer_stands_for_the_mean_of_what_it_measured() -> None:
    either = CheckResult(kind="or", passed=True, parts=scored(1.0))
    results = [
        CaseResult(case="a", status="passed", checks=scored(0.25, None)),
        CaseResult(case="b", status="passed", checks=(either,)),
        CaseResult(case="c", status="passed"),
    ]
    tally = Tally(results)
    assert list(tally.scorers) == ["tone"]
    assert tally.metrics()["tone"] == 0.625


def test_a_scorers_mean_takes_in_what_it_measured_of_cases_in_error() -> None:
    broken = CheckResult(kind="scorer", name="judge", passed=False, error="no answer")
    results = [
        CaseResult(case="a", status="passed", checks=scored(1.0), latency=1.0, cost=0.1),
        CaseResult(case="b", status="error", checks=(*scored(0.5), broken), latency=9.0, cost=9.0),
    ]
    tally = Tally(results)
    metrics = tally.metrics()
    assert (metrics["tone"], metrics["judge"]) == (0.75, None)
    assert (metrics["success_pct"], metrics["total_cost"], metrics["max_latency"]) == (100, 0.1, 1)
    judge = tally.scorers["judge"]
    assert (judge.scored, judge.unscored, judge.first_error) == (0, 1, "no answer")


def judged(cost: float | None) -> CheckResult:
    spent = JudgeSpending("m", 1, 10, 2, cost)
    return CheckResult(kind="llm_judge", passed=True, judge=spent)


def test_what_judges_cost_is_counted_apart_also_of_errors_and_alternatives() -> None:
    either = CheckResult(kind="or", passed=True, parts=(judged(0.25), judged(0.5)))
    results = [
        CaseResult(case="a", status="passed", cost=1.0, checks=(judged(0.125),)),
        CaseResult(case="b", status="error", checks=(either,)),
        CaseResult(case="c", status="passed", cost=1.0),
    ]
    metrics = Tally(results).metrics()
    assert (metrics["judge_cost"], metrics["total_cost"]) == (0.875, 2.0)
    assert Tally(results[2:]).metrics()["judge_cost"] == 0.0
    old = CheckResult(kind="llm_judge", passed=True, value=1.0)
    assert (
        Tally([CaseResult(case="a", status="passed", checks=(old,))]).metrics()["judge_cost"]
        is None
    )
    unknown = CaseResult(case="d", status="passed", cost=1.0, checks=(judged(None),))
    tally = Tally([*results, unknown])
    assert tally.metrics()["judge_cost"] is None
    assert tally.unknown("judge_cost") == "what the judge cost is not known for 1 of 4 results"


def test_sums_are_exact() -> None:
    cases = [CaseResult(case=f"c{n}", status="passed", cost=0.1) for n in range(3)]
    assert Tally(cases).metrics()["total_cost"] == 0.3
    assert sum([0.1] * 3) != 0.3  # what adding up alone would give
    far = [
        CaseResult(case=f"c{n}", status="passed", cost=c) for n, c in enumerate([1e14, 1.0, 1.0])
    ]
    assert Tally(far).metrics()["total_cost"] == 1e14 + 2


@given(st.lists(st.floats(0, 1e6), max_size=300), st.integers(1, 20))
@example([1e6, 1e-12, 1e-30, 1e6, 1e-30, 1e-12], 1)  # three magnitudes: two floats are too few
def test_sums_do_not_depend_on_how_values_were_grouped(values: list[float], size: int) -> None:
    parts = Amounts()
    for at in range(0, len(values), size):
        parts.add(values[at : at + size])
    # Rational numbers are exact; a float of one is rounded once.
    assert parts.sum == float(sum(map(Fraction, values)))
    assert parts.squares == float(sum(Fraction(value * value) for value in values))


@pytest.mark.parametrize(
    ("values", "total"),
    [([1e308, 1e308], math.inf), ([math.inf, 1.0], math.inf), ([-1e308, -1e308], -math.inf)],
)
def test_a_sum_too_large_for_a_float_is_infinite(values: list[float], total: float) -> None:
    amounts = Amounts()
    for value in values:
        amounts.add([value])
    assert (amounts.sum, amounts.squares) == (total, math.inf)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "b", "c[1]", "c[2]", "#9"]),
            st.sampled_from(["passed", "failed", "error"]),
            st.none() | st.floats(0, 100),
            st.none() | st.floats(0, 1),
        ),
        max_size=30,
    )
)
def test_metrics_are_those_of_plain_arithmetic(rows: list[tuple[str, Any, Any, Any]]) -> None:
    results = [
        CaseResult(case=case, epoch=n, status=status, cost=cost, checks=scored(value))
        for n, (case, status, cost, value) in enumerate(rows)
    ]
    metrics = Tally(results).metrics()
    ran = [(status == "passed", cost) for _, status, cost, _ in rows if status != "error"]
    costs = [cost for _, cost in ran]
    success = 100 * sum(passed for passed, _ in ran) / len(ran) if ran else None
    assert metrics["success_pct"] == (None if success is None else pytest.approx(success))
    if None in costs or not costs:
        assert metrics["total_cost"] is metrics["avg_cost"] is metrics["max_cost"] is None
    else:
        assert metrics["total_cost"] == pytest.approx(math.fsum(costs), rel=1e-14)
        assert (metrics["min_cost"], metrics["max_cost"]) == (min(costs), max(costs))
    values = [value for *_, value in rows if value is not None]
    assert metrics.get("tone") == (pytest.approx(sum(values) / len(values)) if values else None)


def test_cases_beyond_a_bound_share_places_and_nothing_is_lost() -> None:
    results = [
        CaseResult(case=f"t[{n}]", status="passed" if n % 4 else "failed", latency=1.0, cost=0.25)
        for n in range(1000)
    ]
    bounded, whole = Tally(results, most_cases=50), Tally(results)
    assert bounded.metrics() == whole.metrics()
    assert len(bounded.cases) <= 100
    assert sum(each.ran for each in bounded.cases.values()) == 1000
    assert {eval_of(case) for case in bounded.cases} == {"t"}


def test_names_that_formulas_cannot_use_are_no_metrics() -> None:
    results = [
        CaseResult(case=case, status="passed") for case in ("two words", "5", "max", "total_cost")
    ]
    assert set(Tally(results).metrics()) == {*RUN_METRICS, *MORE_METRICS}


def test_tokens_and_percentiles() -> None:
    results = [
        CaseResult(case=f"#{n}", status="passed", latency=n / 10, input_tokens=n, output_tokens=2)
        for n in range(1, 22)
    ]
    found = Tally([*results, CaseResult(case="down", status="error")]).metrics()
    assert (found["input_tokens"], found["output_tokens"], found["total_tokens"]) == (231, 42, 273)
    # numpy.percentile of 0.1 to 2.1
    percentiles = [found[f"p{percent}_latency"] for percent in (50, 95, 99)]
    assert percentiles == pytest.approx([1.1, 2.0, 2.08])
    assert found["error_pct"] == pytest.approx(100 / 22)


@pytest.mark.parametrize("metric", ["input_tokens", "output_tokens", "total_tokens"])
def test_tokens_that_were_counted_here_are_not_added_up_and_that_is_told(metric: str) -> None:
    told = CaseResult(case="b", status="passed", input_tokens=3, output_tokens=3)
    guessed = replace(told, case="a", tokens_counted_by="local")
    tally = Tally([guessed, told])
    assert tally.score(tally.formula(metric)).error == (
        f"{metric} has no value; no provider or trace counted the tokens of 1 of 2 results;"
        " what is counted here is a guess, and not added up"
    )
    assert Tally([told]).unknown(metric) is None


def test_an_eval_or_a_scorer_keeps_a_name_that_a_later_metric_has() -> None:
    check = CheckResult(kind="scorer", name="total_tokens", value=0.5, passed=True)
    results = [
        CaseResult(case="p95", status="passed", latency=3.0, checks=(check,)),
        CaseResult(case="b", status="passed", latency=1.0),
    ]
    found = Tally(results).metrics()
    assert (found["p95_latency"], found["total_tokens"]) == (3.0, 0.5)
    assert found["p50_latency"] == 2.0


@pytest.mark.parametrize(
    ("metric", "why"),
    [
        ("success_pct", None),
        ("avg_latency", None),
        (
            "total_cost",
            "the cost of 1 of 3 results is not known; set metadata.pricing in the suite",
        ),
        ("a_cost", None),
        (
            "b_cost",
            "the cost of 1 of 1 results of 'b' is not known; set metadata.pricing in the suite",
        ),
        ("c", "no result of 'c': it never ran"),
        ("c_latency", "no result of 'c': it never ran"),
        ("first_cost", None),
        ("tone", None),
    ],
)
def test_a_metric_without_a_value_says_why(metric: str, why: str | None) -> None:
    tally = Tally(
        [
            CaseResult(case="a", status="passed", latency=1.0, cost=0.1),
            CaseResult(case="b", status="passed", latency=1.0),
            CaseResult(case="c", status="error"),
            CaseResult(case="first_cost", status="passed", latency=1.0, cost=0.1),
        ]
    )
    assert tally.unknown(metric) == why


def test_a_run_in_which_nothing_ran_says_so() -> None:
    failed = Tally([CaseResult(case="#1", status="error")])
    assert failed.unknown("success_pct") == "every case ended in an error"
    assert Tally().unknown("success_pct") == "no case ran"


def test_a_formula_may_use_every_name_that_was_counted() -> None:
    tally = Tally([CaseResult(case="a-b", status="passed", latency=2.0, checks=scored(0.5))])
    formula = tally.formula("a-b / a-b_latency + tone + other", also=["other"])
    assert formula.names == ("a-b", "a-b_latency", "tone", "other")
    with pytest.raises(FormulaError, match="unknown name 'nowhere'"):
        tally.formula("nowhere")


@pytest.mark.parametrize(
    ("case", "name"), [("sum", "sum"), ("qa[7]", "qa"), ("#3", None), ("#3[2]", None)]
)
def test_the_eval_that_a_case_belongs_to(case: str, name: str | None) -> None:
    assert eval_of(case) == name


@pytest.mark.parametrize("door", ["traces", "Python"])
def test_only_a_suite_in_yaml_is_told_to_set_prices(door: str) -> None:
    record = RunRecord(id="r", suite="s", model="m", tags={"door": door})
    run = Run(record, [CaseResult(case="a", status="passed", cost=None)])
    told = run.tally.unknown("total_cost")
    assert told == "the cost of 1 of 1 results is not known; no span records it"
