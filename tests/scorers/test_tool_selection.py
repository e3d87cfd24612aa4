from __future__ import annotations

from typing import Any

import pytest
from tests.scorers.contexts import NOTHING, called, said

from tallymark.errors import ScorerError
from tallymark.scorers.tool_selection import tool_selection
from tallymark.scoring import EvalContext


@pytest.mark.parametrize(
    ("calls", "expected", "recall", "precision", "f1", "reason"),
    [
        (["a", "b"], ["a", "b"], 1, 1, 1, "Exactly the expected tools were called"),
        (["b", "a", "a"], ["a", "b"], 1, 1, 1, "Exactly the expected tools were called"),
        (["a"], ["a", "b"], 0.5, 1, 2 / 3, "Not called: b"),
        (["a", "b"], ["a"], 1, 0.5, 2 / 3, "Not expected: b"),
        (["a", "c"], ["a", "b"], 0.5, 0.5, 0.5, "Not called: b; Not expected: c"),
        (["c"], ["a"], 0, 0, 0, "Not called: a; Not expected: c"),
        ([], ["a"], 0, 0, 0, "Not called: a"),
        ([], [], 1, 1, 1, "Exactly the expected tools were called"),
        (["a"], [], 1, 0, 0, "Not expected: a"),
        (["suche_ü"], ["suche_ü"], 1, 1, 1, "Exactly the expected tools were called"),
    ],
)
def test_each_metric(
    calls: list[str], expected: list[str], recall: float, precision: float, f1: float, reason: str
) -> None:
    ctx = called(*calls, tool_calls=expected)
    known = {"recall": recall, "precision": precision, "f1": f1}
    assert tool_selection().score(ctx).reason == reason
    assert tool_selection().score(ctx).value == pytest.approx(f1)
    assert tool_selection(metric="recall").score(ctx).value == recall
    assert tool_selection(metric="precision").score(ctx).value == precision
    assert tool_selection().score(ctx).metadata == pytest.approx(known)


@pytest.mark.parametrize(
    ("calls", "expected", "f1", "reason"),
    [
        (["a", "a"], ["a", "a"], 1.0, "Exactly the expected tools were called"),
        (["a"], ["a", "a"], 2 / 3, "Not called: a"),
        (["a", "a", "a"], ["a"], 0.5, "Not expected: a, a"),
    ],
)
def test_repeats_count_when_asked_for(
    calls: list[str], expected: list[str], f1: float, reason: str
) -> None:
    score = tool_selection(count_repeats=True).score(called(*calls, tool_calls=expected))
    assert score.value == pytest.approx(f1)
    assert score.reason == reason


@pytest.mark.parametrize(
    ("options", "calls", "value"),
    [
        ({"extra_penalty": 0.25}, ["a", "b"], 1.0),
        ({"extra_penalty": 0.25, "metric": "recall"}, ["a", "b", "c", "d"], 0.5),
        ({"extra_penalty": 1.0, "metric": "recall"}, ["a", "b", "c", "d"], 0.0),
        ({"categories": {"letters": ["a", "c"]}}, ["c", "b"], 1.0),
        ({"categories": {"b": ["other"]}}, ["a", "other"], 1.0),
        ({"steps": [[1, 1], [0.5, 0.3]], "metric": "recall"}, ["a", "b"], 1.0),
        ({"steps": [[1, 1], [0.5, 0.3]], "metric": "recall"}, ["a"], 0.3),
        ({"steps": [[1, 1], [0.6, 0.3]], "metric": "recall"}, ["a"], 0.0),
    ],
)
def test_penalty_categories_and_steps(options: Any, calls: list[str], value: float) -> None:
    score = tool_selection(**options).score(called(*calls, tool_calls=["a", "b"]))
    assert score.value == pytest.approx(value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"extra_penalty": 2}, "it must be from 0 to 1"),
        ({"categories": {"x": []}}, "of at least one tool each"),
        ({"categories": {"x": ["a"], "y": ["a"]}}, "'a' is in 'x' and 'y'"),
        ({"steps": []}, "pairs of an amount"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: Any, said: str) -> None:
    with pytest.raises(ScorerError, match=said):
        tool_selection(**options)


def test_expected_calls_may_be_mappings() -> None:
    ctx = called("a", tool_calls=[{"name": "a", "arguments": {"x": 1}}])
    assert tool_selection().score(ctx).value == 1.0


@pytest.mark.parametrize("ctx", [NOTHING, said("Hi"), called("a"), called("a", tool_calls=None)])
def test_nothing_expected_is_no_zero(ctx: EvalContext) -> None:
    score = tool_selection().score(ctx)
    assert score.value is None
    assert score.error == "tool_selection needs expected.tool_calls, and none was given"


@pytest.mark.parametrize("options", [{"metric": "f2"}, {"metric": None}, {"count_repeats": "no"}])
def test_refused_options(options: dict[str, Any]) -> None:
    with pytest.raises(ScorerError, match=next(iter(options))):
        tool_selection(**options)
