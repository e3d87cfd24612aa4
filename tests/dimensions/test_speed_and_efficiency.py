"""Speed and efficiency: what is left of the limit, in thousandths."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tallymark.dimensions import call_efficiency, speed, token_efficiency
from tallymark.errors import InvalidInput


def test_90_percent_of_the_limit_scores_100_on_speed() -> None:
    assert speed(54, 60) == 100
    assert speed(0.9, 1) == 100


@pytest.mark.parametrize(
    ("used", "limit", "score"),
    [(0, 60, 1000), (15, 60, 750), (60, 60, 0), (90, 60, 0), (-1, 60, 1000), (1, 3, 2000 / 3)],
)
def test_speed(used: float, limit: float, score: float) -> None:
    assert speed(used, limit) == score


@pytest.mark.parametrize(
    ("used", "limit", "words"),
    [
        (1, 0, "the time limit must be more than 0"),
        (1, -5, "the time limit must be more than 0"),
        (float("nan"), 60, "the time used must be a finite number, not nan"),
        (None, 60, "the time used must be a finite number, not None"),
        (1, float("inf"), "the time limit must be a finite number, not inf"),
    ],
)
def test_speed_refuses(used: Any, limit: Any, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        speed(used, limit)


@pytest.mark.parametrize("efficiency", [token_efficiency, call_efficiency])
@pytest.mark.parametrize(
    ("used", "allowed", "verified", "score"),
    [
        (0, 10, True, 1000),
        (3, 10, True, 700),
        (10, 10, True, 0),
        (11, 10, True, 0),
        (3, 10, False, 0),
        (None, 10, False, 0),
    ],
)
def test_efficiency(
    efficiency: Callable[..., float], used: Any, allowed: float, verified: bool, score: float
) -> None:
    assert efficiency(used, allowed, verified=verified) == score


@pytest.mark.parametrize(
    ("efficiency", "used", "allowed", "words"),
    [
        (token_efficiency, 0, 0, "the number of tokens allowed must be more than 0"),
        (call_efficiency, None, 5, "the number of calls used must be a finite number, not None"),
        (call_efficiency, -1, 5, "the number of calls used must be 0 or more, not -1"),
    ],
)
def test_efficiency_refuses(
    efficiency: Callable[..., float], used: Any, allowed: float, words: str
) -> None:
    with pytest.raises(InvalidInput, match=words):
        efficiency(used, allowed, verified=True)
