from __future__ import annotations

from typing import Any

import pytest

from tallymark.errors import InvalidInput
from tallymark.models.token_prices import Pricing, find_prices


def test_prices_are_dollars_for_a_million_tokens() -> None:
    assert Pricing.of({"input": 3, "output": 15}).cost(1000, 200) == pytest.approx(0.006)


def test_a_price_of_zero_is_a_price() -> None:
    assert Pricing.of({"input": 0, "output": 0.0}).cost(1000, 200) == 0


@pytest.mark.parametrize(
    ("data", "messages"),
    [
        ({"input": 1}, ["pricing.output must be a number of at least 0, not None"]),
        ({"input": -1, "output": 1}, ["pricing.input must be a number of at least 0, not -1"]),
        ({"input": True, "output": 1}, ["pricing.input must be"]),
        ({"input": float("nan"), "output": 1}, ["pricing.input must be"]),
        (
            {"inptu": 1, "output": "1"},
            ["no key 'inptu'; did you mean 'input'?", "pricing.input", "pricing.output"],
        ),
    ],
)
def test_wrong_prices_are_refused_all_at_once(data: dict[str, Any], messages: list[str]) -> None:
    with pytest.raises(InvalidInput) as caught:
        Pricing.of(data)
    assert len(caught.value.problems) == len(messages)
    for problem, message in zip(caught.value.problems, messages, strict=True):
        assert message in str(problem)


def test_the_table_knows_providers_by_their_address() -> None:
    prices = find_prices("https://api.openai.com/v1/chat/completions")
    assert prices is not None
    assert prices("gpt-4o-mini", 1_000_000, 0) == pytest.approx(0.15)
    assert prices("no-such-model", 1, 1) is None


def test_an_address_of_ones_own_has_no_known_price() -> None:
    assert find_prices("http://127.0.0.1:8000/v1/chat/completions") is None
