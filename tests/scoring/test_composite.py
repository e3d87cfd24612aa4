from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallymark.errors import FormulaError, ScorerError
from tallymark.scoring import EvalContext, Score, Scorer, composite, scorer
from tallymark.testing import mock_context
from tallymark.traces import Span, Trace

CTX = EvalContext(Trace())


def _gives(name: str, raw: Any, **facts: Any) -> Scorer:
    return Scorer(lambda ctx: raw, name=name, **{"blocking": False, **facts})


def _fails(name: str) -> Scorer:
    return _gives(name, Score.failed("no network"))


A, B, C = _gives("a", 0.2), _gives("b", 0.8), _gives("c", 1.0)


@pytest.mark.parametrize(
    ("parts", "value"),
    [
        ([A], 0.2),
        ([A, B], 0.5),
        ([(A, 1), (B, 3)], 0.65),
        ([(A, 0), (B, 3)], 0.8),
        ([{"scorer": A, "weight": 1}, {"scorer": B, "weight": 3}], 0.65),
        ([{"scorer": A}, (B, 3), C], (0.2 + 2.4 + 1) / 5),
        ([(A, 1e308), (B, 1e308)], 0.5),
        ([(A, 5e-324), (B, 5e-324)], 0.5),
    ],
)
def test_values_are_combined_by_weight(parts: Any, value: float) -> None:
    assert composite(parts).score(CTX).value == pytest.approx(value, rel=1e-12)


def test_the_documents_example() -> None:
    """word_count and sentiment as the document has them, on the output that it tests with."""

    def word_count(ctx: EvalContext) -> dict[str, Any]:
        words = len(ctx.output.split())
        value = words / 20 if words < 20 else 1.0
        return {"value": value, "reason": f"Response has {words} words"}

    def sentiment(ctx: EvalContext) -> dict[str, Any]:
        return {"value": 0.5, "reason": "Neutral sentiment"}

    def tool_params(ctx: EvalContext) -> dict[str, Any]:
        return {"value": 0, "reason": "No tool calls found"}

    quality = composite(
        [
            {"scorer": Scorer(word_count, name="word_count"), "weight": 0.3},
            {"scorer": Scorer(sentiment, name="sentiment"), "weight": 0.3},
            {"scorer": Scorer(tool_params, name="tool_params"), "weight": 0.4},
        ]
    )
    output = "one two three four five six seven eight nine ten eleven twelve thirteen four five s v"
    ctx = EvalContext(Trace(spans=[Span(span_type="generation", output=output)]))
    score = asyncio.run(quality.evaluate(ctx))
    assert score.value == pytest.approx(0.3 * 0.85 + 0.3 * 0.5)
    assert score.reason == "word_count: 0.85, sentiment: 0.50, tool_params: 0.00"
    assert (quality.name, quality.description) == ("composite", "Weighted combination of scorers")
    assert score.metadata["breakdown"][0] == {
        "name": "word_count",
        "value": 0.85,
        "weight": 0.3,
        "reason": "Response has 17 words",
        "error": None,
        "metadata": {},
    }


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.125, "0.13"), (0.375, "0.38"), (0.285, "0.28"), (1.0, "1.00"), (0.0, "0.00")],
)
def test_the_reason_rounds_as_javascript_does(value: float, text: str) -> None:
    assert composite([_gives("x", value)]).score(CTX).reason == f"x: {text}"


weights = st.floats(0, 1e6)
parts = st.lists(st.tuples(st.floats(0, 1), weights), min_size=1, max_size=6).filter(
    lambda pairs: any(weight > 1e-6 for _, weight in pairs)
)


def _value(pairs: list[tuple[float, float]]) -> float:
    scorers = [(_gives(f"p{i}", value), weight) for i, (value, weight) in enumerate(pairs)]
    value = composite(scorers).score(CTX).value
    assert value is not None
    return value


@given(parts)
def test_the_whole_lies_between_its_parts(pairs: list[tuple[float, float]]) -> None:
    values = [value for value, weight in pairs if weight > 0]
    assert min(values) <= _value(pairs) <= max(values)


@given(parts, st.floats(1e-3, 1e6))
def test_only_the_ratio_of_weights_matters(pairs: list[tuple[float, float]], factor: float) -> None:
    scaled = [(value, weight * factor) for value, weight in pairs]
    assert math.isclose(_value(scaled), _value(pairs), rel_tol=1e-9, abs_tol=1e-12)


