"""Prices from the table, and what is not in it."""

from __future__ import annotations

import pytest

from tallymark.traces.call_price import price

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
    assert price(model, provider, (MILLION, MILLION)) == pytest.approx(dollars)


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
    assert price("gpt-4o-mini", None, tokens, cached=cached) == pytest.approx(dollars)


@pytest.mark.parametrize("start_ms", [None, 0.0, 1.7e12, 1e300, -5.0])
def test_an_odd_start_time_does_no_harm(start_ms: float | None) -> None:
    assert price("gpt-4o-mini", None, (MILLION, 0), start_ms=start_ms) == pytest.approx(0.15)
