from __future__ import annotations

from typing import Any

import pytest
from tests.scorers.contexts import NOTHING, model, ran, said, tool

from tallymark.errors import ScorerError
from tallymark.scorers.no_errors import no_errors
from tallymark.traces import Span, SpanType

OK = model("é")
STATUS = tool("search", status="error")
MESSAGE = tool("search", error="")


@pytest.mark.parametrize(
    ("spans", "value", "reason"),
    [
        ([OK], 1.0, "0 of 1 spans failed"),
        ([model("")], 1.0, "0 of 1 spans failed"),
        ([OK, OK, OK, STATUS], 0.75, "1 of 4 spans failed"),
        ([OK, MESSAGE], 0.5, "1 of 2 spans failed"),
        ([STATUS, MESSAGE], 0.0, "2 of 2 spans failed"),
    ],
)
def test_the_share_of_spans_that_went_well(spans: list[Span], value: float, reason: str) -> None:
    score = no_errors().score(ran(*spans))
    assert (score.value, score.reason) == (value, reason)


@pytest.mark.parametrize(
    ("span_type", "value", "reason"),
    [
        ("tool", 0.5, "1 of 2 tool spans failed"),
        ("generation", 1.0, "0 of 1 generation spans failed"),
    ],
)
def test_one_type_of_span_alone(span_type: SpanType, value: float, reason: str) -> None:
    score = no_errors(span_type=span_type).score(ran(OK, STATUS, tool("search")))
    assert (score.value, score.reason) == (value, reason)


def test_no_spans_are_neither_good_nor_bad() -> None:
    assert no_errors().score(NOTHING).error == "the trace has no spans"
    score = no_errors(span_type="tool").score(said("Hi"))
    assert (score.value, score.error) == (
        None,
        "the trace has no tool spans",
    )


@pytest.mark.parametrize("options", [{"span_type": "tools"}, {"span_type": 1}, {"type": "tool"}])
def test_refused_options(options: dict[str, Any]) -> None:
    with pytest.raises(ScorerError, match=next(iter(options))):
        no_errors(**options)
