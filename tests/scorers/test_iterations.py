from __future__ import annotations

from typing import Any

import pytest
from tests.scorers.contexts import NOTHING, model, ran, tool

from tallymark.errors import ScorerError
from tallymark.scorers.iterations import iterations
from tallymark.scoring import EvalContext


@pytest.mark.parametrize(
    ("calls", "value"), [(1, 1.0), (3, 1.0), (4, 0.75), (5, 0.5), (7, 0.0), (50, 0.0)]
)
def test_the_fewer_the_better(calls: int, value: float) -> None:
    spans = [span for _ in range(calls) for span in (model("", input="é"), tool("search"))]
    score = iterations(target=3, limit=7).score(ran(*spans))
    assert score.value == value
    assert score.reason == f"Made {calls} model calls (target 3, limit 7)"
    assert score.metadata == {"model_calls": calls}


@pytest.mark.parametrize("ctx", [NOTHING, ran(tool("search"))])
def test_a_trace_without_a_model_call_has_no_value(ctx: EvalContext) -> None:
    score = iterations(target=3, limit=7).score(ctx)
    assert (score.value, score.error) == (
        None,
        "iterations are unknown: the trace has no model call",
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "iterations needs the options 'target' and 'limit', or else 'steps'"),
        ({"target": 3, "limit": 2}, "iterations: the option 'limit' is 2"),
        ({"target": None, "limit": 2}, "iterations needs the options 'target' and 'limit'"),
    ],
)
def test_refused_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ScorerError) as refused:
        iterations(**options)
    assert message in str(refused.value)
