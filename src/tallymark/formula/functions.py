"""The functions of the language, as a table: other functions do not exist.

A row says how many arguments a function takes and how one value is computed. The numpy form is
in `column_evaluation.py`, the ranges and directions in `ranges.py`; a test checks that each
table has every row.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Function:
    """One row: `least` to `most` arguments, and `apply` for numbers that are all finite.

    `apply` raises ValueError, OverflowError or ZeroDivisionError where there is no value.
    `swallows` is True when a result can be finite although an argument was not.
    """

    signature: str
    least: int
    most: int | None
    apply: Callable[..., float]
    needs: str = ""
    """Requirement on the argument, named where a value is undefined."""
    swallows: bool = False
    help: str = ""
    """Description of the result, for the docs."""


def clamp(value: float, low: float, high: float) -> float:
    """`value`, but not under `low` and not over `high` (`high` wins if they cross)."""
    return min(max(value, low), high)


def round_half_away(value: float, digits: float = 0.0) -> float:
    """Round halves away from zero, as spreadsheets and SQL do: 2.5 gives 3, -2.5 gives -3."""
    scale = math.pow(10.0, digits)
    scaled = value * scale
    whole = float(math.trunc(scaled))
    if abs(scaled - whole) >= 0.5:
        whole += math.copysign(1.0, scaled)
    return whole / scale


def floor(value: float) -> float:
    """The largest whole number that is not above it."""
    return float(math.floor(value))


def ceil(value: float) -> float:
    """The smallest whole number that is not below it."""
    return float(math.ceil(value))


def choose(condition: float, yes: float, no: float) -> float:
    """`yes` unless the condition is 0. Evaluators look at the chosen branch only."""
    return yes if condition != 0.0 else no


FUNCTIONS: dict[str, Function] = {
    "min": Function("min(a, b, ...)", 2, None, min, swallows=True, help="the least of them"),
    "max": Function("max(a, b, ...)", 2, None, max, swallows=True, help="the most of them"),
    "abs": Function("abs(a)", 1, 1, abs, help="without its sign"),
    "sqrt": Function(
        "sqrt(a)", 1, 1, math.sqrt, needs="a number that is not negative", help="the square root"
    ),
    "log": Function(
        "log(a)", 1, 1, math.log, needs="a number above 0", help="the natural logarithm"
    ),
    "log2": Function(
        "log2(a)", 1, 1, math.log2, needs="a number above 0", help="the logarithm to base 2"
    ),
    "log10": Function(
        "log10(a)", 1, 1, math.log10, needs="a number above 0", help="the logarithm to base 10"
    ),
    "exp": Function("exp(a)", 1, 1, math.exp, swallows=True, help="e to the power of a"),
    "pow": Function(
        "pow(base, exponent)",
        2,
        2,
        math.pow,
        needs="a base above 0, or one that the exponent allows",
        swallows=True,
        help="base to the power of exponent",
    ),
    "clamp": Function(
        "clamp(value, low, high)",
        3,
        3,
        clamp,
        swallows=True,
        help="value, but not under low and not over high; high wins if they cross",
    ),
    "round": Function(
        "round(a) or round(a, digits)",
        1,
        2,
        round_half_away,
        help="to whole numbers, or to that many digits; halves go away from zero",
    ),
    "floor": Function(
        "floor(a)", 1, 1, floor, help="the largest whole number that is not above it"
    ),
    "ceil": Function("ceil(a)", 1, 1, ceil, help="the smallest whole number that is not below it"),
    "if": Function(
        "if(condition, then, otherwise)",
        3,
        3,
        choose,
        swallows=True,
        help="then, unless the condition is 0; only the branch that is taken is looked at",
    ),
}

COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "<": float.__lt__,
    "<=": float.__le__,
    ">": float.__gt__,
    ">=": float.__ge__,
    "==": float.__eq__,
    "!=": float.__ne__,
}
