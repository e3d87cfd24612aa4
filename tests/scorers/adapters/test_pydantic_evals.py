from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from pydantic_evals.evaluators import (
    Contains,
    Equals,
    EqualsExpected,
    EvaluationReason,
    Evaluator,
    EvaluatorContext,
    HasMatchingSpan,
    IsInstance,
    MaxDuration,
    MaxModelRequests,
    MaxToolCalls,
    ToolCorrectness,
    TrajectoryMatch,
)
from pydantic_evals.evaluators.agentic import ArgumentCorrectness
from tests.scorers.contexts import model, ran, said, tool

from tallymark.errors import ScorerError
from tallymark.scorers.adapters import from_pydantic_evals
from tallymark.scorers.adapters.pydantic_evals_context import make_evaluator_context, make_span_tree
from tallymark.scoring import EvalContext, load_scorer
from tallymark.traces import Span, Trace

SLOW = EvalContext(Trace(duration_ms=1500, spans=[model("done")]))


@dataclass
class Gives(Evaluator[Any, Any, Any]):
    """Gives what it was told to."""

    what: Any

    def evaluate(self, ctx: EvaluatorContext[Any, Any, Any]) -> Any:
        return self.what


@pytest.mark.parametrize(
    ("evaluator", "ctx", "value"),
    [
        (Equals("yes"), said("yes"), 1.0),
        (Equals("yes"), said("no"), 0.0),
        (EqualsExpected(), said("yes", output="yes"), 1.0),
        (EqualsExpected(), said("", output="yes"), 0.0),
        (Contains("REF", case_sensitive=False), said("a refund"), 1.0),
        (IsInstance("str"), said("text"), 1.0),
        (IsInstance("dict"), said("text"), 0.0),
        (MaxDuration(1), SLOW, 0.0),
        (MaxDuration(2), SLOW, 1.0),
    ],
)
def test_it_gives_what_pydantic_evals_gives(evaluator: Any, ctx: EvalContext, value: float) -> None:
    score = from_pydantic_evals(evaluator).score(ctx)
    assert score.error is None
    assert score.value == value


AGENT = ran(
    model("Let me see", model="gpt-4o"),
    Span(span_type="tool", name="search", tool_input='{"q": "refund", "n": 3}'),
    tool("pay", '{"to": "alice"}', status="error"),
    tool("pay", '{"to": "bob"}'),
    model("Done", model="gpt-4o"),
)


@pytest.mark.parametrize(
    ("evaluator", "value"),
    [
        (ToolCorrectness(["search", "pay"]), 1.0),
        (ToolCorrectness(["search"]), 0.0),
        (ToolCorrectness(["search", "pay", "pay"], include_failed=True), 1.0),
        (TrajectoryMatch(["search", "pay"], order="exact"), 1.0),
        (TrajectoryMatch(["pay", "search"], order="exact"), 0.0),
        (ArgumentCorrectness("search", {"q": "refund"}), 1.0),
        (ArgumentCorrectness("pay", {"to": "bob"}), 1.0),
        (ArgumentCorrectness("pay", {"to": "alice"}), 0.0),
        (MaxToolCalls(3), 1.0),
        (MaxToolCalls(2), 0.0),
        (MaxModelRequests(2), 1.0),
        (MaxModelRequests(1), 0.0),
        (HasMatchingSpan({"has_status": "error"}), 1.0),
        (HasMatchingSpan({"name_equals": "nowhere"}), 0.0),
        (HasMatchingSpan({"has_attributes": {"gen_ai.request.model": "gpt-4o"}}), 1.0),
    ],
)
def test_agentic_evaluators_see_the_trace(evaluator: Any, value: float) -> None:
    score = from_pydantic_evals(evaluator).score(AGENT)
    assert score.value == value, score


@pytest.mark.parametrize(
    ("what", "value", "reason"),
    [
        (True, 1.0, ""),
        (False, 0.0, ""),
        (0.25, 0.25, ""),
        (1, 1.0, ""),
        (EvaluationReason(0.5, "half"), 0.5, "half"),
        (EvaluationReason(True), 1.0, ""),
        ({"only": True}, 1.0, ""),
        ({"only": EvaluationReason(False, "no")}, 0.0, "no"),
    ],
)
def test_results_become_scores(what: Any, value: float, reason: str) -> None:
    score = from_pydantic_evals(Gives(what)).score(said("x"))
    assert (score.value, score.reason) == (value, reason)


@pytest.mark.parametrize(
    ("what", "words"),
    [
        (5, "returned 5.0 instead of a number from 0 to 1"),
        ("good", "Gives gave the label 'good'; give it a number with `labels`"),
        ({}, "Gives gave no result"),
        ({"a": 1, "b": 0}, "Gives gave a, b; choose one with `key`"),
        (None, "gave no value"),
        ([1], "not [1]"),
        (float("nan"), "finite number, not nan"),
    ],
)
def test_what_is_no_score_is_a_failed_one(what: Any, words: str) -> None:
    score = from_pydantic_evals(Gives(what)).score(said("x"))
    assert score.value is None
    assert words in str(score.error)


