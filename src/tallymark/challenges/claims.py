"""Claims in a competitor's metadata; they prove nothing by themselves."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tallymark.challenges.constraints import MOST
from tallymark.scoring.score import show_value

_RELEASE = re.compile(r"[-@:_](latest|preview|\d[\d.-]*)")
"""Suffix of a model's name that does not change the model: a date or a revision."""

_PROVIDER = re.compile(r"^[a-z-]+:(?!latest$)(?=[a-z])")
"""`openai:gpt-5` begins with a provider; in `mistral:7b` and `mistral:latest` a tag follows."""


@dataclass(frozen=True, slots=True)
class Claims:
    """The claims that can be compared with a trajectory; None where nothing is claimed."""

    tokens: int | None = None
    calls: int | None = None
    cost: float | None = None
    model: str | None = None
    harness: str | None = None


def read_claims(metadata: object) -> tuple[Claims, list[str]]:
    """The claims in a metadata, and a sentence for each that is no claim at all."""
    if not isinstance(metadata, Mapping):
        return Claims(), [f"the metadata must be an object, not {show_value(metadata)}"]
    problems: list[str] = []
    found: dict[str, Any] = {}
    for name, (keys, wanted, read) in _CLAIMS.items():
        key = next((key for key in keys if metadata.get(key) is not None), None)
        if key is None:
            continue
        found[name] = read(metadata[key])
        if found[name] is None:
            problems.append(
                f"the metadata's {key} must be {wanted}, not {show_value(metadata[key])}"
            )
    return Claims(**found), problems


def is_same_model(claimed: str, found: str) -> bool:
    """True if two names mean one model: provider prefix and date may differ."""
    short, long = sorted((_strip_provider(claimed), _strip_provider(found)), key=len)
    return short == long or (
        long.startswith(short) and _RELEASE.fullmatch(long[len(short) :]) is not None
    )


def _strip_provider(model: str) -> str:
    return _PROVIDER.sub("", model.casefold().strip().rpartition("/")[2])


def _read_text(value: object) -> str | None:
    return value if isinstance(value, str) and value.strip() else None


def _read_amount(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= MOST else None


def _read_count(value: object) -> int | None:
    amount = _read_amount(value)
    return None if amount is None or not amount.is_integer() else int(amount)


_WHOLE = "a whole number of at least 0"
_CLAIMS: dict[str, tuple[tuple[str, ...], str, Callable[[object], Any]]] = {
    "tokens": (("tokens_total", "tokens"), _WHOLE, _read_count),
    "calls": (("calls",), _WHOLE, _read_count),
    "cost": (("cost",), "a number of at least 0", _read_amount),
    "model": (("model",), "text", _read_text),
    "harness": (("harness",), "text", _read_text),
}
"""The keys that each claim may stand under (the first counts), what it must be, its reader."""
