"""`Dimension`: one thing that a submission is scored on, and `dims()`, which weights several."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import Any

from tallymark.errors import InvalidInput, Problem, suggest
from tallymark.scoring.score import scalar, show_value

MAX_SCORE = 1000
FEWEST, MOST = 2, 6
TOLERANCE = Fraction(1, 1000)
"""Largest distance of the sum of the weights from 1."""

_KEY = re.compile(r"[a-z][a-z0-9_]{0,63}")


@dataclass(frozen=True, slots=True)
class Dimension:
    """A dimension: its key in every file and response, and its texts and colour on pages."""

    key: str
    label: str
    description: str
    color: str

    def __post_init__(self) -> None:
        """Refuse a key that a formula could not name, and blank or missing texts."""
        problems = [
            Problem(
                f"dimension {show_value(self.key)}: {field} must be text, not {show_value(text)}"
            )
            for field in _TEXT_FIELDS
            if not isinstance(text := getattr(self, field), str) or not text.strip()
        ]
        key: object = self.key
        if not isinstance(key, str) or not _KEY.fullmatch(key):
            hint = "write a small letter, then up to 63 small letters, digits and underscores"
            problems.insert(
                0, Problem(f"{show_value(self.key)} cannot be a dimension's key", hint=hint)
            )
        if problems:
            raise InvalidInput(problems)


_TEXT_FIELDS = tuple(field.name for field in fields(Dimension) if field.name != "key")
"""The fields that an override may change."""


def _make_table(*rows: tuple[str, str, str, str]) -> dict[str, Dimension]:
    return {row[0]: Dimension(*row) for row in rows}


CORE = _make_table(
    ("correctness", "Correctness", "Accuracy of the primary answer or identification", "Emerald"),
    ("completeness", "Completeness", "Coverage of all required targets, actions, or parts", "Gold"),
    ("precision", "Precision", "Fraction of reported findings that are genuine", "Coral"),
    ("methodology", "Methodology", "Quality of reasoning, investigation, and reporting", "Purple"),
    ("speed", "Speed", "Time efficiency relative to the time limit", "Sky"),
    ("code_quality", "Code Quality", "Quality of generated, modified, or optimized code", "Coral"),
    ("analysis", "Analysis", "Depth of evidence gathering and source investigation", "Gold"),
)
EFFICIENCY = _make_table(
    ("token_efficiency", "Token Efficiency", "Token usage relative to budget", "Teal"),
    ("call_efficiency", "Call Efficiency", "LLM/tool calls relative to limits", "Indigo"),
)
_KNOWN_DIMENSIONS = CORE | EFFICIENCY
# By key or by Dimension; not a union, because mappings are invariant in their keys.
Weights = Mapping[Any, float]


@dataclass(frozen=True, slots=True)
class WeightedDimension:
    """A dimension and its share of the total, exactly as it was written."""

    dimension: Dimension
    weight: Fraction

    @property
    def key(self) -> str:
        """The dimension's key."""
        return self.dimension.key


def dims(
    weights: Weights,
    overrides: Mapping[str, Mapping[str, str]] | None = None,
) -> tuple[WeightedDimension, ...]:
    """Choose 2 to 6 dimensions with weights that sum to 1, in the order given.

    A key is one of `CORE` or `EFFICIENCY`, or a `Dimension` of one's own. `overrides` changes
    the label, description or color that a dimension has here. All mistakes are reported together.
    """
    for name, given in (("weights", weights), ("overrides", overrides or {})):
        if not isinstance(given, Mapping):
            raise InvalidInput(
                f"the {name} must be a mapping by dimension, not {show_value(given)}"
            )
    problems: list[Problem] = []
    found = [each for key in weights if (each := _find_dimension(key, problems)) is not None]
    problems += _report_repeated([dimension.key for dimension in found])
    shares = _read_shares(weights, problems)
    overridden = _check_overrides(overrides or {}, [_get_key(key) for key in weights], problems)
    shown_as = [_override(dimension, overridden, problems) for dimension in found]
    if problems:
        raise InvalidInput(problems)
    return tuple(map(WeightedDimension, shown_as, shares))


def _get_key(key: str | Dimension) -> str:
    return key.key if isinstance(key, Dimension) else key


