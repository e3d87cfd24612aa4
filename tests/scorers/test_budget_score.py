from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallymark.errors import ScorerError
from tallymark.scorers.budget_score import make_budget_score

AMOUNTS = st.floats(0, 1e300)


@pytest.mark.parametrize(
    ("target", "limit", "amount", "value"),
    [
        (2, 10, 0, 1.0),
        (2, 10, 2, 1.0),
        (2, 10, 4, 0.75),
        (2, 10, 6, 0.5),
        (2, 10, 10, 0.0),
        (2, 10, 1e300, 0.0),
        (5, 5, 5, 1.0),
        (5, 5, 5.001, 0.0),
        (0, 1, 0.25, 0.75),
        (0, 0, 0, 1.0),
        (0, 0, 1, 0.0),
    ],
)
def test_full_marks_up_to_the_target_then_a_line_to_the_limit(
    target: float, limit: float, amount: float, value: float
) -> None:
    assert make_budget_score("latency", target, limit)(amount) == value


@given(AMOUNTS, AMOUNTS, AMOUNTS, AMOUNTS)
def test_more_is_never_better(a: float, b: float, one: float, other: float) -> None:
    value = make_budget_score("latency", min(a, b), max(a, b))
    assert 1 >= value(min(one, other)) >= value(max(one, other)) >= 0


@pytest.mark.parametrize(
    ("target", "limit", "message"),
    [
        (-1, 5, "cost: the option 'target' is -1"),
        (math.nan, 5, "'target' is nan; it must be a finite number, 0 or more"),
        (math.inf, math.inf, "'target' is inf"),
        (5, 4, "'limit' is 4 (int); it must be a finite number, at least the target (5)"),
        (5, math.inf, "'limit' is inf"),
        (5, math.nan, "'limit' is nan"),
    ],
)
def test_refused_budgets(target: float, limit: float, message: str) -> None:
    with pytest.raises(ScorerError) as refused:
        make_budget_score("cost", target, limit)
    assert message in str(refused.value)
