from __future__ import annotations

from typing import Any

import pytest
from tests.scorers.contexts import NOTHING, model, ran, said, tool

from tallymark.errors import ScorerError
from tallymark.scorers.recovery import recovery
from tallymark.scoring import EvalContext
from tallymark.traces import Span

FAILED = tool("search", error="no network")
FINE = tool("search", "{}")
MODEL_FAILED = model(status="error")
MODEL_FINE = model("Grüße")
LOOKED_UP = Span(span_type="retrieval", name="docs")
NOT_LOOKED_UP = Span(span_type="retrieval", name="docs", error="gone")


@pytest.mark.parametrize(
    ("spans", "value", "reason"),
    [
        ([FAILED, FINE], 1.0, "Recovered from 1 of 1 errors"),
        ([FAILED, FAILED, FINE], 1.0, "Recovered from 2 of 2 errors"),
        ([FINE, FAILED], 0.0, "Recovered from 0 of 1 errors (not: search)"),
        ([FAILED, FINE, FAILED], 0.5, "Recovered from 1 of 2 errors (not: search)"),
        ([FAILED, tool("mail")], 0.0, "Recovered from 0 of 1 errors (not: search)"),
        ([FAILED, MODEL_FINE], 0.0, "Recovered from 0 of 1 errors (not: search)"),
        ([MODEL_FAILED, MODEL_FINE], 1.0, "Recovered from 1 of 1 errors"),
        ([MODEL_FAILED, FINE], 0.0, "Recovered from 0 of 1 errors (not: generation)"),
        ([NOT_LOOKED_UP, LOOKED_UP], 1.0, "Recovered from 1 of 1 errors"),
        (
            [tool("zahl_ö", error="x"), FAILED, MODEL_FAILED, MODEL_FINE],
            1 / 3,
            "Recovered from 1 of 3 errors (not: zahl_ö, search)",
        ),
        # A step that only holds the failed call is not another failure.
        ([Span(name="agent", status="error"), FAILED, FINE], 1.0, "Recovered from 1 of 1 errors"),
    ],
)
def test_the_share_of_failures_made_good(spans: list[Span], value: float, reason: str) -> None:
    score = recovery().score(ran(*spans))
    assert (score.value, score.reason) == (value, reason)


NO_CALLS = [NOTHING, ran(Span(span_type="event", error="x"))]
CLEAN = [said(""), ran(FINE)]


@pytest.mark.parametrize("ctx", NO_CALLS + CLEAN)
def test_where_nothing_failed_there_is_nothing_to_measure(ctx: EvalContext) -> None:
    score = recovery().score(ctx)
    assert score.value is None
    assert score.error is not None
    assert "recovery has nothing to measure: no call of the trace failed" in score.error
    assert ("recovery(no_errors=1)" in score.error) == (ctx in CLEAN)


@pytest.mark.parametrize("ctx", NO_CALLS)
def test_without_any_call_the_score_fails(ctx: EvalContext) -> None:
    assert recovery(no_errors=1).score(ctx).value is None


@pytest.mark.parametrize("ctx", CLEAN)
@pytest.mark.parametrize("value", [0, 0.5, 1])
def test_or_the_value_that_the_user_gives(ctx: EvalContext, value: float) -> None:
    score = recovery(no_errors=value).score(ctx)
    assert (score.value, score.reason) == (value, "No errors")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"no_errors": -0.1}, "recovery: the option 'no_errors' is -0.1"),
        ({"no_errors": 2}, "recovery: the option 'no_errors' is 2.0; it must be from 0 to 1"),
        ({"no_errors": float("nan")}, "'no_errors' is nan"),
        ({"no_errors": "full"}, "the option 'no_errors' is 'full'"),
    ],
)
def test_refused_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ScorerError) as refused:
        recovery(**options)
    assert message in str(refused.value)
