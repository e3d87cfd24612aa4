from __future__ import annotations

from typing import Any

import pytest
from tests.scorers.contexts import said

from tallymark.errors import ScorerError
from tallymark.scorers.word_count import word_count


@pytest.mark.parametrize(
    ("output", "value", "words"),
    [
        ("", 0.0, 0),
        (" \n\t ", 0.0, 0),
        ("Hello world", 0.1, 2),
        ("word " * 19, 0.95, 19),
        ("word " * 20, 1.0, 20),
        ("A " * 100, 1.0, 100),
        ("word " * 200, 1.0, 200),
        ("word " * 230, 0.9, 230),
        ("word " * 500, 0.0, 500),
        ("word " * 900, 0.0, 900),
        ("  Grüße  aus\nKöln 🎉 ", 0.2, 4),
        ("你好世界", 0.05, 1),
    ],
)
def test_the_document_s_values(output: str, value: float, words: int) -> None:
    score = word_count().score(said(output))
    assert score.value == pytest.approx(value)
    assert (score.reason, score.metadata) == (f"Response has {words} words", {"word_count": words})


@pytest.mark.parametrize(
    ("output", "words"),
    [
        ("a\u00a0b\u2003c\u3000d\u2028e", 5),  # all of Unicode's spaces separate
        ("\ufeff", 0),  # a byte order mark is white space to JavaScript, not to Python
        ("a\ufeffb", 2),
        ("a\x1cb\x1fc\x85d", 1),  # white space to Python, not to JavaScript
        ("a\x1cb c", 2),
        ("a\u200bb", 1),  # white space to neither
    ],
)
def test_white_space_is_what_it_is_in_javascript(output: str, words: int) -> None:
    assert word_count().score(said(output)).metadata == {"word_count": words}


@pytest.mark.parametrize(
    ("options", "words", "value"),
    [
        ({"low": 0}, 0, 1.0),
        ({"low": 4, "high": 4, "fade": 1}, 3, 0.75),
        ({"low": 4, "high": 4, "fade": 1}, 4, 1.0),
        ({"low": 4, "high": 4, "fade": 1}, 5, 0.0),
        ({"high": 30, "fade": 10}, 35, 0.5),
    ],
)
def test_options_move_the_range(options: dict[str, Any], words: int, value: float) -> None:
    assert word_count(**options).score(said("word " * words)).value == value


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"low": -1}, "word_count: the option 'low' is -1 (int); it must be 0 or more"),
        ({"low": 30, "high": 20}, "'high' is 20 (int); it must be at least low (30)"),
        ({"fade": 0}, "'fade' is 0 (int); it must be more than 0"),
        ({"low": "20"}, "the option 'low' is '20': Expected `int`, got `str`"),
        ({"low": None}, "the option 'low' is None"),
        ({"lowest": 1}, "word_count has no option 'lowest'"),
    ],
)
def test_refused_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ScorerError) as refused:
        word_count(**options)
    assert message in str(refused.value)