def _find_dimension(key: object, problems: list[Problem]) -> Dimension | None:
    if isinstance(key, Dimension):
        if key != _KNOWN_DIMENSIONS.get(key.key, key):
            hint = "change it by an override, or choose another key"
            problems.append(Problem(f"{key.key!r} is a dimension that already exists", hint=hint))
        return key
    if isinstance(key, str) and key in _KNOWN_DIMENSIONS:
        return _KNOWN_DIMENSIONS[key]
    close = suggest(key, _KNOWN_DIMENSIONS) if isinstance(key, str) else None
    hint = (
        f"did you mean {close!r}?"
        if close
        else f"choose from {', '.join(_KNOWN_DIMENSIONS)}, or give a Dimension of your own"
    )
    problems.append(Problem(f"there is no dimension {show_value(key)}", hint=hint))
    return None


def _report_repeated(keys: list[str]) -> list[Problem]:
    return [
        Problem(f"dimension {key!r} is given {count} times; give it once")
        for key, count in Counter(keys).items()
        if count > 1
    ]


def _read_shares(weights: Weights, problems: list[Problem]) -> list[Fraction]:
    """The weights as written, once their number, each of them and their sum are right."""
    if not FEWEST <= len(weights) <= MOST:
        problems.append(Problem(f"choose {FEWEST} to {MOST} dimensions, not {len(weights)}"))
    shares = []
    for key, weight in weights.items():
        share = to_fraction(weight)
        if share is not None and 0 < share <= 1:
            shares.append(share)
            continue
        wanted = "a number above 0 and at most 1"
        message = f"the weight of {_get_key(key)!r} must be {wanted}, not {show_value(weight)}"
        problems.append(Problem(message))
    total = sum(shares, Fraction(0))
    if shares and len(shares) == len(weights) and abs(total - 1) > TOLERANCE:
        names = ", ".join(str(_get_key(key)) for key in weights)
        problems.append(Problem(f"the weights of {names} sum to {to_json_number(total)}, not to 1"))
    return shares


def _check_overrides(
    overrides: Mapping[Any, Any], keys: list[str], problems: list[Problem]
) -> dict[str, dict[str, Any]]:
    """The overrides of chosen dimensions, without those that could change nothing."""
    checked: dict[str, dict[str, Any]] = {}
    for key, changes in overrides.items():
        if key not in keys:
            close = suggest(key, keys) if isinstance(key, str) else None
            hint = f"did you mean {close!r}?" if close else "give it a weight, or drop the override"
            problems.append(
                Problem(f"{show_value(key)} is overridden but has no weight", hint=hint)
            )
        elif not isinstance(changes, Mapping):
            message = f"the override of {key!r} must be a mapping, not {show_value(changes)}"
            problems.append(Problem(message, hint=f"its keys are {', '.join(_TEXT_FIELDS)}"))
        else:
            unknown = [field for field in changes if field not in _TEXT_FIELDS]
            problems += [_explain_unknown_field(key, field) for field in unknown]
            checked[key] = {f: text for f, text in changes.items() if f not in unknown}
    return checked


def _explain_unknown_field(key: str, field: object) -> Problem:
    close = suggest(field, _TEXT_FIELDS) if isinstance(field, str) else None
    hint = f"did you mean {close!r}?" if close else f"choose from {', '.join(_TEXT_FIELDS)}"
    return Problem(f"the override of {key!r} cannot change {show_value(field)}", hint=hint)


def _override(
    dimension: Dimension, overrides: dict[str, dict[str, Any]], problems: list[Problem]
) -> Dimension:
    try:
        return replace(dimension, **overrides.get(dimension.key, {}))
    except InvalidInput as error:
        problems += error.problems
        return dimension


def to_fraction(value: object) -> Fraction | None:
    """The number as written, or None for what is no finite number (bools are none)."""
    value = scalar(value)
    if isinstance(value, bool) or not isinstance(value, int | float | Fraction):
        return None
    if not isinstance(value, float):
        return Fraction(value)
    # The repr of a float is the shortest text for it: what the author wrote.
    return Fraction(repr(float(value))) if math.isfinite(value) else None


def require_number(value: object, name: str, *, above: int | None = None) -> Fraction:
    """The number that an argument must be, if need be more than `above`; else InvalidInput."""
    number = to_fraction(value)
    if number is None:
        raise InvalidInput(f"{name} must be a finite number, not {show_value(value)}")
    if above is not None and number <= above:
        raise InvalidInput(f"{name} must be more than {above}, not {show_value(value)}")
    return number


def clamp_score(score: Fraction) -> Fraction:
    """Held within 0-1000."""
    return min(max(score, Fraction(0)), Fraction(MAX_SCORE))


def to_json_number(number: Fraction) -> int | float:
    """For JSON: a whole number as an int, any other as the nearest float."""
    return int(number) if number.denominator == 1 else float(number)
