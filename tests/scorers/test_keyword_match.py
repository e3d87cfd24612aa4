from __future__ import annotations

from typing import Any

import pytest
from tests.scorers.contexts import said

from tallymark.errors import ScorerError
from tallymark.scorers.keyword_match import keyword_match


@pytest.mark.parametrize(
    ("options", "output", "value", "matched", "missing"),
    [
        ({"keywords": ["sun", "rain"]}, "Sun and RAIN", 1.0, 2, []),
        ({"keywords": ["Sun", "rain"]}, "sunny", 0.5, 1, ["rain"]),
        ({"keywords": ["sun", "rain"]}, "", 0.0, 0, ["sun", "rain"]),
        ({"keywords": ["sun", "rain"]}, "snow", 0.0, 0, ["sun", "rain"]),
        ({"keywords": ["Sun"], "case_sensitive": True}, "sun", 0.0, 0, ["Sun"]),
        ({"keywords": ["Sun"], "case_sensitive": True}, "Sun", 1.0, 1, []),
        ({"keywords": ["a", "b", "c", "d"], "min_match": 2}, "a b", 0.5, 2, ["c", "d"]),
        ({"keywords": ["a", "b", "c", "d"], "min_match": 3}, "a b", 0.0, 2, ["c", "d"]),
        ({"keywords": ["a", "b", "c"], "min_match": 3}, "a b c", 1.0, 3, []),
        ({"keywords": ["ÜBER", "東京"]}, "über 東京", 1.0, 2, []),
        ({"keywords": ["a", "a"]}, "a", 1.0, 2, []),
    ],
)
def test_the_document_s_values(
    options: dict[str, Any], output: str, value: float, matched: int, missing: list[str]
) -> None:
    score = keyword_match(**options).score(said(output))
    assert score.value == value
    assert score.reason == f"Matched {matched}/{len(options['keywords'])} keywords"
    assert score.metadata == {"missing": missing}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "keyword_match needs the option 'keywords'"),
        ({"keywords": []}, "'keywords' is [] (list); it must be a list of at least one text"),
        ({"keywords": ["a", ""]}, "it must be a list of texts that are not empty"),
        ({"keywords": "a"}, "the option 'keywords' is 'a'"),
        ({"keywords": ["a"], "min_match": 2}, "from 1 to the number of keywords (1)"),
        ({"keywords": ["a"], "min_match": 0}, "'min_match' is 0"),
    ],
)
def test_refused_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ScorerError) as refused:
        keyword_match(**options)
    assert message in str(refused.value)
