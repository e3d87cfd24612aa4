from __future__ import annotations

from typing import Any

import pytest
from tests.scorers.contexts import NOTHING, called, ran, said

from tallymark.errors import ScorerError
from tallymark.scorers.plan_adherence import plan_adherence
from tallymark.scoring import EvalContext
from tallymark.traces import Span


@pytest.mark.parametrize(
    ("plan", "steps", "value", "reason"),
    [
        ("abc", "abc", 1.0, "3 of 3 steps done in order"),
        ("abc", "ab", 2 / 3, "2 of 3 steps done in order"),
        ("abc", "acb", 2 / 3, "2 of 3 steps done in order"),
        ("abc", "aabbc", 1.0, "3 of 3 steps done in order"),
        ("abc", "axbc", 0.875, "3 of 3 steps done in order; not in the plan: x"),
        ("ab", "axby", 0.75, "2 of 2 steps done in order; not in the plan: x, y"),
        ("abc", "xyz", 0.0, "0 of 3 steps done in order; not in the plan: x, y, z"),
        ("abc", "", 0.0, "No steps found"),
        ("äö", "äö", 1.0, "2 of 2 steps done in order"),
    ],
)
def test_steps_in_order_less_steps_off_the_plan(
    plan: str, steps: str, value: float, reason: str
) -> None:
    score = plan_adherence(plan=list(plan)).score(called(*steps))
    assert score.value == pytest.approx(value)
    assert score.reason == reason


@pytest.mark.parametrize(("penalty", "value"), [(0, 1.0), (0.5, 0.75), (1, 0.5)])
def test_the_penalty_is_for_the_user_to_set(penalty: float, value: float) -> None:
    assert plan_adherence(plan=["a"], penalty=penalty).score(called("a", "x")).value == value


@pytest.mark.parametrize(
    ("expected", "value"),
    [
        ({"plan": ["a", "b"]}, 1.0),
        ({"tool_calls": ["a", {"name": "b"}]}, 1.0),
        ({"plan": ["a", "b"], "tool_calls": ["x"]}, 1.0),
        ({"plan": ["b", "a"]}, 0.5),
    ],
)
def test_the_plan_may_be_what_the_test_expects(expected: dict[str, Any], value: float) -> None:
    assert plan_adherence().score(called("a", "b", **expected)).value == value


def test_steps_may_be_spans_of_another_type() -> None:
    ctx = ran(Span(name="think"), Span(name="act", span_type="tool"), Span(name="write"))
    assert plan_adherence(plan=["think", "write"], span_type="span").score(ctx).value == 1.0


@pytest.mark.parametrize(
    "ctx", [NOTHING, said(""), called("a", plan=None), called("a", plan=[], tool_calls=[])]
)
def test_no_plan_is_no_zero(ctx: EvalContext) -> None:
    score = plan_adherence().score(ctx)
    assert score.value is None
    assert str(score.error).startswith("plan_adherence needs a plan")


@pytest.mark.parametrize("plan", ["search", ["a", 1], {"a": 1}])
def test_an_expected_plan_that_is_no_list_of_names_is_no_zero(plan: Any) -> None:
    score = plan_adherence().score(called("a", plan=plan))
    assert score.value is None
    assert "not a list of step names" in str(score.error)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"plan": []}, "'plan' is [] (list); it must be a list of at least one text"),
        ({"plan": ["a", ""]}, "it must be a list of texts that are not empty"),
        ({"plan": "search"}, "the option 'plan' is 'search'"),
        ({"penalty": -0.1}, "'penalty' is -0.1; it must be from 0 to 1"),
        ({"penalty": 1.5}, "'penalty' is 1.5"),
        ({"span_type": "step"}, "the option 'span_type' is 'step'"),
    ],
)
def test_refused_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ScorerError) as refused:
        plan_adherence(**options)
    assert message in str(refused.value)
