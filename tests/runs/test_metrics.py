"""The run-wide metrics of traces and results, and formulas over them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallymark.errors import FormulaError
from tallymark.formula import RUN_METRICS
from tallymark.formula.lint_examples import SampleEval, run_metrics
from tallymark.runs.metrics import RunMetrics, apply_formula, parse_formula, sum_spending
from tallymark.traces import Span, Trace

AMOUNTS = st.floats(0.001, 1000)


def metrics(*cases: tuple[bool, float, float | None]) -> RunMetrics:
    found = RunMetrics()
    for passed, milliseconds, cost in cases:
        found.add(passed=passed, duration_ms=milliseconds, cost=cost)
    return found


@given(st.lists(st.tuples(st.booleans(), AMOUNTS, AMOUNTS), min_size=1, max_size=30))
def test_they_are_what_the_formula_language_means(cases: list[tuple[bool, float, float]]) -> None:
    found = metrics(*((passed, 1000 * seconds, cost) for passed, seconds, cost in cases))
    wanted = run_metrics([SampleEval(*case) for case in cases])
    assert found.values() == {name: pytest.approx(value) for name, value in wanted.items()}


def test_every_name_of_the_language_has_its_value() -> None:
    assert set(metrics((True, 1, 1)).values()) == set(RUN_METRICS)


def test_nothing_is_known_of_no_case() -> None:
    assert set(metrics().values().values()) == {None}


def test_one_unknown_cost_makes_every_cost_unknown() -> None:
    found = metrics((True, 500, 0.1), (False, 1500, None))
    values = found.values()
    assert (values["success_pct"], values["avg_latency"]) == (50.0, 1.0)
    assert {values[f"{kind}_cost"] for kind in ("max", "min", "avg", "total")} == {None}
    assert found.unknown("total_cost") == "the cost is not known for 1 of 2"
    assert found.unknown("avg_latency") is None


def test_a_duration_of_zero_is_one_that_nobody_measured() -> None:
    assert metrics((True, 0.0, 0.0)).values()["total_latency"] is None
    assert metrics((True, 0.0, 0.0)).values()["total_cost"] == 0.0


@pytest.mark.parametrize(
    ("text", "score", "error"),
    [
        ("success_pct * accuracy", 40.0, None),
        ("max(accuracy, tone-score) / avg_latency", 1.6, None),
        ("success_pct / total_cost", None, "total_cost has no value; the cost is not known for 1"),
        ("accuracy / (avg_latency - 0.5)", None, "division by zero: avg_latency - 0.5 is 0"),
        ("judge + 1", None, "judge has no value"),
    ],
)
def test_a_formula_has_a_score_or_a_reason(
    text: str, score: float | None, error: str | None
) -> None:
    means = {"accuracy": 0.8, "tone-score": 0.5, "judge": None}
    found = apply_formula(
        parse_formula(text, means), metrics((True, 500, None), (False, 500, 1.0)), means
    )
    assert (found.formula, found.score) == (text, score)
    assert (found.error or "").startswith(error or "")
    assert (found.error is None) is (error is None)


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["total_cost"], "the scorer 'total_cost' has the name of a run-wide metric; give it"),
        (["max"], "name 'max' is reserved for the function max()"),
        (["7"], "name '7' reads as a number"),
    ],
)
def test_names_that_formulas_cannot_use_are_refused(names: list[str], said: str) -> None:
    with pytest.raises(FormulaError) as error:
        parse_formula("success_pct", names)
    assert said in str(error.value)


def test_an_unknown_name_suggests_a_scorer() -> None:
    with pytest.raises(FormulaError, match="unknown name 'acuracy'; did you mean 'accuracy'"):
        parse_formula("acuracy * 2", ["accuracy"])


@given(
    st.lists(
        st.builds(
            Span,
            cost=st.none() | st.floats(0, 10),
            input_tokens=st.none() | st.integers(0, 99),
            output_tokens=st.none() | st.integers(0, 99),
        ),
        max_size=6,
    )
)
def test_what_was_spent_is_what_the_trace_says(spans: list[Span]) -> None:
    trace = Trace(spans=spans)
    cost, tokens = sum_spending(trace)
    assert tokens == trace.tokens
    assert (cost is None) is (trace.cost is None)
    assert math.isclose(cost or 0, trace.cost or 0)


def test_an_error_is_neither_a_success_nor_a_failure() -> None:
    metrics = RunMetrics()
    for passed in (True, False, None, None):
        metrics.add(passed=passed, duration_ms=1000, cost=0.01)
    assert metrics.values()["success_pct"] == 50
    assert metrics.values()["total_cost"] == 0.04
