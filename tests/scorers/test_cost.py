from __future__ import annotations

from typing import Any

import pytest
from tests.scorers.contexts import NOTHING, model, ran, said, tool

from tallymark.errors import ScorerError
from tallymark.scorers.cost import cost
from tallymark.scoring import EvalContext


@pytest.mark.parametrize(
    ("costs", "value", "reason"),
    [
        ([0.0], 1.0, "Cost $0 (target $0.0100, limit $0.0500)"),
        ([0.01], 1.0, "Cost $0.0100 (target $0.0100, limit $0.0500)"),
        ([0.01, None, 0.02], 0.5, "Cost $0.0300 (target $0.0100, limit $0.0500)"),
        ([1.0, 1.5], 0.0, "Cost $2.5000 (target $0.0100, limit $0.0500)"),
    ],
)
def test_the_cheaper_the_better(costs: list[float | None], value: float, reason: str) -> None:
    score = cost(target=0.01, limit=0.05).score(ran(*(model("é", cost=each) for each in costs)))
    assert score.value == pytest.approx(value)
    assert score.reason == reason


@pytest.mark.parametrize("ctx", [NOTHING, said(""), ran(model("x", input_tokens=5), tool("s"))])
def test_an_unknown_cost_is_no_zero(ctx: EvalContext) -> None:
    score = cost(target=0.01, limit=0.05).score(ctx)
    assert (score.value, score.error) == (None, "cost is unknown: no span of the trace states one")


def test_a_model_without_a_price_makes_the_sum_unknown() -> None:
    calls = [model("x", cost=0.01, input_tokens=5), model("y", model="mine", output_tokens=9)]
    score = cost(target=0.01, limit=0.05).score(ran(*calls))
    assert (score.value, score.error) == (None, "cost is unknown: the price of mine is not known")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": 0.01}, "cost needs the options 'target' and 'limit'"),
        ({"target": 2, "limit": 1}, "cost: the option 'limit' is 1.0"),
        ({"target": "$1", "limit": 2}, "cost: the option 'target' is '$1'"),
    ],
)
def test_refused_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ScorerError) as refused:
        cost(**options)
    assert message in str(refused.value)
