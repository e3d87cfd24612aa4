from __future__ import annotations

from typing import Any

import pytest
from tests.scorers.contexts import NOTHING, model, said

from tallymark.errors import ScorerError
from tallymark.scorers.latency import latency
from tallymark.scoring import EvalContext
from tallymark.traces import Trace


@pytest.mark.parametrize(
    ("duration_ms", "value", "reason"),
    [
        (0.5, 1.0, "Took 0.5 ms (target 2 s, limit 10 s)"),
        (2000.0, 1.0, "Took 2.00 s (target 2 s, limit 10 s)"),
        (4000.0, 0.75, "Took 4.00 s (target 2 s, limit 10 s)"),
        (10000.0, 0.0, "Took 10.00 s (target 2 s, limit 10 s)"),
        (99999.0, 0.0, "Took 100 s (target 2 s, limit 10 s)"),
    ],
)
def test_the_quicker_the_better(duration_ms: float, value: float, reason: str) -> None:
    score = latency(target=2, limit=10).score(EvalContext(Trace(duration_ms=duration_ms)))
    assert (score.value, score.reason) == (value, reason)
    assert score.metadata == {"seconds": duration_ms / 1000}


@pytest.mark.parametrize(
    "ctx", [NOTHING, said(""), EvalContext(Trace(spans=[model("é", duration_ms=5.0)]))]
)
def test_a_trace_without_a_duration_has_no_value(ctx: EvalContext) -> None:
    score = latency(target=2, limit=10).score(ctx)
    assert (score.value, score.error) == (None, "latency is unknown: the trace has no duration")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "latency needs the options 'target', 'limit'"),
        ({"target": 2, "limit": 1}, "latency: the option 'limit' is 1.0"),
        ({"target": -2, "limit": 1}, "latency: the option 'target' is -2.0"),
        ({"target": None, "limit": 1}, "latency: the option 'target' is None"),
        ({"target": "2s", "limit": 3}, "latency: the option 'target' is '2s'"),
    ],
)
def test_refused_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ScorerError) as refused:
        latency(**options)
    assert message in str(refused.value)
