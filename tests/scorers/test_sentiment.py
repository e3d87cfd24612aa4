from __future__ import annotations

from typing import Any

import pytest
from tests.scorers.contexts import said

from tallymark.errors import ScorerError
from tallymark.scorers.sentiment import sentiment


@pytest.mark.parametrize(
    ("output", "value", "reason", "counts"),
    [
        ("", 0.5, "Neutral sentiment", None),
        ("The sky is blue.", 0.5, "Neutral sentiment", None),
        ("Great, thanks!", 1.0, "Sentiment: positive", (2, 0)),
        ("GREAT but wrong and bad", 1 / 3, "Sentiment: negative", (1, 2)),
        ("good and bad", 0.5, "Sentiment: negative", (1, 1)),
        ("good good good bad", 0.5, "Sentiment: negative", (1, 1)),
        ("It failed with an error.", 0.0, "Sentiment: negative", (0, 2)),
        ("goodness, excellently helpful", 1.0, "Sentiment: positive", (3, 0)),
        ("très good 🎉", 1.0, "Sentiment: positive", (1, 0)),
    ],
)
def test_the_document_s_values(
    output: str, value: float, reason: str, counts: tuple[int, int] | None
) -> None:
    score = sentiment().score(said(output))
    assert (score.value, score.reason) == (value, reason)
    known = {} if counts is None else {"positive_count": counts[0], "negative_count": counts[1]}
    assert score.metadata == known


def test_words_of_one_s_own_are_found_in_any_case() -> None:
    mine = sentiment(positive=["Müsli"], negative=["ÖDE"])
    assert mine.score(said("MÜSLI")).value == 1.0
    assert mine.score(said("öde")).value == 0.0
    assert mine.score(said("good")).value == 0.5


def test_the_words_are_part_of_the_origin() -> None:
    assert sentiment().origin.config["negative"] == ("bad", "terrible", "wrong", "error", "fail")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"positive": []}, "sentiment: the option 'positive' is [] (list)"),
        ({"negative": ["bad", ""]}, "it must be a list of texts that are not empty"),
        ({"positive": "good"}, "the option 'positive' is 'good'"),
        ({"positive": [None]}, "the option 'positive' is [None]"),
    ],
)
def test_refused_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ScorerError) as refused:
        sentiment(**options)
    assert message in str(refused.value)
