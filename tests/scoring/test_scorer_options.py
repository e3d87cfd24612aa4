from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import pytest

from tallymark.errors import ScorerError
from tallymark.scoring.scorer_options import bind_options

if TYPE_CHECKING:
    from pathlib import Path


def keyword_match(
    keywords: list[str],
    min_match: int = 1,
    ratio: float = 0.5,
    mode: Literal["all", "any"] = "any",
    key: Callable[[str], str] = str.lower,
    stop: str | re.Pattern[str] = "",
) -> None:
    """Stands for any builder."""


@dataclass
class Limits:
    most: int
    least: int = 0


class Lines(msgspec.Struct):
    most: int


def partly_known(words: int, path: Path) -> Path:
    """One of its annotations exists for type checkers only."""
    return path


def anything(**options: Any) -> None:
    """Takes what it gets."""


def nothing() -> None:
    """Takes nothing."""


def test_values_take_the_annotated_type_and_defaults_are_filled_in() -> None:
    bound = bind_options(keyword_match, "k", (), {"keywords": ("a", "b"), "ratio": 1})
    assert bound.arguments == {
        "keywords": ["a", "b"],
        "min_match": 1,
        "ratio": 1.0,
        "mode": "any",
        "key": str.lower,
        "stop": "",
    }
    assert type(bound.arguments["ratio"]) is float


def test_an_annotation_that_cannot_be_checked_lets_the_value_pass() -> None:
    pattern = re.compile("x")
    assert (
        bind_options(keyword_match, "k", (["a"],), {"stop": pattern}).arguments["stop"] is pattern
    )


def test_a_builder_of_any_options_takes_them() -> None:
    assert bind_options(anything, "k", (), {"x": 1}).kwargs == {"x": 1}


@pytest.mark.parametrize(
    ("builder", "given", "message"),
    [
        (keyword_match, {}, "k needs the option 'keywords'"),
        (
            keyword_match,
            {"keyword": ["a"]},
            "did you mean 'keywords'? Its options are keywords, min_match, ratio, mode, key, stop",
        ),
        (keyword_match, {"keywords": 3}, "k: the option 'keywords' is 3 (int): Expected `array`"),
        (
            keyword_match,
            {"keywords": ["a", 3]},
            "the option 'keywords' is ['a', 3] (list): Expected `str`, got `int` (at keywords[1])",
        ),
        (keyword_match, {"keywords": [], "min_match": "2"}, "the option 'min_match' is '2'"),
        (keyword_match, {"keywords": [], "min_match": True}, "the option 'min_match' is True"),
        (keyword_match, {"keywords": [], "mode": "none"}, "the option 'mode' is 'none'"),
        (
            keyword_match,
            {"keywords": [], "key": "x"},
            "the option 'key' is 'x': Expected `Callable`",
        ),
        (Limits, {"most": "3"}, "k: the option 'most' is '3': Expected `int`, got `str`"),
        (Limits, {}, "k needs the option 'most'"),
        (Lines, {"most": "3"}, "k: the option 'most' is '3': Expected `int`, got `str`"),
        (partly_known, {"words": "3", "path": "x"}, "k: the option 'words' is '3'"),
        (nothing, {"x": 1}, "k takes no options, but 'x' was given"),
    ],
)
def test_wrong_options_are_refused_in_a_sentence(
    builder: Any, given: dict[str, Any], message: str
) -> None:
    with pytest.raises(ScorerError) as caught:
        bind_options(builder, "k", (), given)
    assert message in str(caught.value)


def test_too_many_positional_options_are_refused() -> None:
    with pytest.raises(ScorerError, match="k cannot be built with these options"):
        bind_options(nothing, "k", (1,), {})
