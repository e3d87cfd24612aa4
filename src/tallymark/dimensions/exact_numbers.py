"""Numbers taken as they are written: 0.15 is 3/20, so that 690 x 0.15 is 103.5 to the bit."""

from __future__ import annotations

import math
from fractions import Fraction

from tallymark.errors import InvalidInput
from tallymark.scoring.score import scalar, show_value

MAX_SCORE = 1000


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
