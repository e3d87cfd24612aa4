"""Prices of tokens: the user's `pricing: {input: 3, output: 15}`, and the price table."""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec

from tallymark.errors import InvalidInput, Problem, suggest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_KEYS = ("input", "output")


class Pricing(msgspec.Struct, frozen=True):
    """US dollars for a million input tokens and a million output tokens."""

    input: float
    output: float

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Pricing:
        """From a mapping; every wrong key and value is reported at once."""
        problems = [_report_unknown_key(key) for key in data if key not in _KEYS]
        problems += [
            Problem(f"pricing.{key} must be a number of at least 0, not {data.get(key)!r}")
            for key in _KEYS
            if not _is_price(data.get(key))
        ]
        if problems:
            raise InvalidInput(problems)
        return cls(float(data["input"]), float(data["output"]))

    def cost(self, input_tokens: int, output_tokens: int) -> float:
        """US dollars."""
        return (input_tokens * self.input + output_tokens * self.output) / 1_000_000


def load_prices() -> None:
    """Load the price table and what a lookup in it needs."""
    from genai_prices import Usage, calc_price  # noqa: PLC0415 (heavy)

    calc_price(Usage(input_tokens=1, output_tokens=1), "gpt-4o", provider_id="openai")


@cache
def find_prices(url: str) -> Callable[[str, int, int], float | None] | None:
    """The price table for an address: dollars for a model's input and output tokens.

    None when it does not know whose address this is: a model of the same name elsewhere, on one's
    own machine for one, has another price.
    """
    from genai_prices import Usage, calc_price  # noqa: PLC0415 (heavy)
    from genai_prices.data_snapshot import get_snapshot  # noqa: PLC0415 (heavy)

    try:
        get_snapshot().find_provider(None, None, url)
    except LookupError:
        return None

    def price(model: str, input_tokens: int, output_tokens: int) -> float | None:
        usage = Usage(input_tokens=input_tokens, output_tokens=output_tokens)
        try:
            return float(calc_price(usage, model, provider_api_url=url).total_price)
        except (LookupError, ValueError):
            return None

    return price


def may_be_priced(kind: str, name: str, reference: str) -> bool:
    """True if a model's cost can be known, from the price table or from the model's own report.

    `kind` and `name` are those of its reference.
    """
    if kind in ("http", "https"):
        return find_prices(reference) is not None
    if kind in ("cmd", "echo", "python", "replay"):
        return kind != "echo"
    from genai_prices.data_snapshot import get_snapshot  # noqa: PLC0415 (heavy)

    try:
        get_snapshot().find_provider_model(name, None, kind.removesuffix("-responses"), None)
    except LookupError:
        return False
    return True


def find_provider_prices(kind: str, name: str) -> Callable[[int, int], float] | None:
    """Dollars for input and output tokens of a provider's model; None where no table knows it."""
    from genai_prices import Usage, calc_price  # noqa: PLC0415 (heavy)

    def price(input_tokens: int, output_tokens: int) -> float:
        usage = Usage(input_tokens=input_tokens, output_tokens=output_tokens)
        provider = kind.removesuffix("-responses")
        return float(calc_price(usage, name, provider_id=provider).total_price)

    try:
        price(1, 1)
    except (LookupError, ValueError):
        return None
    return price


def _is_price(value: object) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and math.isfinite(value) and value >= 0  # type: ignore[arg-type, operator]


def _report_unknown_key(key: object) -> Problem:
    near = suggest(str(key), _KEYS)
    hint = f"did you mean {near!r}?" if near else "write input and output, in dollars per million"
    return Problem(f"pricing has no key {key!r}", hint=hint)
