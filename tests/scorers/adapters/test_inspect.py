from __future__ import annotations

import asyncio
from typing import Any

import pytest
from inspect_ai.model import (
    ChatMessageAssistant,
    ChatMessageTool,
    ModelOutput,
    ModelUsage,
    get_model,
)
from inspect_ai.scorer import (
    Score,
    Scorer,
    Target,
    exact,
    f1,
    includes,
    match,
    mean,
    model_graded_qa,
    scorer,
)
from inspect_ai.solver import TaskState
from tests.scorers.contexts import NOTHING, called, model, ran, said, tool

from tallymark.errors import ScorerError
from tallymark.scorers.adapters import from_inspect
from tallymark.scoring import EvalContext, load_scorer
from tallymark.traces import Span, Trace


@scorer(metrics=[mean()])  # type: ignore[untyped-decorator]
def gives(value: Any, **more: Any) -> Scorer:
    """Gives what it was told to."""

    async def score(state: TaskState, target: Target) -> Score | None:
        return None if value is None else Score(value=value, **more)

    return score


@pytest.mark.parametrize(
    ("given", "output", "expected", "value"),
    [
        (match(), "It is Paris", "Paris", 1.0),
        (match(), "Paris it is", "Paris", 0.0),
        (match("any"), "Paris it is", "Paris", 1.0),
        (match(numeric=True), "That makes 42.", "42", 1.0),
        (includes(), "It is PARIS!", "paris", 1.0),
        (includes(), "Lyon", ["Paris", "Lyon"], 1.0),
        (exact(), "the Paris", "Paris", 1.0),
        (f1(), "Paris France", "Paris", 0.67),
        (f1(), "", "Paris", 0.0),
        (match(), "42", 42, 1.0),
        (match(), "Paris", None, 0.0),
    ],
)
def test_it_gives_what_inspect_gives(given: Any, output: str, expected: Any, value: float) -> None:
    score = from_inspect(given).score(said(output, output=expected))
    assert score.error is None
    assert score.value == value


def test_no_spans_are_no_answer() -> None:
    score = from_inspect(match()).score(NOTHING)
    assert str(score.error).startswith("no answer was seen")


@pytest.mark.parametrize(
    ("value", "number"),
    [
        ("C", 1.0),
        ("I", 0.0),
        ("P", 0.5),
        ("N", 0.0),
        (True, 1.0),
        (False, 0.0),
        (0.25, 0.25),
        (1, 1.0),
        ("0.5", 0.5),
        ("yes", 1.0),
        ("False", 0.0),
        ({"only": "P"}, 0.5),
    ],
)
def test_values_become_numbers(value: Any, number: float) -> None:
    assert from_inspect(gives(value)).score(said("x")).value == number


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "gives gave no score"),
        ("A", "gives gave 'A', not a number"),
        ("", "not a number"),
        (float("nan"), "gives left it unscored"),
        (5, "returned 5.0 instead of a number from 0 to 1"),
        ([1, 0], "gives gave [1, 0] (list), not a number"),
        ({"a": 1, "b": 0}, "gives gave a, b; choose one with `key`"),
        ({"a": None}, "not a number"),
    ],
)
def test_what_is_no_number_is_a_failed_score(value: Any, words: str) -> None:
    score = from_inspect(gives(value)).score(said("x"))
    assert score.value is None
    assert words in str(score.error)


def test_a_key_picks_one_of_several_values() -> None:
    several = gives({"style": "I", "facts": "C"})
    assert from_inspect(several, key="facts").score(said("x")).value == 1.0
    missing = from_inspect(several, key="tone").score(said("x"))
    assert missing.error == "gives gave style, facts, but not 'tone'"


def test_explanation_answer_and_reason_are_kept() -> None:
    told = gives("N", answer="a", explanation="because", reason="refusal", metadata={"n": 1})
    score = from_inspect(told).score(said("x"))
    assert score.reason == "because"
    assert score.metadata == {"n": 1, "value": "N", "answer": "a", "reason": "refusal"}


@scorer(metrics=[mean()])  # type: ignore[untyped-decorator]
def looks(into: list[TaskState]) -> Scorer:
    async def score(state: TaskState, target: Target) -> Score:
        into.append(state)
        return Score(value=1)

    return score


def state_of(ctx: EvalContext) -> TaskState:
    seen: list[TaskState] = []
    assert from_inspect(looks(seen)).score(ctx).value == 1.0
    return seen[0]


