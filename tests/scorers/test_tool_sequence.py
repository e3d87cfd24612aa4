from __future__ import annotations

from typing import Any

import pytest
from tests.scorers.contexts import NOTHING, called, said

from tallymark.errors import ScorerError
from tallymark.scorers.tool_sequence import tool_sequence
from tallymark.scoring import EvalContext


@pytest.mark.parametrize(
    ("calls", "expected", "similar", "exact", "in_order", "any_order"),
    [
        ("abc", "abc", 1, 1, 1, 1),
        ("axbc", "abc", 0.75, 0, 1, 1),
        ("acb", "abc", 2 / 3, 0, 0, 1),
        ("cba", "abc", 1 / 3, 0, 0, 1),
        ("ab", "abc", 2 / 3, 0, 0, 0),
        ("aab", "ab", 2 / 3, 0, 1, 1),
        ("ab", "aab", 2 / 3, 0, 0, 0),
        ("xyz", "abc", 0, 0, 0, 0),
        ("", "abc", 0, 0, 0, 0),
        ("", "", 1, 1, 1, 1),
        ("a", "", 0, 0, 1, 1),
        ("äöü", "äöü", 1, 1, 1, 1),
    ],
)
def test_each_mode(
    calls: str, expected: str, similar: float, exact: float, in_order: float, any_order: float
) -> None:
    ctx = called(*calls, tool_calls=list(expected))
    assert tool_sequence().score(ctx).value == pytest.approx(similar)
    assert tool_sequence(mode="exact").score(ctx).value == exact
    assert tool_sequence(mode="in_order").score(ctx).value == in_order
    assert tool_sequence(mode="any_order").score(ctx).value == any_order


@pytest.mark.parametrize(
    ("calls", "expected", "reason"),
    [
        ("ab", "ab", "Called a > b, as expected"),
        ("ab", "ba", "Called a > b; expected b > a"),
        ("", "a", "Called no tool; expected a"),
        ("", "", "Called no tool, as expected"),
        ("a" * 10, "b", f"Called {'a > ' * 8}and 2 more; expected b"),
    ],
)
def test_the_reason_shows_both_sequences(calls: str, expected: str, reason: str) -> None:
    assert tool_sequence().score(called(*calls, tool_calls=list(expected))).reason == reason


@pytest.mark.parametrize("ctx", [NOTHING, said("Hi"), called("a")])
def test_nothing_expected_is_no_zero(ctx: EvalContext) -> None:
    score = tool_sequence().score(ctx)
    assert score.value is None
    assert score.error == "tool_sequence needs expected.tool_calls, and none was given"


@pytest.mark.parametrize("options", [{"mode": "strict"}, {"mode": None}, {"order": "exact"}])
def test_refused_options(options: dict[str, Any]) -> None:
    with pytest.raises(ScorerError, match=next(iter(options))):
        tool_sequence(**options)


def test_penalty_categories_and_steps() -> None:
    ctx = called("google", "refund", "mail", tool_calls=["search", "refund"])
    rule: dict[str, Any] = {"mode": "in_order", "categories": {"search": ["google"]}}
    assert tool_sequence(**rule).score(ctx).value == 1.0
    assert tool_sequence(**rule, extra_penalty=0.25).score(ctx).value == 0.75
    assert tool_sequence(steps=[(0.3, 0.5), (0.9, 1.0)]).score(ctx).value == 0.5
