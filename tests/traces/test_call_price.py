"""Prices from the table, and what is not in it."""

from __future__ import annotations

import random
from datetime import UTC, datetime

import pytest
from genai_prices import Usage, calc_price
from genai_prices.data_snapshot import get_snapshot

from tallymark.traces.call_price import price
from tallymark.traces.token_counts import TokenCounts

MILLION = 1_000_000


@pytest.mark.parametrize(
    ("model", "provider", "dollars"),
    [
        ("gpt-4o-mini", "openai", 0.75),
        ("gpt-4o-mini", None, 0.75),
        ("gpt-4o-mini", "a-proxy-of-ours", 0.75),
        ("openai/gpt-4o-mini", None, 0.75),
        ("openai:gpt-4o-mini", None, 0.75),
        ("mockllm/model", None, None),
        ("", None, None),
        (None, "openai", None),
    ],
)
def test_a_model_is_found_by_its_names(
    model: str | None, provider: str | None, dollars: float | None
) -> None:
    tokens = TokenCounts(input_tokens=MILLION, output_tokens=MILLION)
    assert price(model, provider, tokens) == pytest.approx(dollars)


@pytest.mark.parametrize(
    ("tokens", "cached", "dollars"),
    [
        ((MILLION, 0), 0, 0.15),
        ((0, MILLION), 0, 0.6),
        ((MILLION, None), 0, 0.15),
        ((MILLION, 0), MILLION, 0.075),
        ((MILLION, 0), 5 * MILLION, 0.075),
        ((0, 0), 0, 0.0),
        ((None, None), 0, None),
    ],
)
def test_tokens_are_priced_by_kind(
    tokens: tuple[int | None, int | None], cached: int, dollars: float | None
) -> None:
    counts = TokenCounts(input_tokens=tokens[0], output_tokens=tokens[1], cache_read_tokens=cached)
    assert price("gpt-4o-mini", None, counts) == pytest.approx(dollars)


@pytest.mark.parametrize("start_ms", [None, 0.0, 1.7e12, 1e300, -5.0])
def test_an_odd_start_time_does_no_harm(start_ms: float | None) -> None:
    tokens = TokenCounts(input_tokens=MILLION, output_tokens=0)
    assert price("gpt-4o-mini", None, tokens, start_ms=start_ms) == pytest.approx(0.15)


def test_a_model_that_is_cheaper_at_night_is_so_for_its_calls_alone() -> None:
    day, night = (
        datetime(2025, 6, 2, hour, 45, tzinfo=UTC).timestamp() * 1000 for hour in (12, 20)
    )
    tokens = TokenCounts(input_tokens=MILLION, output_tokens=0)
    prices = [price("deepseek-chat", "deepseek", tokens, start_ms=at) for at in (day, night)]
    assert prices == [0.27, 0.135]


def test_every_model_of_the_table_costs_what_the_table_says() -> None:
    """The library itself computes the same price from the same tokens."""
    draw, compared = random.Random(1), 0
    for provider in get_snapshot().providers:
        for model in provider.models:
            inputs, outputs = draw.choice((0, 10, 5000, 300_001)), draw.choice((0, 7, 9000))
            read = draw.randint(0, inputs)
            written = draw.randint(0, inputs - read)
            long, thought = draw.randint(0, written), draw.randint(0, outputs)
            slot = (1_760_000_000 + draw.randrange(10**7)) // 1800 * 1800
            usage = Usage(
                input_tokens=inputs,
                output_tokens=outputs,
                cache_read_tokens=read,
                cache_write_tokens=written,
                cache_write_1h_tokens=long,
                output_reasoning_tokens=thought,
            )
            try:
                expected = calc_price(
                    usage,
                    model.id,
                    provider_id=provider.id,
                    genai_request_timestamp=datetime.fromtimestamp(slot, UTC),
                )
            except LookupError:  # an id that another entry of the table hides
                continue
            tokens = TokenCounts(
                input_tokens=inputs,
                output_tokens=outputs,
                cache_read_tokens=read,
                cache_write_tokens=written,
                cache_write_1h_tokens=long,
                reasoning_tokens=thought,
            )
            found = price(model.id, provider.id, tokens, start_ms=slot * 1000 + 1)
            assert found == float(expected.total_price), (provider.id, model.id, tokens)
            compared += 1
    assert compared > 1000