def test_nothing_expected_is_a_failed_score_and_not_a_zero() -> None:
    score = from_pydantic_evals(EqualsExpected()).score(said("x"))
    assert score.error == "EqualsExpected gave no result"


def test_a_key_picks_one_of_several_results_and_keeps_the_others() -> None:
    several = Gives({"style": 0.2, "facts": EvaluationReason(0.9, "all there")})
    score = from_pydantic_evals(several, key="facts").score(said("x"))
    assert (score.value, score.reason) == (0.9, "all there")
    assert score.metadata == {"results": {"style": 0.2, "facts": 0.9}}


def test_labels_get_numbers() -> None:
    scorer = from_pydantic_evals(Gives("good"), labels={"good": 1.0, "bad": 0.0})
    score = scorer.score(said("x"))
    assert (score.value, score.label) == (1.0, "good")


@dataclass
class Waits(Evaluator[Any, Any, Any]):
    async def evaluate(self, ctx: EvaluatorContext[Any, Any, Any]) -> bool:
        return bool(ctx.output == "x")


def test_an_async_evaluator_is_waited_for() -> None:
    scorer = from_pydantic_evals(Waits)
    assert scorer.is_async
    assert scorer.score(said("x")).value == 1.0


def test_an_evaluator_of_the_users_own_may_block() -> None:
    assert from_pydantic_evals(Gives(1)).blocking
    assert from_pydantic_evals(Equals(1)).inline


def test_an_evaluator_that_raises_is_a_failed_score() -> None:
    @dataclass
    class Raises(Evaluator[Any, Any, Any]):
        def evaluate(self, ctx: EvaluatorContext[Any, Any, Any]) -> bool:
            raise KeyError("x")

    error = from_pydantic_evals(Raises()).score(said("x")).error or ""
    assert error.startswith("raises raised KeyError: 'x' (at test_pydantic_evals.py:")


@pytest.mark.parametrize("given", [Contains("b"), Contains, "Contains"])
def test_an_instance_a_class_and_a_name_are_the_same(given: Any) -> None:
    options: dict[str, Any] = {} if isinstance(given, Contains) else {"value": "b"}
    scorer = from_pydantic_evals(given, **options)
    assert scorer.name == "contains"
    assert scorer.origin.config["value"] == "b"
    assert scorer.origin.config["library"].startswith("pydantic-evals ")
    assert scorer.score(said("abc")).value == 1.0


def test_its_own_evaluation_name_is_the_name() -> None:
    assert from_pydantic_evals(Equals(1, evaluation_name="Right Number")).name == "right_number"


@pytest.mark.parametrize(
    ("reference", "name"),
    [
        ('pydantic_evals(name="EqualsExpected")', "equals_expected"),
        ('pydantic_evals(evaluator="Contains", value="b", name="has_b")', "has_b"),
    ],
)
def test_the_registry_reaches_it(reference: str, name: str) -> None:
    scorer = load_scorer(reference)
    assert scorer.name == name
    assert scorer.score(said("b", output="b")).value == 1.0


@pytest.mark.parametrize(
    ("given", "options", "words"),
    [
        ("Contans", {"value": "x"}, "did you mean 'Contains'"),
        ("Contains", {}, "Contains cannot be made: TypeError"),
        (Contains("x"), {"value": "y"}, "which has its own"),
        (42, {}, "is not an evaluator of pydantic-evals"),
    ],
)
def test_what_cannot_be_wrapped_is_refused(given: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ScorerError, match=words):
        from_pydantic_evals(given, **options)


def test_the_context_has_the_facts_of_test_and_trace() -> None:
    spans = [model("out", input="in", cost=0.5, input_tokens=10)]
    trace = Trace(name="case 1", duration_ms=250, metadata={"a": 1}, spans=spans)
    seen = make_evaluator_context(EvalContext(trace, metadata={"level": 3}))
    assert (seen.name, seen.inputs, seen.output, seen.duration) == ("case 1", "in", "out", 0.25)
    assert (seen.metadata, seen.attributes, seen.expected_output) == ({"level": 3}, {"a": 1}, None)
    assert seen.metrics == {"requests": 1, "cost": 0.5, "input_tokens": 10}


def test_the_span_tree_keeps_the_hierarchy_and_the_order() -> None:
    spans = [
        Span(span_id="root", name="agent", start_ms=5, duration_ms=10),
        Span(span_id="b", parent_id="root", name="second", start_ms=8),
        Span(span_id="a", parent_id="root", name="first", start_ms=6, metadata={"k": "v"}),
    ]
    (root,) = make_span_tree(Trace(spans=spans)).roots
    assert [child.name for child in root.children] == ["first", "second"]
    assert root.children[0].attributes == {"k": "v"}
    assert root.duration.total_seconds() == 0.01


def test_parents_that_form_a_circle_end() -> None:
    spans = [Span(span_id="a", parent_id="b", name="a"), Span(span_id="b", parent_id="a", name="b")]
    tree = make_span_tree(Trace(spans=spans))
    assert [(root.name, [each.name for each in root.descendants]) for root in tree.roots] == [
        ("a", ["b"])
    ]


def test_spans_without_ids_are_siblings() -> None:
    tree = make_span_tree(ran(model("x"), tool("search"), tool("search")).trace)
    assert len(tree.roots) == 3
