"""What a model call cost, from the price table of `genai_prices`, where the trace does not say."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache

_DAY_MS = 86_400_000
_FAR_MS = 4e12  # beyond it, a start time is not one


def price(
    model: str | None,
    provider: str | None,
    tokens: tuple[int | None, int | None],
    *,
    cached: int = 0,
    start_ms: float | None = None,
) -> float | None:
    """US dollars for (input, output) tokens; None when the model or its price is not known.

    `cached` is the part of the input that was read from a cache. Prices are those of the day.
    """
    inputs, outputs = tokens
    if not model or (inputs is None and outputs is None):
        return None
    # By the day, not the moment, so that the calls of a day share entries of the cache.
    day = int(start_ms // _DAY_MS) if start_ms and 0 < start_ms < _FAR_MS else None
    return _look_up_price(model, provider, inputs or 0, outputs or 0, min(cached, inputs or 0), day)


@lru_cache(maxsize=8192)
def _look_up_price(
    model: str, provider: str | None, inputs: int, outputs: int, cached: int, day: int | None
) -> float | None:
    from genai_prices import Usage, calc_price  # noqa: PLC0415 (heavy)

    usage = Usage(input_tokens=inputs, output_tokens=outputs, cache_read_tokens=cached)
    moment = None if day is None else datetime.fromtimestamp(day * _DAY_MS / 1000, UTC)
    prefix, _, rest = model.replace(":", "/", 1).partition("/")
    # As given first; then `openai/gpt-4o` and `openai:gpt-4o`, which name their provider.
    for name, by in ((model, provider), (model, None), (rest, prefix), (rest, None)):
        try:
            found = calc_price(usage, name, provider_id=by, genai_request_timestamp=moment)
            return float(found.total_price)
        except (LookupError, ValueError):
            continue
    return None