def test_the_state_has_request_answer_and_metadata() -> None:
    spans = [model("Paris", input="Capital?", model="gpt-4o")]
    ctx = EvalContext(Trace(trace_id="t1", spans=spans), metadata={"level": 3, "choices": ["A"]})
    state = state_of(ctx)
    assert (state.input_text, state.output.completion) == ("Capital?", "Paris")
    assert (state.sample_id, str(state.model), state.completed) == ("t1", "unknown/gpt-4o", True)
    assert state.metadata["level"] == 3
    assert state.choices[0].value == "A"
    assert list(state.target) == []


def test_the_state_has_the_conversation_with_its_tool_calls() -> None:
    state = state_of(
        ran(
            model("Let me see", input="Capital?"),
            Span(span_type="retrieval", output="not a message"),
            tool("search", '{"q": "France"}', tool_output="Paris"),
            tool("pay", tool_output="", status="error", error="refused"),
            model("Paris"),
        )
    )
    assert [each.role for each in state.messages] == [
        "user",
        "assistant",
        "tool",
        "tool",
        "assistant",
    ]
    asking, found, failed = state.messages[1:4]
    assert isinstance(asking, ChatMessageAssistant)
    assert isinstance(found, ChatMessageTool)
    assert isinstance(failed, ChatMessageTool)
    calls = asking.tool_calls or []
    assert [(call.function, call.arguments) for call in calls] == [
        ("search", {"q": "France"}),
        ("pay", {}),
    ]
    assert [found.tool_call_id, failed.tool_call_id] == [call.id for call in calls]
    assert (found.text, found.error) == ("Paris", None)
    assert failed.error is not None
    assert failed.error.message == "refused"


def test_tool_calls_before_any_word_stand_alone() -> None:
    assert [each.role for each in state_of(called("search")).messages] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]


def test_a_grader_that_is_a_model_works() -> None:
    usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
    answer = ModelOutput.from_content("mockllm/model", "It is right. GRADE: C")
    answer.usage = usage  # else Inspect fetches a tokenizer to count
    grader = get_model("mockllm/model", custom_outputs=[answer])
    score = from_inspect(model_graded_qa(model=grader)).score(said("Paris", output="Paris"))
    assert score.value == 1.0
    assert "It is right" in score.reason


@pytest.mark.parametrize(
    ("given", "options"),
    [(match("any"), {}), (match, {"location": "any"}), ("match", {"location": "any"})],
)
def test_a_scorer_its_maker_and_its_name_are_the_same(given: Any, options: dict[str, Any]) -> None:
    scorer = from_inspect(given, **options)
    assert scorer.name == "match"
    assert scorer.origin.config["location"] == "any"
    assert scorer.origin.config["library"].startswith("inspect-ai ")
    assert scorer.score(said("Paris it is", output="Paris")).value == 1.0


@pytest.mark.parametrize(
    ("reference", "name"),
    [
        ('inspect(name="includes")', "includes"),
        ('inspect(scorer="match", location="any", name="found")', "found"),
    ],
)
def test_the_registry_reaches_it(reference: str, name: str) -> None:
    scorer = load_scorer(reference)
    assert scorer.name == name
    assert scorer.score(said("Paris it is", output="Paris")).value == 1.0


async def undecorated(state: TaskState, target: Target) -> Score:
    return Score(value=state.output.completion == target.text)


def test_a_scorer_without_the_decorator_works() -> None:
    scorer = from_inspect(undecorated)
    assert scorer.name == "undecorated"
    assert scorer.score(said("a", output="a")).value == 1.0


@pytest.mark.parametrize(
    ("given", "options", "words"),
    [
        ("mach", {}, "Inspect cannot make the scorer 'mach': mach was not found"),
        ("match", {"locaton": "any"}, "unexpected keyword argument 'locaton'"),
        (match(), {"location": "any"}, "were given for a scorer made before"),
        (42, {}, "Inspect cannot make the scorer 42"),
    ],
)
def test_what_cannot_be_wrapped_is_refused(given: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ScorerError, match=words):
        from_inspect(given, **options)


def test_many_at_once() -> None:
    scorer = from_inspect(includes())

    async def all_of_them() -> list[float | None]:
        contexts = [said(str(n), output="1") for n in range(20)]
        return [each.value for each in await asyncio.gather(*map(scorer.evaluate, contexts))]

    assert asyncio.run(all_of_them()) == [float("1" in str(n)) for n in range(20)]
