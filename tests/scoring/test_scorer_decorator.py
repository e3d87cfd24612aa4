from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tallymark.errors import ScorerError
from tallymark.scoring import EvalContext, Scorer, configurable, scorer
from tallymark.traces import Span, Trace

CTX = EvalContext(Trace(spans=[Span(span_type="generation", output="a refund, sorry")]))


@scorer
def polite(ctx: EvalContext) -> bool:
    """Says sorry.

    More about it.
    """
    return "sorry" in ctx.output


@scorer(
    name="tone-of-voice",
    description="How it sounds",
    threshold=0.5,
    labels={"warm": 1.0, "cold": 0.0},
)
async def tone(ctx: EvalContext) -> str:
    return "warm"


class KeywordMatch:
    """The share of keywords that the output has."""

    def __init__(self, keywords: list[str], min_match: int = 1) -> None:
        self.keywords = keywords
        self.min_match = min_match

    def evaluate(self, ctx: EvalContext) -> float:
        found = [word for word in self.keywords if word in ctx.output]
        return len(found) / len(self.keywords) if len(found) >= self.min_match else 0.0


# mypy does not follow decorators of classes, so tests that look at types call `scorer`.
keyword_match = scorer(name="keyword_match", blocking=False)(KeywordMatch)


@scorer
class Quarter:
    async def __call__(self, ctx: EvalContext) -> float:
        return 0.25


@dataclass
class EndsWith:
    ending: str
    name: str = "ends_with"

    @property
    def description(self) -> str:
        return f"Ends with {self.ending}"

    def evaluate(self, ctx: EvalContext) -> bool:
        return str(ctx.output).endswith(self.ending)


ends_with = scorer(EndsWith)


@configurable(blocking=False, labels={"short": 1.0, "long": 0.0})
def length(most: int = 10) -> Callable[[EvalContext], str]:
    """Whether the output is short."""
    return lambda ctx: "short" if len(ctx.output) <= most else "long"


@configurable
def has_word(word: str) -> Scorer:
    @scorer(name=f"has_{word}", description=f"Has {word}")
    def made(ctx: EvalContext) -> bool:
        return word in ctx.output

    return made


def test_a_bare_decorator_takes_name_and_description_from_the_function() -> None:
    assert isinstance(polite, Scorer)
    assert (polite.name, polite.description) == ("polite", "Says sorry.")
    assert (polite.data_type, polite.threshold) == ("numeric", None)
    assert polite(CTX) is True
    assert polite.score(CTX).value == 1.0


def test_a_decorator_with_arguments_uses_them() -> None:
    assert (tone.name, tone.description) == ("tone-of-voice", "How it sounds")
    assert (tone.data_type, tone.threshold) == ("categorical", 0.5)
    score = asyncio.run(tone.evaluate(CTX))
    assert (score.value, score.label) == (1.0, "warm")


def test_a_class_builds_scorers_that_remember_their_options() -> None:
    made = keyword_match(["refund", "credit"])
    assert isinstance(made, Scorer)
    assert (made.name, made.inline) == ("keyword_match", True)
    assert made.description == "The share of keywords that the output has."
    score = made.score(CTX)
    assert score.value == 0.5
    assert score.origin is not None
    assert score.origin.config == {"keywords": ["refund", "credit"], "min_match": 1}


def test_instances_of_one_class_share_its_code_hash() -> None:
    first, second = keyword_match(["a"]), keyword_match(["b"])
    assert first.origin.version == second.origin.version
    assert first.origin != second.origin


def test_a_class_with_a_call_method_is_a_scorer_too() -> None:
    made: Any = Quarter()
    assert isinstance(made, Scorer)
    assert made.score(CTX).value == 0.25


def test_an_instance_may_name_and_describe_itself() -> None:
    made = ends_with("sorry", name="says_sorry")
    assert (made.name, made.description) == ("says_sorry", "Ends with sorry")
    assert made.score(CTX).value == 1.0


def test_a_classs_options_are_checked() -> None:
    with pytest.raises(ScorerError, match="keyword_match: the option 'keywords' is 'refund'"):
        keyword_match("refund")


def test_a_function_of_options_builds_scorers() -> None:
    made = length(most=100)
    assert (made.name, made.description, made.inline) == (
        "length",
        "Whether the output is short.",
        True,
    )
    score = made.score(CTX)
    assert (score.value, score.label) == (1.0, "short")
    assert length().score(CTX).label == "long"
    assert score.origin is not None
    assert score.origin.config == {"most": 100}


def test_a_function_of_options_may_return_a_scorer_of_its_own_making() -> None:
    made = has_word("refund")
    assert (made.name, made.description) == ("has_refund", "Has refund")
    assert made.origin.config == {"word": "refund"}
    assert made.score(CTX).value == 1.0


def _two(ctx: EvalContext, other: int) -> float:
    return 0.5


def _none() -> float:
    return 0.5


class _Idle:
    pass


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (3, "a scorer is made of a function or a class, not 3"),
        (polite, "a scorer is made of a function or a class, not Scorer('polite')"),
        (_two, "_two asks for 'other', which no scorer is given"),
        (_none, "_none must take exactly one argument, the context"),
        (_Idle, "the class _Idle needs a method `evaluate(self, ctx)`"),
        (lambda ctx: 1, "'<lambda>' cannot name a scorer"),
    ],
)
def test_what_cannot_be_a_scorer_is_refused(target: Any, message: str) -> None:
    with pytest.raises(ScorerError) as caught:
        scorer(target)
    assert message in str(caught.value)


def test_wrong_facts_about_a_class_are_refused_where_it_is_defined() -> None:
    with pytest.raises(ScorerError, match="threshold is 7"):
        scorer(threshold=7)(_Idle)
