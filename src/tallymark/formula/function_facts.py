"""For each function, what it makes of the facts of its arguments.

`exp`, `log` and `pow` are not exact, so their ranges are widened by a few units in the last place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from tallymark.formula.functions import ceil, clamp, floor, round_half_away
from tallymark.formula.ranges import (
    INF,
    NEVER,
    Direction,
    Directions,
    Fact,
    Range,
    corners,
    hull,
    join_directions,
    require_range,
    scale_directions,
)
from tallymark.formula.tree import Call, Number

if TYPE_CHECKING:
    from tallymark.formula.bounds import Analysis

_ULPS = 4

# One rule for each function: (analysis, its call, the facts of its arguments) -> its fact.


def _make_rising_rule(apply: Callable[..., float], ulps: int = 0) -> Callable[..., Fact]:
    """A function of one argument that never falls."""

    def rule(_: Analysis, node: Call, facts: list[Fact]) -> Fact:
        span = require_range(facts[0])
        extra = [a.value for a in node.arguments[1:] if isinstance(a, Number)]
        ends = Range(_apply_at(apply, span.low, *extra), _apply_at(apply, span.high, *extra))
        return Fact(_widen(ends, ulps), facts[0].directions)

    return rule


def _widen(span: Range, ulps: int) -> Range:
    """A little more at both ends, for functions that are not exact; they are where they give 0."""
    low, high = span.low, span.high
    for _ in range(ulps):
        low = math.nextafter(low, -INF) if low else low
        high = math.nextafter(high, INF) if high else high
    return Range(low, high)


def _apply_at(apply: Callable[..., float], value: float, *extra: float) -> float:
    """The value at an end of a range, infinite ends and overflow included."""
    if math.isinf(value):
        return 0.0 if apply is math.exp and value < 0 else value
    try:
        return apply(value, *extra)
    except OverflowError:
        return math.copysign(INF, value)


def _limit_from_zero(kind: str, rule: Callable[..., Fact]) -> Callable[..., Fact]:
    """A function that is defined from 0 on only (above it, for logarithms)."""

    def limit(analysis: Analysis, node: Call, facts: list[Fact]) -> Fact:
        span = require_range(facts[0])
        # 0 has a square root but no logarithm: the first number that has one is the next float.
        first = 0.0 if kind == "negative-root" else math.nextafter(0.0, INF)
        if span.low < first:
            always = span.high < first
            analysis.warn(kind, node, node.arguments[0], always)
            if always:
                return NEVER
        inside = Fact(Range(max(span.low, first), span.high), facts[0].directions)
        return rule(analysis, node, [inside])

    return limit


def _absolute_fact(_: Analysis, __: Call, facts: list[Fact]) -> Fact:
    span = require_range(facts[0])
    ends = (abs(span.low), abs(span.high))
    low = 0.0 if span.holds_zero else min(ends)
    return Fact(Range(low, max(ends)), scale_directions(facts[0].directions, span.sign))


def _make_extreme_rule(pick: Callable[..., float]) -> Callable[..., Fact]:
    """`min` and `max`: an argument that another always beats can never matter."""

    def rule(analysis: Analysis, node: Call, facts: list[Fact]) -> Fact:
        ranges = [require_range(fact) for fact in facts]
        directions: Directions = {}
        for index, (argument, fact, span) in enumerate(
            zip(node.arguments, facts, ranges, strict=True)
        ):
            others = ranges[:index] + ranges[index + 1 :]
            if any(_is_always_picked(pick, other, span) for other in others):
                why = f"{node.function} always picks another argument"
                analysis.idle.append((argument, why))
            else:
                directions = join_directions(directions, fact.directions)
        return Fact(Range(pick(r.low for r in ranges), pick(r.high for r in ranges)), directions)

    return rule


def _is_always_picked(pick: Callable[..., float], winner: Range, loser: Range) -> bool:
    if winner == loser:
        return False
    return winner.high <= loser.low if pick is min else winner.low >= loser.high


def _clamp_fact(analysis: Analysis, node: Call, facts: list[Fact]) -> Fact:
    value, low, high = (require_range(fact) for fact in facts)
    lowest = clamp(value.low, low.low, high.low)
    highest = clamp(value.high, low.high, high.high)
    if value.low >= low.high and value.high <= high.low and low.high <= high.low:
        analysis.idle += [(limit, "the value never reaches it") for limit in node.arguments[1:]]
    directions: Directions = {}
    for fact in facts:
        directions = join_directions(directions, fact.directions)
    return Fact(Range(lowest, highest), directions)


def _power_fact(analysis: Analysis, node: Call, facts: list[Fact]) -> Fact:
    base, exponent = require_range(facts[0]), require_range(facts[1])
    if base.low < 0.0 or (base.low == 0.0 and exponent.low < 0.0):
        analysis.warn("power", node, node.arguments[0], False)
    names = join_directions(facts[0].directions, facts[1].directions)
    if base.low < 0.0:
        return Fact(Range(-INF, INF), dict.fromkeys(names, Direction.EITHER))
    ends = corners(_raise_power, base, exponent)
    ends = hull(ends, Range(1.0, 1.0)) if exponent.holds_zero else ends
    ends = _widen(ends, _ULPS)
    grows = 1 if base.low >= 1.0 else -1 if base.high <= 1.0 else None
    directions = join_directions(
        scale_directions(facts[0].directions, exponent.sign),
        scale_directions(facts[1].directions, grows),
    )
    return Fact(ends, directions)


def _raise_power(base: float, exponent: float) -> float:
    try:
        return math.pow(base, exponent)
    except (OverflowError, ValueError):  # 0 to a negative power: approached, never reached
        return INF


FUNCTION_FACTS: Mapping[str, Callable[[Analysis, Call, list[Fact]], Fact]] = {
    "min": _make_extreme_rule(min),
    "max": _make_extreme_rule(max),
    "abs": _absolute_fact,
    "sqrt": _limit_from_zero("negative-root", _make_rising_rule(math.sqrt)),
    "log": _limit_from_zero("logarithm", _make_rising_rule(math.log, _ULPS)),
    "log2": _limit_from_zero("logarithm", _make_rising_rule(math.log2, _ULPS)),
    "log10": _limit_from_zero("logarithm", _make_rising_rule(math.log10, _ULPS)),
    "exp": _make_rising_rule(math.exp, _ULPS),
    "pow": _power_fact,
    "clamp": _clamp_fact,
    "round": _make_rising_rule(round_half_away),
    "floor": _make_rising_rule(floor),
    "ceil": _make_rising_rule(ceil),
}
