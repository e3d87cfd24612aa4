from __future__ import annotations

from typing import Any, Literal

import pytest
from tests.scorers.contexts import NOTHING, model, ran, said

from tallymark.errors import ScorerError
from tallymark.scorers.token_use import token_use
from tallymark.scoring import EvalContext

RUN = ran(model("é", input_tokens=100, output_tokens=20), model(input_tokens=180), model("x"))


@pytest.mark.parametrize(
    ("count", "value", "reason"),
    [
        ("total", 0.5, "Used 300 tokens (target 100, limit 500)"),
        ("input", 0.55, "Used 280 input tokens (target 100, limit 500)"),
        ("output", 1.0, "Used 20 output tokens (target 100, limit 500)"),
    ],
)
def test_the_fewer_the_better(
    count: Literal["total", "input", "output"], value: float, reason: str
) -> None:
    score = token_use(target=100, limit=500, count=count).score(RUN)
    assert score.value == pytest.approx(value)
    assert score.reason == reason


@pytest.mark.parametrize(
    ("ctx", "count", "unknown"),
    [
        (NOTHING, "total", "tokens"),
        (said(""), "total", "tokens"),
        (ran(model(input_tokens=5)), "output", "output tokens"),
    ],
)
def test_unknown_tokens_are_no_zero(
    ctx: EvalContext, count: Literal["total", "output"], unknown: str
) -> None:
    score = token_use(target=1, limit=2, count=count).score(ctx)
    assert score.value is None
    assert score.error == f"token use is unknown: no span of the trace states its {unknown}"


def test_zero_tokens_are_known() -> None:
    assert token_use(target=0, limit=1).score(ran(model(input_tokens=0))).value == 1.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"limit": 5}, "token_use needs the options 'target' and 'limit'"),
        ({"target": 2, "limit": 1}, "token_use: the option 'limit' is 1"),
        ({"target": 2.5, "limit": 5}, "token_use: the option 'target' is 2.5"),
        ({"target": 1, "limit": 2, "count": "all"}, "token_use: the option 'count' is 'all'"),
    ],
)
def test_refused_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ScorerError) as refused:
        token_use(**options)
    assert message in str(refused.value)
