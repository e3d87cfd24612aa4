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
    ("seconds", "value"), [(0.5, 1.0), (1.0, 1.0), (1.1, 0.5), (5.0, 0.5), (5.1, 0.2), (21.0, 0.0)]
)
def test_the_value_falls_by_steps(seconds: float, value: float) -> None:
    stairs = latency(steps=[(5, 0.5), (1, 1.0), (20, 0.2)])
    score = stairs.score(EvalContext(Trace(duration_ms=1000 * seconds)))
    assert score.value == value
    assert score.reason == f"Took {seconds:.2f} s (steps 1 s: 1, 5 s: 0.5, 20 s: 0.2)"


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ([], "it must be pairs of an amount"),
        ([[1, 2]], "it must be pairs of an amount"),
        ([[-1, 1]], "it must be pairs of an amount"),
        ([[1, 1], [1, 0.5]], "it must be one value for each amount"),
        ([1], "Expected `array`"),
    ],
)
def test_steps_that_make_no_sense_are_refused(steps: Any, said: str) -> None:
    with pytest.raises(ScorerError, match=said):
        latency(steps=steps)
    with pytest.raises(ScorerError, match="either 'steps' or 'target' and 'limit'"):
        latency(target=1, steps=[(1, 1)])


@pytest.mark.parametrize(
    "ctx", [NOTHING, said(""), EvalContext(Trace(spans=[model("é", duration_ms=5.0)]))]
)
def test_a_trace_without_a_duration_has_no_value(ctx: EvalContext) -> None:
    score = latency(target=2, limit=10).score(ctx)
    assert (score.value, score.error) == (None, "latency is unknown: the trace has no duration")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "latency needs the options 'target' and 'limit', or else 'steps'"),
        ({"target": 2, "limit": 1}, "latency: the option 'limit' is 1.0"),
        ({"target": -2, "limit": 1}, "latency: the option 'target' is -2.0"),
        ({"target": None, "limit": 1}, "latency needs the options 'target' and 'limit'"),
        ({"target": "2s", "limit": 3}, "latency: the option 'target' is '2s'"),
    ],
)
def test_refused_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ScorerError) as refused:
        latency(**options)
    assert message in str(refused.value)
