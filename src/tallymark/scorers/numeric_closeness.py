"""`numeric_closeness`: how near is the number in the answer to the expected one?"""

from __future__ import annotations

import math
import re
import sys
from typing import TYPE_CHECKING, Any, Literal

from tallymark.scorers.expectations import has_alternatives, make_missing_score
from tallymark.scoring import Score, configurable
from tallymark.scoring.score import show_value
from tallymark.scoring.scorer_options import demand
from tallymark.text import format_digits

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallymark.scoring import EvalContext

# A digit that follows a letter ("v2") or another number and a point ("1.2.3") begins no number;
# a minus after a letter or digit ("GPT-4", "3-4") is a hyphen.
_NUMBER = re.compile(
    r"(?<!\w)(?<!\d\.)[-+]?"
    r"(?:(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?|(?<!\.)\.\d+)(?:[eE][-+]?\d+)?"
)
_MINUS = "\u2212"  # the typographic one


@configurable(blocking=False)
def numeric_closeness(
    relative: float = 0.01,
    absolute: float = 0.0,
    zero_at: float = 10.0,
    take: Literal["last", "first"] = "last",
) -> Callable[[EvalContext], Score]:
    """1 within the tolerance, then falling linearly to 0 at `zero_at` times the tolerance.

    The tolerance is max(absolute, relative * |expected|). The number is the last (or first) in
    the output, written with a decimal point; commas between thousands are understood, units and
    percent signs are not. expected.output is a number, or text that is one; of several
    texts the nearest counts.
    """
    name = "numeric_closeness"
    demand(0 <= relative < math.inf, name, "relative", relative, "a finite number, 0 or more")
    demand(0 <= absolute < math.inf, name, "absolute", absolute, "a finite number, 0 or more")
    demand(1 <= zero_at < math.inf, name, "zero_at", zero_at, "a finite number, 1 or more")

    def score(ctx: EvalContext) -> Score:
        expected = ctx.expected.output
        if expected is None:
            return make_missing_score(name, "expected.output")
        several = expected if has_alternatives(expected) else [expected]
        wanted = [number for each in several if (number := _as_number(each)) is not None]
        if not wanted or len(wanted) < len(several):
            return Score.failed(f"{name}: expected.output is {show_value(expected)}, not a number")
        output = ctx.output_text
        numbers = _NUMBER.findall(output.replace(_MINUS, "-"))
        if not numbers:
            return Score(0.0, "No number in the output" if output.strip() else "Empty output")
        got = float(numbers[-1 if take == "last" else 0].replace(",", ""))
        values = [
            _value(abs(got - each), max(absolute, relative * abs(each)), zero_at) for each in wanted
        ]
        best = max(values)
        nearest = wanted[values.index(best)]
        return Score(best, f"Got {format_digits(got)}, expected {format_digits(nearest)}")

    return score


def _value(error: float, tolerance: float, zero_at: float) -> float:
    if error <= tolerance:
        return 1.0
    end = tolerance * zero_at
    return 0.0 if error >= end else (end - error) / (end - tolerance)


def _as_number(value: Any) -> float | None:
    """A finite number, also from text that is one; None when it is none."""
    if isinstance(value, str):
        text = value.strip().replace(_MINUS, "-")
        value = float(text.replace(",", "")) if _NUMBER.fullmatch(text) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) <= sys.float_info.max else None