@given(parts)
def test_the_order_of_parts_does_not_matter(pairs: list[tuple[float, float]]) -> None:
    assert math.isclose(_value(pairs[::-1]), _value(pairs), rel_tol=1e-12, abs_tol=1e-300)


@pytest.mark.parametrize(
    ("on_error", "value", "marks"),
    [
        ("skip", 0.8, {"skipped": ["bad"]}),
        (0, 0.6, {"counted_as_zero": ["bad"]}),
    ],
)
def test_a_failed_part_is_handled_as_asked(on_error: Any, value: float, marks: Any) -> None:
    whole = composite([(_fails("bad"), 1), (B, 3)], on_error=on_error)
    score = whole.score(CTX)
    assert score.value == pytest.approx(value)
    assert score.reason == "bad: failed, b: 0.80"
    assert score.metadata["breakdown"][0]["error"] == "no network"
    assert marks.items() <= score.metadata.items()


def test_a_skipped_part_takes_its_weight_with_it() -> None:
    whole = composite([(_fails("bad"), 4), (A, 1), (B, 3)], on_error="skip")
    assert whole.score(CTX).value == pytest.approx(0.65)
    zero = composite([(_fails("bad"), 4), (A, 1), (B, 3)], on_error=0)
    assert zero.score(CTX).value == pytest.approx(0.325)


@pytest.mark.parametrize("value", [0.8, 0.9])
def test_rounding_does_not_carry_a_mean_past_its_parts(value: float) -> None:
    # In floats (1/7 x 0.8 + 0.8) / (1/7 + 1) is 0.8000000000000002, and of 0.9 it is less.
    whole = composite([(_gives("x", value), 1), (_gives("y", value), 7)])
    assert whole.score(CTX).value == value


def test_by_default_a_failed_part_fails_the_whole_and_the_breakdown_stays() -> None:
    score = composite([_fails("bad"), B, _fails("worse")]).score(CTX)
    assert score.value is None
    assert score.error == "bad failed: no network; worse failed: no network"
    assert [line["value"] for line in score.metadata["breakdown"]] == [None, 0.8, None]


def test_skipping_every_part_fails() -> None:
    score = composite([_fails("bad")], on_error="skip").score(CTX)
    assert score.error == "bad failed: no network"


def test_counting_every_part_as_zero_gives_zero() -> None:
    assert composite([_fails("bad")], on_error=0).score(CTX).value == 0.0


def test_skipping_all_parts_that_have_weight_fails() -> None:
    score = composite([(_fails("bad"), 1), (B, 0)], on_error="skip").score(CTX)
    assert score.error == "every part that has a value has weight 0"


def test_a_label_without_a_number_counts_as_failed() -> None:
    tone = _gives("tone", "warm", data_type="categorical")
    assert composite([tone, B]).score(CTX).error == "tone failed: its label 'warm' has no number"


def test_parts_run_at_the_same_time() -> None:
    async def main() -> float | None:
        both = asyncio.Barrier(2)

        async def meets(ctx: EvalContext) -> bool:
            await both.wait()
            return True

        whole = composite([Scorer(meets, name="x"), Scorer(meets, name="y")])
        return (await asyncio.wait_for(whole.evaluate(CTX), 30)).value

    assert asyncio.run(main()) == 1.0


def test_a_composite_of_inline_parts_is_inline_itself() -> None:
    assert composite([A, B]).inline
    assert not composite([A, Scorer(lambda ctx: 1, name="may_block")]).inline


def test_composites_nest() -> None:
    inner = composite([A, B], name="inner")
    score = composite([(inner, 1), (C, 1)]).score(CTX)
    assert score.value == pytest.approx(0.75)
    assert len(score.metadata["breakdown"][0]["metadata"]["breakdown"]) == 2


def test_the_origin_has_parts_weights_and_code_hash() -> None:
    first = composite([(A, 1), (B, 3)], threshold=0.9)
    assert first.threshold == 0.9
    assert first.origin.config == {
        "parts": [
            {"name": "a", "config": {}, "weight": 1.0},
            {"name": "b", "config": {}, "weight": 3.0},
        ],
        "on_error": "fail",
        "formula": None,
    }
    other = Scorer(lambda ctx: 0.2 if ctx.output else 0.3, name="a", blocking=False)
    assert composite([(other, 1), (B, 3)]).origin.version != first.origin.version


