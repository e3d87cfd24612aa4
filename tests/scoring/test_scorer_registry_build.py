from __future__ import annotations

from typing import Any

import pytest

from tallymark.errors import ScorerError
from tallymark.scoring import EvalContext, Scorer, scorer
from tallymark.scoring.scorer_registry import build_scorer


@scorer
def fixed(ctx: EvalContext) -> float:
    return 0.5


class AtLeast:
    def __init__(self, words: int, threshold: float = 0.5) -> None:
        if words < 0:
            raise ValueError("words must be 0 or more")
        self.words = words
        self.threshold = threshold

    def evaluate(self, ctx: EvalContext) -> bool:
        return len(ctx.output.split()) >= self.words


at_least = scorer(name="at_least")(AtLeast)


def at_most(words: int, unit: str = "words") -> Scorer:
    @scorer(name="at_most")
    def made(ctx: EvalContext) -> bool:
        return len(ctx.output.split()) <= words

    return made


def plain(ctx: EvalContext) -> float:
    return 0.5


def gives_text() -> str:
    return "scorer"


def test_a_scorer_without_options_is_itself() -> None:
    assert build_scorer(fixed, "fixed", {}) is fixed


@pytest.mark.parametrize(
    ("entry", "options", "config"),
    [
        (at_least, {"words": 3}, {"words": 3, "threshold": 0.5}),
        (at_most, {"words": 3}, {"words": 3, "unit": "words"}),
    ],
)
def test_a_built_scorer_remembers_all_its_options(
    entry: Any, options: dict[str, Any], config: dict[str, Any]
) -> None:
    assert build_scorer(entry, "x", options).origin.config == config


@pytest.mark.parametrize(
    ("entry", "options"), [(fixed, {}), (at_least, {"words": 1}), (at_most, {"words": 1})]
)
def test_every_scorer_takes_a_name_and_a_threshold(entry: Any, options: dict[str, Any]) -> None:
    made = build_scorer(entry, "x", {**options, "name": "mine", "threshold": 0.9})
    assert (made.name, made.threshold) == ("mine", 0.9)


@pytest.mark.parametrize(
    ("entry", "options", "message"),
    [
        (fixed, {"words": 1}, "x takes no options, but 'words' was given"),
        (fixed, {"name": 3}, "3 cannot name a scorer"),
        (at_least, {}, "x needs the option 'words'"),
        (at_least, {"word": 1}, "x has no option 'word'; did you mean 'words'?"),
        (at_least, {"words": "3"}, "x: the option 'words' is '3'"),
        (at_least, {"words": -1}, "x refuses its options: ValueError: words must be 0 or more"),
        (at_most, {"words": 1.5}, "x: the option 'words' is 1.5"),
        (at_most, {"words": 1, "threshold": 7}, "at_most: threshold is 7"),
        (plain, {}, "x is a plain function; put @scorer above it"),
        (gives_text, {}, "x gave 'scorer', not a scorer"),
        (int, {}, "x is <class 'int'> (type), not a scorer"),
        (0.5, {}, "x is 0.5, not a scorer"),
    ],
)
def test_what_cannot_be_built_is_refused(entry: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ScorerError) as caught:
        build_scorer(entry, "x", options)
    assert message in str(caught.value)
