"""The counts of a run, against numbers worked out by hand."""

from __future__ import annotations

import pytest

from tallymark.errors import FormulaError
from tallymark.runs.record import CaseResult, CheckResult
from tallymark.runs.tally import Tally, eval_of

RESULTS = [
    CaseResult(case="sum", status="passed", latency=1.0, cost=0.25),
    CaseResult(case="sum", epoch=1, status="failed", latency=2.0, cost=0.5),
    CaseResult(case="qa[1]", status="passed", latency=0.5, cost=0.125),
    CaseResult(case="qa[2]", status="passed", latency=0.5, cost=0.125),
    CaseResult(case="#4", status="failed", latency=4.0, cost=1.0),
    CaseResult(case="down", status="error", error="503"),
]


def test_the_metrics_of_a_run() -> None:
    assert Tally(RESULTS).metrics(evals=["sum", "qa", "down"]) == {
        "success_pct": 60.0,
        "max_latency": 4.0,
        "min_latency": 0.5,
        "avg_latency": 1.6,
        "total_latency": 8.0,
        "max_cost": 1.0,
        "min_cost": 0.125,
        "avg_cost": 0.4,
        "total_cost": 2.0,
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


def test_without_names_all_that_was_counted_is_told() -> None:
    assert {"sum", "qa", "down", "qa_cost"} <= Tally(RESULTS).metrics().keys()


def test_one_unknown_cost_makes_every_cost_of_the_run_unknown() -> None:
    free = CaseResult(case="free", status="passed", latency=1.0)
    metrics = Tally([*RESULTS, free]).metrics()
    assert [metrics[f"{name}_cost"] for name in ("max", "min", "avg", "total", "free")] == [
        None
    ] * 5
    assert metrics["sum_cost"] == 0.375
    assert metrics["total_latency"] == 9.0


def test_nothing_is_known_of_a_run_without_results() -> None:
    assert set(Tally().metrics(evals=["sum"], scorers=["tone"]).values()) == {None}


def scored(*values: float | None) -> list[CheckResult]:
    return [CheckResult(kind="scorer", name="tone", value=v, passed=True) for v in values]


def test_a_scorer_stands_for_the_mean_of_what_it_measured() -> None:
    either = CheckResult(kind="or", passed=True, parts=scored(1.0))
    results = [
        CaseResult(case="a", status="passed", checks=scored(0.25, None)),
        CaseResult(case="b", status="passed", checks=[either]),
        CaseResult(case="c", status="passed"),
    ]
    tally = Tally(results)
    assert tally.scorers == ["tone"]
    assert tally.metrics(scorers=["tone", "other"])["tone"] == 0.625
    assert tally.metrics(scorers=["tone", "other"])["other"] is None


@pytest.mark.parametrize(
    ("metric", "why"),
    [
        ("success_pct", None),
        ("avg_latency", None),
        ("total_cost", "the cost of 1 of 3 cases is not known; set metadata.pricing in the suite"),
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
    assert Tally([CaseResult(case="#1", status="error")]).unknown("success_pct") == "no case ran"


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