@pytest.mark.parametrize(
    ("formula", "value"),
    [("a * b", 0.16), ("min(a, b)", 0.2), ("if(a > 0.5, 0, c)", 1.0), ("0.5 * a + 0.5 * b", 0.5)],
)
def test_a_formula_combines_the_parts_by_name(formula: str, value: float) -> None:
    score = composite([A, B, C], formula=formula).score(CTX)
    assert score.value == pytest.approx(value)
    assert score.metadata["breakdown"][0]["weight"] is None


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        ("a + b + c", "the formula 'a + b + c' gave 2, which is not from 0 to 1"),
        ("a - b", "the formula 'a - b' gave -0.6, which is not from 0 to 1"),
        ("c + 0.0001", "gave 1.0001, which is not from 0 to 1"),
        ("c - 1.0001", "gave -0.0001, which is not from 0 to 1"),
        ("a / (c - 1)", "the formula 'a / (c - 1)' has no value: "),
    ],
)
def test_a_formula_without_a_usable_result_is_a_failed_score(formula: str, message: str) -> None:
    error = composite([A, B, C], formula=formula).score(CTX).error
    assert error is not None
    assert message in error


@pytest.mark.parametrize(
    ("formula", "on_error", "value"),
    [("b + bad", "skip", None), ("b", "skip", 0.8), ("b + bad", 0, 0.8), ("b", "fail", None)],
)
def test_a_formula_over_a_failed_part(formula: str, on_error: Any, value: float | None) -> None:
    score = composite([_fails("bad"), B], formula=formula, on_error=on_error).score(CTX)
    assert score.value == value
    assert score.ok is (value is not None)


def test_a_formula_with_an_unknown_name_is_refused_at_once() -> None:
    with pytest.raises(FormulaError):
        composite([A, B], formula="a + nothing")


@pytest.mark.parametrize(
    ("parts", "options", "message"),
    [
        ([], {}, "composite: a composite needs at least one part"),
        ([A, A], {}, "composite: more than one part is named a; give one another name"),
        ([A, B, A, B], {"name": "q"}, "q: more than one part is named a, b"),
        ([(A, -1)], {}, "composite: the weight of a is -1; it must be 0 or more"),
        ([(A, math.nan)], {}, "composite: the weight of a is nan; it must be 0 or more"),
        ([(A, math.inf)], {}, "composite: the weight of a is inf; it must be 0 or more"),
        ([(A, "1")], {}, "composite: the weight of a is '1', not a number"),
        ([(A, True)], {}, "composite: the weight of a is True, not a number"),
        ([(A, 0), (B, 0)], {}, "composite: every weight is 0; at least one must be more"),
        ([A, lambda ctx: 1], {}, "composite: part 2 is <function"),
        ([(A, 1, 2)], {}, "composite: part 1 is (Scorer('a'), 1, 2) (tuple), not a scorer"),
        ([{"scorer": A, "wieght": 1}], {}, "part 1 must have the keys 'scorer' and 'weight'"),
        ([{"weight": 1}], {}, "composite: part 1 must have the keys 'scorer' and 'weight'"),
        ([A], {"on_error": "ignore"}, "composite: on_error is 'ignore'; use"),
        ([A], {"on_error": False}, "composite: on_error is False; use"),
        ([(A, 2), B], {"formula": "a"}, "composite: a has a weight, but the formula alone"),
    ],
)
def test_what_cannot_be_combined_is_refused(
    parts: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ScorerError) as caught:
        composite(parts, **options)
    assert message in str(caught.value)


def test_parts_may_be_named() -> None:
    ctx = mock_context("Hello world", tools=["a"])
    made = composite(["word_count", ("contains(values=['world'])", 3), {"scorer": "no_errors"}])
    assert made.score(ctx).value == pytest.approx((0.1 + 3 + 1) / 5)
    with pytest.raises(ScorerError, match="there is no scorer 'word_cuont'"):
        composite(["word_cuont"])


def several(ctx: EvalContext) -> dict[str, float]:
    return {"tone": 0.5, "facts": 1.0}


def test_a_part_that_gives_several_scores_counts_with_their_mean() -> None:
    part = scorer(gives=["tone", "facts"])(several)
    full = scorer(name="full")(lambda ctx: 1.0)
    score = composite([(part, 2), (full, 1)]).score(mock_context())
    assert score.value == pytest.approx((2 * 0.75 + 1) / 3)
    assert score.metadata["breakdown"][0]["reason"] == "tone: 0.50, facts: 1.00"
    by_formula = composite([part, full], formula="min(tone, facts) * full")
    assert by_formula.score(mock_context()).value == 0.5


def test_one_of_several_that_failed_fails_its_part() -> None:
    part = scorer(name="q", gives=["tone", "facts"])(lambda output: {"tone": 0.5})
    assert "facts" in (composite([part]).score(mock_context()).error or "")
