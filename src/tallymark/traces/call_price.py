"""Cost of a model call by the prices of `genai_prices`, where the trace does not report it."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, TypedDict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from genai_prices.types import ModelPrice, PriceCalculation, TieredPrices

    from tallymark.traces.token_counts import TokenCounts
    from tallymark.traces.trace import CostSource, Span

_SLOT_MS = 1_800_000
"""Half an hour: prices by the time of day change at these."""
_FAR_MS = 4e12  # beyond it, a start time is not one
_MILLION = Decimal(1_000_000)


class CostFields(TypedDict):
    """Fields of a span."""

    cost: float | None
    cost_computed: bool


class _Rates(NamedTuple):
    """US dollars for a million tokens of each kind."""

    fresh: Decimal
    cache_read: Decimal
    cache_write: Decimal
    cache_write_1h: Decimal
    output: Decimal
    reasoning: Decimal


class _Tariff(NamedTuple):
    """Rates of a model at some time, by the number of input tokens."""

    base: _Rates
    tiers: tuple[tuple[int, _Rates], ...]
    """Rates for all tokens of a call above each number of input tokens, highest first."""
    per_request: Decimal


def price(
    model: str | None,
    provider: str | None,
    tokens: TokenCounts | Span,
    *,
    start_ms: float | None = None,
) -> float | None:
    """US dollars for a call; None when its tokens, the model or its price are not known."""
    if not model or (tokens.input_tokens is None and tokens.output_tokens is None):
        return None
    slot = int(start_ms // _SLOT_MS) if start_ms and 0 < start_ms < _FAR_MS else None
    tariff = _find_tariff(model, provider, slot)
    if tariff is None:
        return None
    inputs, outputs = tokens.input_tokens or 0, tokens.output_tokens or 0
    rates = next((each for start, each in tariff.tiers if inputs > start), tariff.base)
    # A source that reports more cached tokens than input must not lead to a negative price.
    read = min(tokens.cache_read_tokens or 0, inputs)
    written = min(tokens.cache_write_tokens or 0, inputs - read)
    long = min(tokens.cache_write_1h_tokens or 0, written)
    thought = min(tokens.reasoning_tokens or 0, outputs)
    total = (
        (inputs - read - written) * rates.fresh
        + read * rates.cache_read
        + (written - long) * rates.cache_write
        + long * rates.cache_write_1h
        + (outputs - thought) * rates.output
        + thought * rates.reasoning
    )
    return float(total / _MILLION + tariff.per_request)


def cost_fields(
    reported: float | None,
    model: str | None,
    provider: str | None,
    tokens: TokenCounts | Span,
    *,
    start_ms: float | None = None,
) -> CostFields:
    """The cost fields of a span: the reported cost, otherwise the one by the price table."""
    if reported is not None:
        return {"cost": reported, "cost_computed": False}
    computed = price(model, provider, tokens, start_ms=start_ms)
    return {"cost": computed, "cost_computed": computed is not None}


def describe_cost_source(source: CostSource | None) -> str:
    """The origin of a trace's cost for readers, with the version of the price table."""
    if source is None or source == "reported":
        return "" if source is None else "reported by the trace"
    from importlib.metadata import version  # noqa: PLC0415 (loads zipfile)

    part = "partly computed" if source == "mixed" else "computed"
    return f"{part} from tokens with genai-prices {version('genai-prices')}"


@lru_cache(maxsize=8192)
def _find_tariff(model: str, provider: str | None, slot: int | None) -> _Tariff | None:
    """Find the rates of a model: multiplying them is a hundred times faster than a lookup."""
    from genai_prices import Usage, calc_price  # noqa: PLC0415 (heavy)

    moment = None if slot is None else datetime.fromtimestamp(slot * _SLOT_MS / 1000, UTC)
    for name, by in _list_names(model, provider):
        try:
            found = calc_price(Usage(), name, provider_id=by, genai_request_timestamp=moment)
        except (LookupError, ValueError):
            continue
        return _read_tariff(found)
    return None


def _list_names(model: str, provider: str | None) -> Iterator[tuple[str, str | None]]:
    """The name as given, then split where it names its provider: `openai/gpt-4o`."""
    prefix, _, rest = model.replace(":", "/", 1).partition("/")
    yield from ((model, provider), (model, None), (rest, prefix), (rest, None))


def _read_tariff(found: PriceCalculation) -> _Tariff:
    prices = found.model_price
    listed = [each for each in vars(prices).values() if hasattr(each, "tiers")]
    starts = sorted({tier.start for each in listed for tier in each.tiers}, reverse=True)
    return _Tariff(
        base=_read_rates(prices, 0),
        tiers=tuple((start, _read_rates(prices, start + 1)) for start in starts),
        per_request=found.total_price,
    )


def _read_rates(prices: ModelPrice, inputs: int) -> _Rates:
    """The rates for a number of input tokens; a kind without a rate has that of its whole."""

    def read(name: str, whole: Decimal) -> Decimal:
        found: Decimal | TieredPrices | None = getattr(prices, f"{name}_mtok", None)
        if found is None:
            return whole
        if isinstance(found, Decimal):
            return found
        reached = [tier.price for tier in found.tiers if inputs > tier.start]
        return reached[-1] if reached else found.base

    fresh = read("input", Decimal(0))
    written = read("cache_write", fresh)
    output = read("output", Decimal(0))
    return _Rates(
        fresh=fresh,
        cache_read=read("cache_read", fresh),
        cache_write=written,
        cache_write_1h=read("cache_write_1h", written),
        output=output,
        reasoning=read("output_reasoning", output),
    )
